#include "kernel/emit_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace snug {
namespace {

constexpr std::int64_t kSmallExtent = 64;     // extents up to here are constants in the code
constexpr std::int64_t kBlockPoints = 16384;  // points per partial reduction
constexpr std::int64_t kBlockRows = 1024;     // or rows, where they are no single axis

/// Times order the phases of a kernel: even times run over the inner axes, odd ones once per point
/// of the outer axes. -1 comes before the first inner phase.
class BodyBuilder {
 public:
  BodyBuilder(const Program& program, const std::vector<bool>& memory, const Cluster& cluster,
              SizeTable& sizes)
      : p_(program), g_(program.graph), memory_(memory), c_(cluster), sizes_(sizes) {
    for (std::size_t i = 0; i < c_.space.size(); ++i)
      if (!sizes_.is(c_.space[i], 1) && !(c_.reduced >> i & 1)) axes.push_back(static_cast<int>(i));
    outer = static_cast<std::uint32_t>(axes.size());
    for (std::size_t i = 0; i < c_.space.size(); ++i)
      if (!sizes_.is(c_.space[i], 1) && (c_.reduced >> i & 1)) axes.push_back(static_cast<int>(i));
    kernel_axis_.assign(c_.space.size(), -1);
    for (std::size_t i = 0; i < axes.size(); ++i) kernel_axis_[axes[i]] = static_cast<int>(i);
    inner = axes.size() > outer;
  }

  struct Operand {
    Value root;
    SizeId offset;
    DType dtype;
    bool write;
    std::vector<SizeId> strides;  // per kernel axis
    bool operator==(const Operand&) const = default;
  };
  struct Timed {
    Instr instr;
    int time;
  };

  std::vector<int> axes;  // cluster axis per kernel axis, outer ones first
  std::uint32_t outer = 0;
  bool inner = false;
  std::vector<Operand> operands;
  std::vector<Timed> body;
  std::map<std::uint32_t, std::uint32_t> partial_of;  // reduction node -> its Reduce instruction

  int time_of(std::uint32_t id) {
    if (!inner) return -1;
    auto it = times_.find(id);
    return it->second;
  }

  void compute_times() {
    for (std::uint32_t id : c_.nodes) {
      const Node& n = g_.node(id);
      bool reduction = has(*n.op, kReduction);
      bool full = reduction || covers_reduced(c_.maps.at(id));
      int time = full ? 0 : -1;
      for (Value v : n.inputs) {
        std::uint32_t base = base_of(v);
        if (!c_.maps.count(base)) continue;
        int t = times_.at(base);
        bool odd = t % 2 != 0;
        time = std::max(time, full && odd ? t + 1 : t);
      }
      if (!full && time % 2 == 0) ++time;
      times_[id] = reduction ? time + 1 : time;
    }
  }

  /// Whether a member is computed in the inner loops.
  bool covers_reduced(const AxisMap& map) const {
    if (!inner) return true;
    for (int axis : map)
      if (axis >= 0 && (c_.reduced >> axis & 1)) return true;
    return false;
  }

  /// The instruction that holds member `id` at `time`; values of inner phases are computed again
  /// in later ones, which costs less than memory.
  std::uint32_t member(std::uint32_t id, int time) {
    int own = time_of(id);
    int at = inner && own % 2 == 0 ? time : own;
    Key key{id, at, {}};
    if (auto it = memo_.find(key); it != memo_.end()) return it->second;
    const Node& n = g_.node(id);
    std::uint32_t result;
    if (has(*n.op, kReduction)) {
      result = reduction(id, n, own);
    } else {
      result = scalar_body(n, c_.loops.at(id), at);
    }
    memo_[key] = result;
    return result;
  }

