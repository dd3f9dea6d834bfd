#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "kernel/emit_cluster.h"
#include "kernel/program.h"

namespace snug {
namespace {

enum class Kind : std::uint8_t { Leaf, IndexView, MemoryView, Fused, Sizes, Library, Loop };

/// Groups nodes into units. A unit is a cluster (a kernel to be) or one other task. Units are
/// numbered as they are made; a node joins a cluster only if everything it reads comes from units
/// of smaller or the same number, so the units are in a valid order by construction.
class Fuser {
 public:
  Fuser(const Graph& g, LibraryTable library, const FuseOptions& options)
      : g_(g), library_(library), options_(options), sizes_(g.mutable_sizes()) {}

  Program run() {
    classify();
    make_units();
    choose_memory();
    return emit();
  }

 private:
  void classify() {
    kind_.resize(g_.nodes().size());
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) {
      const Node& n = g_.node(id);
      if (has(*n.op, kLeaf))
        kind_[id] = Kind::Leaf;
      else if (n.inner)
        kind_[id] = Kind::Loop;
      else if (all_sizes(id))
        kind_[id] = Kind::Sizes;
      else if (has(*n.op, kIndexView))
        kind_[id] = Kind::IndexView;
      else if (has(*n.op, kView))
        kind_[id] = Kind::MemoryView;
      else if (has(*n.op, kElementwise | kReduction | kGenerator))
        kind_[id] = Kind::Fused;
      else if (find_library(library_, n))
        kind_[id] = Kind::Library;
      else
        throw Error(
            Fault::Unsupported,
            fmt::format("{}: not supported on cpu for {}", n.op->name, name_of(n.types[0].dtype)),
            {}, n.origin);
    }
  }

  bool all_sizes(std::uint32_t id) const {
    const Node& n = g_.node(id);
    if (n.op == &kCopyOp || n.types.empty()) return false;
    for (std::uint32_t k = 0; k < n.types.size(); ++k)
      if (g_.elements({id, k}).empty() || is_float(n.types[k].dtype)) return false;
    return true;
  }

  /// Number of inputs that are data; the rest decide sizes only.
  std::size_t data_inputs(std::uint32_t id) const {
    const Node& n = g_.node(id);
    if (kind_[id] == Kind::Sizes) return 0;
    return n.op->size_inputs_from < 0 ? n.inputs.size()
                                      : static_cast<std::size_t>(n.op->size_inputs_from);
  }

  void make_units() {
    unit_of_.assign(g_.nodes().size(), 0);
    clusters_.push_back({});  // unit 0: the leaves
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) {
      switch (kind_[id]) {
        case Kind::Leaf: break;
        case Kind::IndexView:
        case Kind::MemoryView: unit_of_[id] = unit_of_[g_.node(id).inputs[0].node]; break;
        case Kind::Fused: join_or_open(id); break;
        default:
          unit_of_[id] = static_cast<std::uint32_t>(clusters_.size());
          clusters_.push_back({});
          clusters_.back().task_node = id;
      }
    }
  }

  void join_or_open(std::uint32_t id) {
    const Node& n = g_.node(id);
    std::uint32_t latest = 0;
    for (std::size_t i = 0; i < data_inputs(id); ++i)
      latest = std::max(latest, unit_of_[n.inputs[i].node]);
    // First the latest producer, then kernels that already read one of the inputs.
    std::vector<std::uint32_t> candidates;
    if (clusters_[latest].open) candidates.push_back(latest);
    for (std::size_t i = 0; i < data_inputs(id); ++i) {
      auto it = readers_.find(n.inputs[i].node);
      if (it == readers_.end()) continue;
      for (auto r = it->second.rbegin(); r != it->second.rend() && candidates.size() < 4; ++r)
        if (*r > latest && clusters_[*r].open) candidates.push_back(*r);
    }
    for (std::uint32_t unit : candidates)
      if (try_join(clusters_[unit], unit, id)) return register_member(unit, id);
    std::uint32_t unit = static_cast<std::uint32_t>(clusters_.size());
    clusters_.push_back({});
    Cluster& c = clusters_.back();
    c.open = true;
    const Type& space = has(*n.op, kReduction) ? g_.type(n.inputs[0]) : n.types[0];
    for (SizeId d : space.dims) c.space.push_back(d);
    SNUG_CHECK(try_join(c, unit, id), "a node does not fit a kernel of its own: {}", n.op->name);
    register_member(unit, id);
  }

