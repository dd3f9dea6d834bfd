#include "kernel/emit_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/body_builder.h"

namespace snug {
namespace {

constexpr std::int64_t kSmallExtent = 64;     // extents up to here are constants in the code
constexpr std::int64_t kBlockPoints = 16384;  // points per partial reduction
constexpr std::int64_t kBlockRows = 1024;     // or rows, where they are no single axis
constexpr std::int64_t kColumnRows = 64;      // or rows of many columns

struct Loops {
  std::vector<SizeId> extents;
  std::uint32_t outer = 0;
};

/// Merges neighbouring axes along which every operand is contiguous: real data often has a short
/// innermost axis, and one long axis is what vector code wants.
void collapse(SizeTable& sizes, Loops& loops, std::vector<BodyOperand>& operands,
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
                 const std::vector<BodyOperand>& operands) {
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

/// For each written operand the read ones it may take over: same layout, same width, not read in a
/// later phase than it is written.
std::vector<std::vector<std::uint32_t>> find_in_place(const KernelSpec& spec,
                                                      const std::vector<BodyOperand>& operands) {
  std::vector<std::vector<std::uint32_t>> candidates(operands.size());
  std::vector<std::size_t> written(operands.size(), SIZE_MAX), read(operands.size(), 0);  // phases
  for (std::size_t phase = 0; phase < spec.phases.size(); ++phase)
    for (std::uint32_t i = spec.phases[phase].begin; i < spec.phases[phase].end; ++i) {
      const Instr& in = spec.body[i];
      auto operand = static_cast<std::size_t>(in.integer);
      if (in.prim == Prim::Store) written[operand] = std::min(written[operand], phase);
      if (in.prim == Prim::Load) read[operand] = phase;
    }
  auto same_place_only = [&](const BodyOperand& o) {
    return std::all_of(operands.begin(), operands.end(), [&](const BodyOperand& other) {
      return other.root != o.root || other.strides == o.strides;
    });
  };
  for (std::uint32_t r = 0; r < operands.size(); ++r) {
    const BodyOperand& from = operands[r];
    if (from.write || from.offset != 0 || !same_place_only(from)) continue;
    for (std::size_t w = 0; w < operands.size(); ++w)
      if (operands[w].write && size_of(operands[w].dtype) == size_of(from.dtype) &&
          operands[w].strides == from.strides && read[r] <= written[w])
        candidates[w].push_back(r);
  }
  return candidates;
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

void add_kernel_task(Program& p, Kernel kernel, const std::vector<BodyOperand>& operands,
                     const std::vector<std::uint32_t>& covers) {
  Task t;
  t.kind = Task::Kind::Kernel;
  t.name = kernel.spec.name;
  t.covers = covers;
  t.device = p.graph.node(covers.back()).device;
  t.origin = p.graph.node(covers.back()).origin;
  std::vector<std::vector<std::uint32_t>> candidates = find_in_place(kernel.spec, operands);
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
  const BodyBuilder& builder;
  Loops loops;
};

/// A kernel to be: code and loops that belong together.
struct Part {
  std::vector<TimedInstr> body;
  std::vector<BodyOperand> operands;
  Loops loops;
  KernelSpec spec;
};

/// Makes the spec's code and merges loops, but for the first `fixed` ones.
void finish_part(SizeTable& sizes, Part& part, std::uint32_t fixed) {
  prune_operands(part.body, part.operands);
  reads_first(part.body, part.operands);
  finish_body(part.spec, part.body);
  collapse(sizes, part.loops, part.operands, part.spec, fixed);
}

void add_part(Program& p, const Draft& d, Part part, std::string_view prefix) {
  Kernel k;
  k.spec = std::move(part.spec);
  bind_kernel(p.graph.mutable_sizes(), k, part.loops, part.operands);
  k.spec.name =
      fmt::format("{}{}", prefix, kernel_name(p.graph, d.cluster.nodes, part.loops.extents.size()));
  add_kernel_task(p, std::move(k), part.operands, d.cluster.nodes);
}

/// Reductions with few results, or down columns, are cut into blocks of fixed size, so that threads
/// share the work and the result does not depend on how many there are. Not where a later phase
/// runs over the reduced axes again, or where the place of a result matters.
bool wants_blocks(const SizeTable& sizes, const Draft& d) {
  const BodyBuilder& b = d.builder;
  if (!b.reduces) return false;
  std::int64_t outer_points = 1, inner_points = 1;
  for (std::size_t i = 0; i < d.loops.extents.size(); ++i) {
    auto known = sizes.known(d.loops.extents[i]);
    if (i < b.outer)
      outer_points = known && *known <= kSmallExtent ? outer_points * *known : kSmallExtent + 1;
    else
      inner_points = known && inner_points >= 0 ? inner_points * *known : -1;
  }
  if ((outer_points > kSmallExtent && !d.cluster.columns) ||
      (inner_points >= 0 && inner_points <= (d.cluster.columns ? kColumnRows : kBlockPoints)))
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

/// Gives partial results their place, once the number of blocks is known.
void place_partials(Program& p, const Draft& d, const std::vector<Partial>& partials,
                    SizeId blocks) {
  SizeTable& sizes = p.graph.mutable_sizes();
  std::uint32_t outer = d.builder.outer;
  for (const Partial& part : partials) {
    Type& type = p.extra[part.value.node - p.graph.nodes().size()];
    type.dims = {blocks};
    if (outer) type.dims.push_back(sizes.product(std::span(d.loops.extents).first(outer)));
    p.places[part.value] = {part.value, contiguous_layout(sizes, type.dims)};
  }
}

/// How much of the first inner axis makes about kColumnRows rows.
std::int64_t column_block(const SizeTable& sizes, const Loops& loops) {
  std::int64_t rows = 1;
  for (std::size_t i = loops.outer + 1; i < loops.extents.size(); ++i)
    rows *= std::max<std::int64_t>(sizes.known(loops.extents[i]).value_or(kSmallExtent / 4), 1);
  return std::max<std::int64_t>(kColumnRows / rows, 1);
}

/// First half: everything up to time 0, each Reduce stored as a partial result per block. Gives the
/// number of blocks.
SizeId emit_partials(Program& p, const Draft& d, bool strict, std::vector<Partial>& partials) {
  SizeTable& sizes = p.graph.mutable_sizes();
  const BodyBuilder& b = d.builder;
  Part half{{}, b.operands, d.loops, {}};
  half.spec.strict = strict;
  std::vector<std::uint32_t> renamed(b.body.size(), UINT32_MAX);
  for (std::uint32_t i = 0; i < b.body.size(); ++i) {
    if (b.body[i].time > 0) continue;
    Instr in = renamed_operands(b.body[i].instr, renamed);
    if (in.prim == Prim::Index) ++in.integer;  // the block axis comes first
    if (in.prim == Prim::Reduce) partials.push_back({{}, i});
    renamed[i] = static_cast<std::uint32_t>(half.body.size());
    half.body.push_back({in, b.body[i].time});
  }
  for (auto& o : half.operands) o.strides.insert(o.strides.begin(), sizes.zero());
  for (Partial& part : partials) {
    DType acc = b.body[part.reduce].instr.dtype;
    part.value = {static_cast<std::uint32_t>(p.graph.nodes().size() + p.extra.size()), 0};
    p.extra.push_back({acc, {}, 0});
    BodyOperand o{part.value, 0, acc, true,
                  std::vector<SizeId>(d.loops.extents.size() + 1, sizes.zero())};
    o.strides[0] = partial_strides(sizes, d, o.strides, 1);
    Instr in{Prim::Store, acc, renamed[part.reduce]};
    in.integer = static_cast<std::int64_t>(half.operands.size());
    half.body.push_back({in, 1});
    half.operands.push_back(std::move(o));
  }
  Loops& loops = half.loops;
  loops.outer = b.outer + 1;
  loops.extents.insert(loops.extents.begin(), sizes.one());  // set after collapsing
  finish_part(sizes, half, 1);
  // Blocks of whole rows where the inner axes did not merge.
  bool one_axis = loops.extents.size() - loops.outer == 1 && b.outer == 0;
  half.spec.block = one_axis            ? kBlockPoints
                    : d.cluster.columns ? column_block(sizes, loops)
                                        : kBlockRows;
  SizeId blocks = sizes.ceil_div(loops.extents[loops.outer], sizes.constant(half.spec.block));
  loops.extents[0] = blocks;
  place_partials(p, d, partials, blocks);
  add_part(p, d, std::move(half), "partial_");
  return blocks;
}

/// Second half: folds the partial results, then does what follows at time 1. Values of time -1 that
/// it needs are computed again.
void emit_fold(Program& p, const Draft& d, bool strict, const std::vector<Partial>& partials,
               SizeId blocks) {
  SizeTable& sizes = p.graph.mutable_sizes();
  const BodyBuilder& b = d.builder;
  Part half{{}, b.operands, {}, {}};
  half.spec.strict = strict;
  std::vector<std::uint32_t> renamed(b.body.size(), UINT32_MAX);
  for (auto& o : half.operands) {
    o.strides.resize(b.outer + 1, sizes.zero());
    o.strides[b.outer] = sizes.zero();
  }
  for (const Partial& part : partials) {
    Instr reduce = b.body[part.reduce].instr;
    BodyOperand o{part.value, 0, reduce.dtype, false,
                  std::vector<SizeId>(b.outer + 1, sizes.zero())};
    o.strides[b.outer] = partial_strides(sizes, d, o.strides, 0);
    Instr load{Prim::Load, reduce.dtype};
    load.integer = static_cast<std::int64_t>(half.operands.size());
    half.operands.push_back(std::move(o));
    reduce.a = static_cast<std::uint32_t>(half.body.size());
    half.body.push_back({load, 0});
    renamed[part.reduce] = static_cast<std::uint32_t>(half.body.size());
    half.body.push_back({reduce, 0});
  }
  for (std::uint32_t i = 0; i < b.body.size(); ++i) {
    const auto& t = b.body[i];
    if (t.time == 0 || (t.time < 0 && t.instr.prim == Prim::Store)) continue;
    Instr in = renamed_operands(t.instr, renamed);
    renamed[i] = static_cast<std::uint32_t>(half.body.size());
    half.body.push_back({in, t.time});
  }
  half.loops.outer = b.outer;
  half.loops.extents.assign(d.loops.extents.begin(), d.loops.extents.begin() + b.outer);
  half.loops.extents.push_back(blocks);
  finish_part(sizes, half, 0);
  add_part(p, d, std::move(half), "fold_");
}

void emit_whole(Program& p, const Draft& d, bool strict) {
  Part whole{d.builder.body, d.builder.operands, d.loops, {}};
  whole.spec.strict = strict;
  keep_functions(whole.body, whole.operands);
  finish_part(p.graph.mutable_sizes(), whole, 0);
  add_part(p, d, std::move(whole), "");
}

}  // namespace

ClusterEmitter::ClusterEmitter(Program& program, const std::vector<bool>& memory, bool strict)
    : program_(program), memory_(memory), strict_(strict) {}

void ClusterEmitter::emit(const Cluster& c) {
  SizeTable& sizes = program_.graph.mutable_sizes();
  BodyBuilder b(program_, c, sizes);
  for (std::uint32_t id : c.nodes)
    if (memory_[id]) b.store(id);
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