  void store(std::uint32_t id, std::uint32_t value) {
    const Node& n = g_.node(id);
    Layout layout = contiguous_layout(sizes_, n.types[0].dims);
    std::uint32_t op = operand({id, 0}, layout, n.types[0].dtype, c_.maps.at(id), n.types[0], true);
    Instr in{Prim::Store, n.types[0].dtype, value};
    in.integer = op;
    body.push_back({in, time_of(id)});
  }

  std::uint32_t push(Instr in, int time) {
    if (in.prim != Prim::Store)
      for (std::size_t i = body.size(); i-- > 0;)
        if (body[i].instr == in &&
            (body[i].time == time ||
             (body[i].time % 2 != 0 && body[i].time < time && in.prim != Prim::Load)))
          return static_cast<std::uint32_t>(i);
    body.push_back({in, time});
    return static_cast<std::uint32_t>(body.size() - 1);
  }

 private:
  using Key = std::tuple<std::uint32_t, int, std::vector<int>>;

  std::uint32_t base_of(Value v) const {
    while (!p_.places.count(v) && !c_.maps.count(v.node) && has(*g_.node(v).op, kView))
      v = g_.node(v).inputs[0];
    if (c_.maps.count(v.node)) return v.node;
    // A view whose base is a member that has memory: the member itself is what is read.
    Value w = v;
    while (has(*g_.node(w).op, kView) && !c_.maps.count(w.node)) w = g_.node(w).inputs[0];
    return c_.maps.count(w.node) ? w.node : v.node;
  }

  std::uint32_t reduction(std::uint32_t id, const Node& n, int own) {
    auto op = static_cast<ReduceOp>(n.attrs.integer("reduce"));
    bool arg = op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
    int at = inner ? own - 1 : -1;
    std::uint32_t x = value(n.inputs[0], c_.loops.at(id), at);
    DType in_type = body[x].instr.dtype;
    DType acc = arg ? in_type : n.attrs.dtype("acc");
    if (in_type != acc) x = push({Prim::Cast, acc, x}, at);
    std::uint32_t r;
    if (!inner) {  // only axes of size 1 are folded
      r = arg ? push({Prim::Const, DType::I64}, at) : x;
    } else {
      Instr in{Prim::Reduce, arg ? DType::I64 : acc, x};
      in.integer = static_cast<std::int64_t>(op);
      body.push_back({in, at});
      r = static_cast<std::uint32_t>(body.size() - 1);
      partial_of[id] = r;
    }
    DType out = n.types[0].dtype;
    return body[r].instr.dtype == out ? r : push({Prim::Cast, out, r}, own);
  }

  std::uint32_t scalar_body(const Node& n, const AxisMap& loop, int at) {
    ScalarBuilder s;
    s.result = n.types[0].dtype;
    for (Value v : n.inputs) s.arg_types.push_back(g_.type(v).dtype);
    Scalar result = n.op->scalar(s, n.attrs);
    std::vector<std::uint32_t> id(s.body.size());
    for (std::size_t j = 0; j < s.body.size(); ++j) {
      Instr in = s.body[j];
      int count = operand_count(in.prim);
      if (in.prim == Prim::Arg) {
        id[j] = value(n.inputs[static_cast<std::size_t>(in.integer)], loop, at);
        continue;
      }
      if (in.prim == Prim::Index) {
        int axis = loop[static_cast<std::size_t>(in.integer)];
        if (axis < 0 || kernel_axis_[axis] < 0)
          in = Instr{Prim::Const, DType::I64};
        else
          in.integer = kernel_axis_[axis];
      }
      if (count > 0) in.a = id[in.a];
      if (count > 1) in.b = id[in.b];
      if (count > 2) in.c = id[in.c];
      id[j] = push(in, at);
    }
    return id[result.id];
  }