  void register_member(std::uint32_t unit, std::uint32_t id) {
    unit_of_[id] = unit;
    clusters_[unit].nodes.push_back(id);
    for (std::size_t i = 0; i < data_inputs(id); ++i) {
      auto& list = readers_[g_.node(id).inputs[i].node];
      if (list.empty() || list.back() != unit) list.push_back(unit);
    }
  }

  /// The axes of `v` in terms of the cluster's, if a member computes it (through index views).
  std::optional<AxisMap> inside(const Cluster& c, std::uint32_t unit, Value v) const {
    if (unit_of_[v.node] != unit) return std::nullopt;
    std::vector<std::uint32_t> views;  // outermost first
    for (; kind_[v.node] == Kind::IndexView; v = g_.node(v).inputs[0]) views.push_back(v.node);
    auto it = c.maps.find(v.node);
    if (it == c.maps.end()) return std::nullopt;
    AxisMap map = it->second;
    for (std::size_t k = views.size(); k-- > 0;) map = above_view(g_, views[k], map);
    return map;
  }

  /// Whether node `id` can be computed in the loops of `c`; notes its axes if so.
  bool try_join(Cluster& c, std::uint32_t unit, std::uint32_t id) {
    const Node& n = g_.node(id);
    if (c.nodes.size() >= options_.max_nodes) return false;
    if (!c.nodes.empty() && operand_estimate(c, unit, id) > options_.max_operands) return false;
    bool reduction = has(*n.op, kReduction);
    const Type& loop_type = reduction ? g_.type(n.inputs[0]) : n.types[0];
    // A value with elements in memory views of this very unit cannot be read before it is written.
    for (std::size_t i = 0; i < data_inputs(id); ++i)
      if (unit_of_[n.inputs[i].node] == unit && !inside(c, unit, n.inputs[i])) return false;
    auto map = match_axes(c, unit, id, loop_type);
    if (!map) return false;
    std::uint32_t covered = 0;
    for (int axis : *map)
      if (axis >= 0) covered |= 1u << axis;
    std::uint32_t all = c.required_axes(sizes_);
    bool full = (covered & all) == all;
    bool indexed = has(*n.op, kGenerator);
    if (indexed && (!full || !in_order(*map) || c.reduced)) return false;
    if (!reduction) {
      if (!full && (!c.reduced || (covered & c.reduced))) return false;
      c.has_index |= indexed;
      c.loops[id] = c.maps[id] = *map;
      return true;
    }
    if (!full) return false;
    std::uint32_t axes = 0;
    AxisMap kept;
    const auto& attr = n.attrs.ints("axes");
    for (std::size_t i = 0; i < map->size(); ++i) {
      bool drop = std::find(attr.begin(), attr.end(), static_cast<std::int64_t>(i)) != attr.end();
      if (!drop)
        kept.push_back((*map)[i]);
      else if ((*map)[i] >= 0)
        axes |= 1u << (*map)[i];
    }
    if (c.reduced_set && c.reduced != axes) return false;
    if (!c.reduced_set && c.has_index && !trailing(axes, c.space.size())) return false;
    if (!c.reduced_set && !reducible_members(c, axes)) return false;
    c.reduced_set = true;
    c.reduced = axes;
    c.loops[id] = *map;
    c.maps[id] = kept;
    return true;
  }

  /// Members that cover only part of the space must lie outside the axes to be reduced.
  bool reducible_members(const Cluster& c, std::uint32_t axes) const {
    std::uint32_t all = c.required_axes(sizes_);
    for (const auto& [id, map] : c.maps) {
      std::uint32_t covered = 0;
      for (int axis : map)
        if (axis >= 0) covered |= 1u << axis;
      if ((covered & all) != all && (covered & axes)) return false;
    }
    return true;
  }

  static bool in_order(const AxisMap& map) {
    int last = -1;
    for (int axis : map) {
      if (axis < 0) continue;
      if (axis <= last) return false;
      last = axis;
    }
    return true;
  }
  static bool trailing(std::uint32_t axes, std::size_t rank) {
    bool seen = false;
    for (std::size_t i = 0; i < rank; ++i) {
      bool in = axes >> i & 1;
      if (seen && !in) return false;
      seen |= in;
    }
    return true;
  }

  std::size_t operand_estimate(const Cluster& c, std::uint32_t unit, std::uint32_t id) const {
    std::unordered_set<std::uint32_t> outside;
    auto count = [&](std::uint32_t node) {
      for (std::size_t i = 0; i < data_inputs(node); ++i)
        if (unit_of_[g_.node(node).inputs[i].node] != unit)
          outside.insert(g_.node(node).inputs[i].node);
    };
    for (std::uint32_t member : c.nodes) count(member);
    count(id);
    return outside.size() + c.nodes.size() / 4;
  }

  /// Which cluster axis each axis of the loop of `id` is; none if it does not fit.
  std::optional<AxisMap> match_axes(const Cluster& c, std::uint32_t unit, std::uint32_t id,
                                    const Type& type) const {
    const Node& n = g_.node(id);
    AxisMap map(type.dims.size(), kNewAxis);
    std::uint32_t taken = 0;
    for (std::size_t i = 0; i < data_inputs(id); ++i) {
      auto in = inside(c, unit, n.inputs[i]);
      if (!in) continue;
      for (std::size_t j = 0; j < in->size(); ++j) {
        int axis = (*in)[j];
        if (axis < 0) continue;
        if (map[j] >= 0 && map[j] != axis) return std::nullopt;
        if (map[j] < 0 && (taken >> axis & 1)) return std::nullopt;
        map[j] = axis;
        taken |= 1u << axis;
      }
    }
    int next = 0;
    for (std::size_t j = 0; j < map.size(); ++j) {
      if (map[j] >= 0) {
        if (c.space[map[j]] != type.dims[j]) return std::nullopt;
        continue;
      }
      if (sizes_.is(type.dims[j], 1)) {
        map[j] = kUnitAxis;
        continue;
      }
      int found = -1;
      for (int axis = next; axis < static_cast<int>(c.space.size()) && found < 0; ++axis)
        if (!(taken >> axis & 1) && c.space[axis] == type.dims[j]) found = axis;
      if (found < 0) return std::nullopt;
      map[j] = found;
      taken |= 1u << found;
      next = found + 1;
    }
    return map;
  }

  /// Decides which members get memory: what leaves its kernel, unless it is cheap to compute again
  /// from values that have memory anyway.
  void choose_memory() {
    std::size_t count = g_.nodes().size();
    std::vector<bool> must(count, false), leaves(count, false);
    auto need = [&](Value v) {
      while (!must[v.node]) {
        must[v.node] = true;
        if (kind_[v.node] != Kind::IndexView && kind_[v.node] != Kind::MemoryView) break;
        v = g_.node(v).inputs[0];
      }
    };
    for (Value v : g_.outputs()) need(v);
    for (const Update& u : g_.updates()) need(u.value);
    for (const auto& s : g_.runtime_sources())
      if (!s.extent) need(s.value);
    for (std::uint32_t id = 0; id < count; ++id) {
      const Node& n = g_.node(id);
      for (std::size_t i = 0; i < data_inputs(id); ++i) {
        Value v = n.inputs[i];
        if (kind_[id] == Kind::Library || kind_[id] == Kind::Loop) {
          if (kind_[id] == Kind::Loop && i == 0) continue;
          need(v);
        } else if (kind_[id] == Kind::MemoryView) {
          need(v);
        } else if (kind_[id] == Kind::Fused) {
          while (kind_[v.node] == Kind::IndexView) v = g_.node(v).inputs[0];
          if (kind_[v.node] == Kind::Sizes || kind_[v.node] == Kind::MemoryView)
            need(v);
          else if (unit_of_[v.node] != unit_of_[id])
            leaves[v.node] = true;
        }
      }
    }
    memory_.assign(count, false);
    for (std::uint32_t id = 0; id < count; ++id) {
      if (kind_[id] == Kind::Fused)
        memory_[id] = must[id] || (leaves[id] && !cheap_again(id));
      else if (kind_[id] == Kind::Sizes)
        memory_[id] = must[id];
      else
        memory_[id] =
            kind_[id] == Kind::Leaf || kind_[id] == Kind::Library || kind_[id] == Kind::Loop;
    }
  }