  /// The value of `v` at the current point; axis j of v runs along cluster axis loop[j].
  std::uint32_t value(Value v, AxisMap loop, int time) {
    if (std::uint32_t base = base_of(v); c_.maps.count(base)) return member(base, time);
    for (;; v = g_.node(v).inputs[0]) {
      const Type& type = p_.type(v);
      for (std::size_t j = 0; j < type.dims.size(); ++j)
        if (type.broadcastable(j) || sizes_.is(type.dims[j], 1)) loop[j] = kUnitAxis;
      if (auto place = p_.places.find(v); place != p_.places.end())
        return load(place->second, type, loop, time);
      if (!has(*g_.node(v).op, kIndexView)) break;
      loop = below_view(g_, v.node, loop);
    }
    Key key{v.node, time, {loop.begin(), loop.end()}};
    if (auto it = memo_.find(key); it != memo_.end()) return it->second;
    return memo_[key] = scalar_body(g_.node(v), loop, time);  // cheap to compute again
  }

  std::uint32_t load(const Place& place, const Type& type, const AxisMap& loop, int time) {
    if (auto constant = scalar_constant(place.root)) return push(*constant, time);
    Instr in{Prim::Load, type.dtype};
    in.integer = operand(place.root, place.layout, type.dtype, loop, type, false);
    return push(in, time);
  }

  std::optional<Instr> scalar_constant(Value root) const {
    const Node& n = p_.graph.node(root);
    if (n.op->name != "constant") return std::nullopt;
    const Array& a = *n.attrs.array("value");
    if (a.size() != 1) return std::nullopt;
    Instr in{Prim::Const, a.dtype};
    if (is_float(a.dtype))
      in.number = a.at_double(0);
    else
      in.integer = a.at_int(0);
    return in;
  }

  std::uint32_t operand(Value root, const Layout& layout, DType dtype, const AxisMap& loop,
                        const Type& type, bool write) {
    Operand o{root, layout.offset, dtype, write, std::vector<SizeId>(axes.size(), sizes_.zero())};
    for (std::size_t j = 0; j < type.dims.size(); ++j) {
      if (loop[j] < 0 || sizes_.is(type.dims[j], 1)) continue;
      int axis = kernel_axis_[loop[j]];
      if (axis >= 0) o.strides[axis] = layout.strides[j];
    }
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i] == o) return static_cast<std::uint32_t>(i);
    operands.push_back(std::move(o));
    return static_cast<std::uint32_t>(operands.size() - 1);
  }

  const Program& p_;
  const Graph& g_;
  const std::vector<bool>& memory_;
  const Cluster& c_;
  SizeTable& sizes_;
  std::vector<int> kernel_axis_;
  std::unordered_map<std::uint32_t, int> times_;
  std::map<Key, std::uint32_t> memo_;
};

/// a * b + c becomes one instruction, rounded once: fixed here, so that no device and no plan
/// decides it.
void contract_fma(std::vector<BodyBuilder::Timed>& body) {
  std::vector<int> uses(body.size(), 0);
  for (const auto& t : body) {
    int n = operand_count(t.instr.prim);
    if (n > 0) ++uses[t.instr.a];
    if (n > 1) ++uses[t.instr.b];
    if (n > 2) ++uses[t.instr.c];
  }
  for (auto& t : body) {
    if (t.instr.prim != Prim::Add || !is_float(t.instr.dtype)) continue;
    for (auto [product, other] : {std::pair{t.instr.a, t.instr.b}, {t.instr.b, t.instr.a}}) {
      const auto& m = body[product];
      if (m.instr.prim != Prim::Mul || uses[product] != 1 || m.time != t.time) continue;
      t.instr = {Prim::Fma, t.instr.dtype, m.instr.a, m.instr.b, other};
      break;
    }
  }
}