  static bool cheap_prim(Prim p) {
    return p <= Prim::FlatIndex || (p >= Prim::Add && p <= Prim::Mul) || p == Prim::Min ||
           p == Prim::Max || p == Prim::Fma || (p >= Prim::Neg && p <= Prim::Sqr) ||
           (p >= Prim::Lt && p <= Prim::Cast);
  }

  bool cheap_again(std::uint32_t root) const {
    std::vector<std::uint32_t> stack{root};
    std::unordered_set<std::uint32_t> seen{root};
    std::size_t instructions = 0, operands = 0;
    while (!stack.empty()) {
      std::uint32_t id = stack.back();
      stack.pop_back();
      const Node& n = g_.node(id);
      if (has(*n.op, kReduction | kRandom)) return false;
      ScalarBuilder s;
      s.result = n.types[0].dtype;
      for (Value v : n.inputs) s.arg_types.push_back(g_.type(v).dtype);
      n.op->scalar(s, n.attrs);
      instructions += s.body.size();
      for (const Instr& in : s.body)
        if (!cheap_prim(in.prim)) return false;
      if (instructions > 16) return false;
      for (std::size_t i = 0; i < data_inputs(id); ++i) {
        Value v = n.inputs[i];
        while (kind_[v.node] == Kind::IndexView) v = g_.node(v).inputs[0];
        if (!seen.insert(v.node).second) continue;
        bool stored = v.node < root && (kind_[v.node] != Kind::Fused || memory_[v.node]);
        if (stored)
          operands += g_.type(v).ndim() > 0;
        else
          stack.push_back(v.node);
      }
    }
    return operands <= 2;
  }

  Program emit() {
    Program p;
    p.graph = g_;
    p.library = library_;
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) place(p, id);
    ClusterEmitter emitter(p, memory_, options_.strict_math);
    for (std::uint32_t unit = 1; unit < clusters_.size(); ++unit) {
      const Cluster& c = clusters_[unit];
      if (c.task_node)
        emit_task(p, *c.task_node);
      else if (std::any_of(c.nodes.begin(), c.nodes.end(), [&](auto id) { return memory_[id]; }))
        emitter.emit(c);
    }
    return p;
  }

  /// Notes where the outputs of a node are, if they have memory.
  void place(Program& p, std::uint32_t id) {
    const Node& n = g_.node(id);
    if (kind_[id] != Kind::IndexView && kind_[id] != Kind::MemoryView) {
      if (!memory_[id]) return;
      for (std::uint32_t k = 0; k < n.types.size(); ++k)
        p.places[{id, k}] = {{id, k}, contiguous_layout(sizes_, n.types[k].dims)};
      return;
    }
    auto base = p.places.find(n.inputs[0]);
    if (base == p.places.end()) return;
    std::vector<std::span<const SizeId>> elements;
    for (Value v : n.inputs) elements.push_back(g_.elements(v));
    Layout out;
    Place from = base->second;
    bool ok =
        n.op->view({n.attrs, sizes_, g_.type(n.inputs[0]), n.types[0], from.layout, elements}, out);
    SNUG_CHECK(ok, "{} needs a copy that was not inserted", n.op->name);
    p.places[{id, 0}] = {from.root, out};
  }

  /// A size that this node decides while running takes part in a requirement, which may not hold.
  bool decides_checked_size(std::uint32_t id) const {
    bool decides = false;
    for (const auto& source : g_.runtime_sources()) decides |= source.value.node == id;
    if (!decides) return false;
    for (const auto& r : g_.requirements())
      if (sizes_.is_runtime(r.a) || sizes_.is_runtime(r.b)) return true;
    return false;
  }

  void emit_task(Program& p, std::uint32_t id) {
    const Node& n = g_.node(id);
    if (kind_[id] == Kind::Sizes && !memory_[id]) return;
    Task t;
    t.kind = kind_[id] == Kind::Sizes  ? Task::Kind::Sizes
             : kind_[id] == Kind::Loop ? Task::Kind::Loop
                                       : Task::Kind::Library;
    t.index = id;
    t.name = std::string(n.op->name);
    t.covers = {id};
    t.origin = n.origin;
    t.may_fail = has(*n.op, kMayFail) || decides_checked_size(id);
    std::size_t first = kind_[id] == Kind::Loop ? 1 : 0;
    for (std::size_t i = first; i < data_inputs(id); ++i)
      t.reads.push_back(p.places.at(n.inputs[i]).root);
    for (std::uint32_t k = 0; k < n.types.size(); ++k) t.writes.push_back({id, k});
    if (has(*n.op, kInPlace) && p.places.at(n.inputs[0]).root == n.inputs[0])
      t.in_place.push_back({0, 0});
    p.tasks.push_back(std::move(t));
  }

  const Graph& g_;
  LibraryTable library_;
  FuseOptions options_;
  SizeTable& sizes_;
  std::vector<Kind> kind_;
  std::vector<std::uint32_t> unit_of_;
  std::vector<Cluster> clusters_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> readers_;
  std::vector<bool> memory_;
};

}  // namespace