/// Sorts by time, drops what nothing stores, and numbers the phases.
void finish_body(KernelSpec& spec, const std::vector<BodyBuilder::Timed>& body) {
  std::vector<bool> live(body.size(), false);
  for (std::size_t i = body.size(); i-- > 0;) {
    const Instr& in = body[i].instr;
    if (in.prim == Prim::Store) live[i] = true;
    if (!live[i]) continue;
    int n = operand_count(in.prim);
    if (n > 0) live[in.a] = true;
    if (n > 1) live[in.b] = true;
    if (n > 2) live[in.c] = true;
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < body.size(); ++i)
    if (live[i]) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    bool sa = body[a].instr.prim == Prim::Store, sb = body[b].instr.prim == Prim::Store;
    return std::pair(body[a].time, sa) < std::pair(body[b].time, sb);
  });
  std::vector<std::uint32_t> renamed(body.size());
  int time = INT32_MIN;
  for (std::uint32_t i : order) {
    if (body[i].time != time) {
      time = body[i].time;
      std::uint32_t at = static_cast<std::uint32_t>(spec.body.size());
      spec.phases.push_back({at, at, time % 2 == 0});
    }
    Instr in = body[i].instr;
    int n = operand_count(in.prim);
    if (n > 0) in.a = renamed[in.a];
    if (n > 1) in.b = renamed[in.b];
    if (n > 2) in.c = renamed[in.c];
    renamed[i] = static_cast<std::uint32_t>(spec.body.size());
    spec.body.push_back(in);
    spec.phases.back().end = static_cast<std::uint32_t>(spec.body.size());
  }
}

/// Operands that are read come first: a written one may take over an earlier one.
void reads_first(std::vector<BodyBuilder::Timed>& body,
                 std::vector<BodyBuilder::Operand>& operands) {
  std::vector<std::uint32_t> order;
  for (bool write : {false, true})
    for (std::uint32_t i = 0; i < operands.size(); ++i)
      if (operands[i].write == write) order.push_back(i);
  std::vector<std::int64_t> number(operands.size());
  std::vector<BodyBuilder::Operand> sorted;
  for (std::uint32_t i : order) {
    number[i] = static_cast<std::int64_t>(sorted.size());
    sorted.push_back(std::move(operands[i]));
  }
  operands = std::move(sorted);
  for (auto& t : body)
    if (t.instr.prim == Prim::Load || t.instr.prim == Prim::Store)
      t.instr.integer = number[static_cast<std::size_t>(t.instr.integer)];
}

struct Loops {
  std::vector<SizeId> extents;
  std::uint32_t outer = 0;
};

/// Merges neighbouring axes along which every operand is contiguous: real data often has a short
/// innermost axis, and one long axis is what vector code wants.
void collapse(SizeTable& sizes, Loops& loops, std::vector<BodyBuilder::Operand>& operands,
              const KernelSpec& spec, std::uint32_t fixed) {
  std::vector<bool> indexed(loops.extents.size(), false);
  for (const Instr& in : spec.body)
    if (in.prim == Prim::Index) indexed[static_cast<std::size_t>(in.integer)] = true;
  if (std::any_of(indexed.begin(), indexed.end(), [](bool b) { return b; })) return;
  for (std::size_t i = loops.extents.size(); i-- > fixed + 1;) {
    std::size_t a = i - 1;
    if (i == loops.outer || a < fixed) continue;  // one outer, one inner
    bool merge = true;
    for (const auto& o : operands)
      merge &= o.strides[a] == sizes.mul(loops.extents[i], o.strides[i]);
    if (!merge) continue;
    loops.extents[a] = sizes.mul(loops.extents[a], loops.extents[i]);
    loops.extents.erase(loops.extents.begin() + static_cast<std::ptrdiff_t>(i));
    for (auto& o : operands) {
      o.strides[a] = o.strides[i];
      o.strides.erase(o.strides.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (i < loops.outer) --loops.outer;
  }
}

/// Fills in extents, strides and integers of a kernel from its sizes.
void bind_kernel(SizeTable& sizes, Kernel& k, const Loops& loops,
                 const std::vector<BodyBuilder::Operand>& operands) {
  KernelSpec& spec = k.spec;
  spec.outer = loops.outer;
  for (SizeId e : loops.extents) {
    auto known = sizes.known(e);
    spec.extents.push_back(known && *known <= kSmallExtent ? *known : KernelSpec::kRuntime);
    k.ints.push_back(e);
  }
  for (const auto& o : operands) {
    KernelSpec::Operand out;
    out.dtype = o.dtype;
    out.write = o.write;
    for (SizeId s : o.strides) {
      auto known = sizes.known(s);
      bool small = known && *known >= -kSmallExtent && *known <= kSmallExtent;
      out.strides.push_back(small ? *known : KernelSpec::Operand::kRuntimeStride);
      k.ints.push_back(s);
    }
    spec.operands.push_back(out);
    k.operands.push_back(o.root);
    k.offsets.push_back(o.offset);
  }
  k.points = loops.outer ? loops.extents[0] : sizes.one();
  k.work = sizes.product(loops.extents);
}

/// For each written operand the read one it may take over: same layout, same width, not read in a
/// later phase than it is written.
void find_in_place(const KernelSpec& spec, const std::vector<BodyBuilder::Operand>& operands,
                   std::vector<std::vector<std::uint32_t>>& candidates) {
  auto phase_of = [&](std::size_t instr) {
    for (std::size_t p = 0; p < spec.phases.size(); ++p)
      if (instr < spec.phases[p].end) return p;
    return spec.phases.size();
  };
  candidates.assign(operands.size(), {});
  if (spec.block) return;
  for (std::size_t w = 0; w < operands.size(); ++w) {
    if (!operands[w].write) continue;
    std::size_t written = SIZE_MAX;
    for (std::size_t i = 0; i < spec.body.size(); ++i)
      if (spec.body[i].prim == Prim::Store && spec.body[i].integer == static_cast<std::int64_t>(w))
        written = std::min(written, phase_of(i));
    for (std::size_t r = 0; r < operands.size(); ++r) {
      const auto& a = operands[w];
      const auto& b = operands[r];
      if (b.write || size_of(a.dtype) != size_of(b.dtype) || a.strides != b.strides ||
          b.offset != 0)
        continue;
      bool only_reader = true, late = false;
      for (std::size_t q = 0; q < operands.size(); ++q)
        only_reader &= q == r || operands[q].root != b.root || operands[q].strides == b.strides;
      for (std::size_t i = 0; i < spec.body.size(); ++i)
        late |= spec.body[i].prim == Prim::Load &&
                spec.body[i].integer == static_cast<std::int64_t>(r) && phase_of(i) > written;
      if (only_reader && !late) candidates[w].push_back(static_cast<std::uint32_t>(r));
    }
  }
}

/// Whether `written` may be stored over `read` at all: arguments and constants are never written, a
/// shared variable only by its own update.
bool may_take_over(const Graph& g, Value read, Value written) {
  if (read.node >= g.nodes().size() || !has(*g.node(read).op, kLeaf)) return true;
  for (const Update& u : g.updates())
    if (g.inputs()[u.input].value == read && u.value == written) return true;
  return false;
}

std::string kernel_name(const Graph& g, const std::vector<std::uint32_t>& nodes, std::size_t rank) {
  std::string name;
  std::size_t shown = 0;
  for (std::uint32_t id : nodes) {
    if (shown++ == 5) {
      name += fmt::format("_and{}", nodes.size() - 5);
      break;
    }
    name += (name.empty() ? "" : "_") + std::string(g.node(id).op->name);
  }
  return fmt::format("{}_{}_r{}", name, short_name_of(g.node(nodes.back()).types[0].dtype), rank);
}

void add_kernel_task(Program& p, Kernel kernel, const std::vector<BodyBuilder::Operand>& operands,
                     const std::vector<std::uint32_t>& covers) {
  Task t;
  t.kind = Task::Kind::Kernel;
  t.name = kernel.spec.name;
  t.covers = covers;
  t.origin = p.graph.node(covers.back()).origin;
  std::vector<std::vector<std::uint32_t>> candidates;
  find_in_place(kernel.spec, operands, candidates);
  for (std::size_t w = 0; w < operands.size(); ++w)
    std::erase_if(candidates[w], [&](std::uint32_t r) {
      return !may_take_over(p.graph, operands[r].root, operands[w].root);
    });
  std::vector<std::uint32_t> read_number(operands.size(), 0);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!operands[i].write) {
      auto at = std::find(t.reads.begin(), t.reads.end(), operands[i].root);
      read_number[i] = static_cast<std::uint32_t>(at - t.reads.begin());
      if (at == t.reads.end()) t.reads.push_back(operands[i].root);
    }
  for (std::size_t w = 0; w < operands.size(); ++w) {
    if (!operands[w].write) continue;
    for (std::uint32_t r : candidates[w])
      t.in_place.push_back({static_cast<std::uint32_t>(t.writes.size()), read_number[r]});
    if (!candidates[w].empty())
      kernel.spec.operands[w].may_alias = static_cast<std::int32_t>(candidates[w][0]);
    t.writes.push_back(operands[w].root);
  }
  t.index = static_cast<std::uint32_t>(p.kernels.size());
  verify(kernel.spec);
  p.kernels.push_back(std::move(kernel));
  p.tasks.push_back(std::move(t));
}

/// What a cluster becomes before its loops are fixed.
struct Draft {
  const Cluster& cluster;
  BodyBuilder& builder;
  Loops loops;
};

/// One instruction with its operands renamed.
Instr renamed_operands(Instr in, const std::vector<std::uint32_t>& to) {
  int n = operand_count(in.prim);
  if (n > 0) in.a = to[in.a];
  if (n > 1) in.b = to[in.b];
  if (n > 2) in.c = to[in.c];
  return in;
}

/// Reductions with few results are cut into blocks of fixed size, so that threads share the work
/// and the result does not depend on how many there are. Not where a later phase runs over the
/// reduced axes again, or where the place of a result matters.
bool wants_blocks(const SizeTable& sizes, const Draft& d) {
  const BodyBuilder& b = d.builder;
  if (!b.inner || b.partial_of.empty()) return false;
  std::int64_t outer_points = 1, inner_points = 1;
  for (std::size_t i = 0; i < d.loops.extents.size(); ++i) {
    auto known = sizes.known(d.loops.extents[i]);
    if (i < b.outer)
      outer_points = known && *known <= kSmallExtent ? outer_points * *known : kSmallExtent + 1;
    else
      inner_points = known && inner_points >= 0 ? inner_points * *known : -1;
  }
  if (outer_points > kSmallExtent || (inner_points >= 0 && inner_points <= kBlockPoints))
    return false;
  for (const auto& t : b.body) {
    if (t.time > 1 && t.time % 2 == 0) return false;
    if (t.time == 0 && t.instr.prim == Prim::FlatIndex) return false;
    if (t.instr.prim == Prim::Reduce &&
        t.instr.integer >= static_cast<std::int64_t>(ReduceOp::ArgMax))
      return false;
  }
  return true;
}

/// Drops operands that the code does not touch.
void prune_operands(std::vector<BodyBuilder::Timed>& code,
                    std::vector<BodyBuilder::Operand>& operands) {
  std::vector<std::int64_t> number(operands.size(), -1);
  std::vector<BodyBuilder::Operand> kept;
  for (auto& t : code) {
    if (t.instr.prim != Prim::Load && t.instr.prim != Prim::Store) continue;
    auto& to = number[static_cast<std::size_t>(t.instr.integer)];
    if (to < 0) {
      to = static_cast<std::int64_t>(kept.size());
      kept.push_back(operands[static_cast<std::size_t>(t.instr.integer)]);
    }
    t.instr.integer = to;
  }
  operands = std::move(kept);
}

/// Strides of partial results: blocks, then the outer axes in order. Sets the outer ones from
/// `first_outer` on and gives the stride of a block.
SizeId partial_strides(SizeTable& sizes, const Draft& d, std::vector<SizeId>& strides,
                       std::size_t first_outer) {
  SizeId stride = sizes.one();
  for (std::size_t i = d.builder.outer; i-- > 0;) {
    strides[first_outer + i] = stride;
    stride = sizes.mul(stride, d.loops.extents[i]);
  }
  return stride;
}

/// A partial result between the halves of a blocked reduction.
struct Partial {
  Value value;
  std::uint32_t reduce = 0;  // its Reduce instruction in the whole body
};

/// First half: everything up to time 0, each Reduce stored as a partial result per block. Gives the
/// number of blocks.
SizeId emit_partials(Program& p, const Draft& d, bool strict, std::vector<Partial>& partials) {
  SizeTable& sizes = p.graph.mutable_sizes();
  const BodyBuilder& b = d.builder;
  std::vector<BodyBuilder::Timed> body;
  std::vector<std::uint32_t> renamed(b.body.size(), UINT32_MAX);
  for (std::uint32_t i = 0; i < b.body.size(); ++i) {
    if (b.body[i].time > 0) continue;
    Instr in = renamed_operands(b.body[i].instr, renamed);
    if (in.prim == Prim::Index) ++in.integer;  // the block axis comes first
    if (in.prim == Prim::Reduce) partials.push_back({{}, i});
    renamed[i] = static_cast<std::uint32_t>(body.size());
    body.push_back({in, b.body[i].time});
  }
  auto operands = b.operands;
  for (auto& o : operands) o.strides.insert(o.strides.begin(), sizes.zero());
  for (Partial& part : partials) {
    DType acc = b.body[part.reduce].instr.dtype;
    part.value = {static_cast<std::uint32_t>(p.graph.nodes().size() + p.extra.size()), 0};
    p.extra.push_back({acc, {}, 0});
    BodyBuilder::Operand o{part.value, 0, acc, true,
                           std::vector<SizeId>(d.loops.extents.size() + 1, sizes.zero())};
    o.strides[0] = partial_strides(sizes, d, o.strides, 1);
    Instr in{Prim::Store, acc, renamed[part.reduce]};
    in.integer = static_cast<std::int64_t>(operands.size());
    body.push_back({in, 1});
    operands.push_back(std::move(o));
  }
  Loops loops = d.loops;
  loops.outer = b.outer + 1;
  loops.extents.insert(loops.extents.begin(), sizes.one());  // set after collapsing
  Kernel k;
  k.spec.strict = strict;
  prune_operands(body, operands);
  reads_first(body, operands);
  finish_body(k.spec, body);
  collapse(sizes, loops, operands, k.spec, 1);
  // Blocks of whole rows where the inner axes did not merge.
  bool one_axis = loops.extents.size() - loops.outer == 1 && b.outer == 0;
  k.spec.block = one_axis ? kBlockPoints : kBlockRows;
  SizeId blocks = sizes.ceil_div(loops.extents[loops.outer], sizes.constant(k.spec.block));
  loops.extents[0] = blocks;
  SizeId outer_count = sizes.product(std::span(d.loops.extents).first(b.outer));
  for (const Partial& part : partials) {
    Type& type = p.extra[part.value.node - p.graph.nodes().size()];
    type.dims = {blocks};
    if (b.outer) type.dims.push_back(outer_count);
    p.places[part.value] = {part.value, contiguous_layout(sizes, type.dims)};
  }
  bind_kernel(sizes, k, loops, operands);
  k.spec.name = "partial_" + kernel_name(p.graph, d.cluster.nodes, loops.extents.size());
  add_kernel_task(p, std::move(k), operands, d.cluster.nodes);
  return blocks;
}

/// Second half: folds the partial results, then does what follows at time 1. Values of time -1 that
/// it needs are computed again.
void emit_fold(Program& p, const Draft& d, bool strict, const std::vector<Partial>& partials,
               SizeId blocks) {
  SizeTable& sizes = p.graph.mutable_sizes();
  const BodyBuilder& b = d.builder;
  std::vector<BodyBuilder::Timed> body;
  std::vector<std::uint32_t> renamed(b.body.size(), UINT32_MAX);
  auto operands = b.operands;
  for (auto& o : operands) {
    o.strides.resize(b.outer + 1, sizes.zero());
    o.strides[b.outer] = sizes.zero();
  }
  for (const Partial& part : partials) {
    Instr reduce = b.body[part.reduce].instr;
    BodyBuilder::Operand o{part.value, 0, reduce.dtype, false,
                           std::vector<SizeId>(b.outer + 1, sizes.zero())};
    o.strides[b.outer] = partial_strides(sizes, d, o.strides, 0);
    Instr load{Prim::Load, reduce.dtype};
    load.integer = static_cast<std::int64_t>(operands.size());
    operands.push_back(std::move(o));
    reduce.a = static_cast<std::uint32_t>(body.size());
    body.push_back({load, 0});
    renamed[part.reduce] = static_cast<std::uint32_t>(body.size());
    body.push_back({reduce, 0});
  }
  for (std::uint32_t i = 0; i < b.body.size(); ++i) {
    const auto& t = b.body[i];
    if (t.time == 0 || (t.time < 0 && t.instr.prim == Prim::Store)) continue;
    Instr in = renamed_operands(t.instr, renamed);
    renamed[i] = static_cast<std::uint32_t>(body.size());
    body.push_back({in, t.time});
  }
  Loops loops;
  loops.outer = b.outer;
  loops.extents.assign(d.loops.extents.begin(), d.loops.extents.begin() + b.outer);
  loops.extents.push_back(blocks);
  Kernel k;
  k.spec.strict = strict;
  prune_operands(body, operands);
  reads_first(body, operands);
  finish_body(k.spec, body);
  collapse(sizes, loops, operands, k.spec, 0);
  bind_kernel(sizes, k, loops, operands);
  k.spec.name = "fold_" + kernel_name(p.graph, d.cluster.nodes, loops.extents.size());
  add_kernel_task(p, std::move(k), operands, d.cluster.nodes);
}

void emit_whole(Program& p, const Draft& d, bool strict) {
  SizeTable& sizes = p.graph.mutable_sizes();
  Kernel k;
  k.spec.strict = strict;
  auto operands = d.builder.operands;
  Loops loops = d.loops;
  reads_first(d.builder.body, operands);
  finish_body(k.spec, d.builder.body);
  collapse(sizes, loops, operands, k.spec, 0);
  bind_kernel(sizes, k, loops, operands);
  k.spec.name = kernel_name(p.graph, d.cluster.nodes, loops.extents.size());
  add_kernel_task(p, std::move(k), operands, d.cluster.nodes);
}

}  // namespace

ClusterEmitter::ClusterEmitter(Program& program, const std::vector<bool>& memory, bool strict)
    : program_(program), memory_(memory), strict_(strict) {}

void ClusterEmitter::emit(const Cluster& c) {
  SizeTable& sizes = program_.graph.mutable_sizes();
  BodyBuilder b(program_, memory_, c, sizes);
  b.compute_times();
  for (std::uint32_t id : c.nodes)
    if (memory_[id]) b.store(id, b.member(id, b.time_of(id)));
  contract_fma(b.body);
  Draft draft{c, b, {}};
  draft.loops.outer = b.outer;
  for (int axis : b.axes) draft.loops.extents.push_back(c.space[static_cast<std::size_t>(axis)]);
  if (!wants_blocks(sizes, draft)) return emit_whole(program_, draft, strict_);
  std::vector<Partial> partials;
  SizeId blocks = emit_partials(program_, draft, strict_, partials);
  emit_fold(program_, draft, strict_, partials, blocks);
}

}  // namespace snug