namespace {

int source_axis(const Graph& g, const Node& view, std::size_t axis) {
  return view.op->source_axis({view.attrs, g.type(view.inputs[0]), view.types[0]}, axis);
}

}  // namespace

AxisMap above_view(const Graph& g, std::uint32_t view, const AxisMap& base) {
  const Node& n = g.node(view);
  AxisMap map(n.types[0].dims.size(), kUnitAxis);
  for (std::size_t i = 0; i < map.size(); ++i)
    if (int from = source_axis(g, n, i); from != kRepeated) map[i] = base[from];
  return map;
}

AxisMap below_view(const Graph& g, std::uint32_t view, const AxisMap& result) {
  const Node& n = g.node(view);
  AxisMap map(g.type(n.inputs[0]).dims.size(), kUnitAxis);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (int from = source_axis(g, n, i); from != kRepeated) map[from] = result[i];
  return map;
}

std::uint32_t Cluster::required_axes(const SizeTable& sizes) const {
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < space.size(); ++i)
    if (!sizes.is(space[i], 1)) all |= 1u << i;
  return all;
}

Program fuse(const Graph& g, LibraryTable library, const FuseOptions& options) {
  return Fuser(g, library, options).run();
}

void verify(const Program& p) {
  std::unordered_set<Value, ValueHash> written;
  for (std::uint32_t id = 0; id < p.graph.nodes().size(); ++id)
    if (has(*p.graph.node(id).op, kLeaf)) written.insert({id, 0});
  for (const Task& t : p.tasks) {
    for (Value v : t.reads)
      SNUG_CHECK(written.count(v), "fuse: task {} reads %{} before it is written", t.name, v.node);
    for (Value v : t.writes)
      SNUG_CHECK(written.insert(v).second, "fuse: %{} is written twice", v.node);
  }
  auto has_memory = [&](Value v) {
    auto it = p.places.find(v);
    return it != p.places.end() && written.count(it->second.root);
  };
  for (Value v : p.graph.outputs())
    SNUG_CHECK(has_memory(v), "fuse: output %{} has no memory", v.node);
  for (const Update& u : p.graph.updates())
    SNUG_CHECK(has_memory(u.value), "fuse: update %{} has no memory", u.value.node);
  for (const Kernel& k : p.kernels) verify(k.spec);
}

std::string print(const Program& p) {
  std::string text;
  for (std::size_t i = 0; i < p.tasks.size(); ++i) {
    const Task& t = p.tasks[i];
    auto list = [](const std::vector<Value>& values) {
      std::string s;
      for (Value v : values)
        s += fmt::format("{}%{}{}", s.empty() ? "" : " ", v.node,
                         v.output ? fmt::format(".{}", v.output) : "");
      return s;
    };
    std::string how = "kernel";
    if (t.kind == Task::Kind::Library)
      how = std::string(find_library(p.library, p.graph.node(t.index))->library);
    else if (t.kind == Task::Kind::Sizes)
      how = "sizes";
    else if (t.kind == Task::Kind::Loop)
      how = "loop";
    text += fmt::format("{:4} {:8} {:40} {} <- {}{}\n", i, how, t.name, list(t.writes),
                        list(t.reads), t.may_fail ? "   may fail" : "");
  }
  return text;
}

}  // namespace snug
