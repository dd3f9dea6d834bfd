#include <algorithm>

#include "expr/loop_shape.h"
#include "kernel/cluster.h"
#include "kernel/emit_cluster.h"

namespace snug {
namespace {

/// Turns units into tasks.
class Fuser {
 public:
  Fuser(const Graph& g, Libraries libraries, const FuseOptions& options)
      : g_(g),
        libraries_(libraries),
        options_(options),
        sizes_(g.mutable_sizes()),
        units_(find_units(g, libraries, options)),
        memory_(choose_memory(g, units_)) {}

  Program run() {
    Program p;
    p.graph = g_;
    p.libraries = libraries_;
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) place(p, id);
    ClusterEmitter emitter(p, memory_, options_.strict_math);
    for (std::uint32_t unit = 1; unit < units_.clusters.size(); ++unit) {
      const Cluster& c = units_.clusters[unit];
      if (c.task_node)
        emit_task(p, *c.task_node);
      else if (std::any_of(c.nodes.begin(), c.nodes.end(), [&](auto id) { return memory_[id]; }))
        emitter.emit(c);
    }
    return p;
  }

 private:
  /// Notes where the outputs of a node are, if they have memory.
  void place(Program& p, std::uint32_t id) {
    const Node& n = g_.node(id);
    if (units_.kind[id] != NodeKind::IndexView && units_.kind[id] != NodeKind::MemoryView) {
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

  /// The states of a loop may take over the storage of what they start from.
  static void add_states_in_place(const Program& p, const Node& n, Task& t) {
    const LoopShape shape = LoopShape::of(n.attrs);
    const auto first = static_cast<std::uint32_t>(shape.sequences),
               count = static_cast<std::uint32_t>(shape.states);
    for (std::uint32_t k = 0; k < count; ++k) {
      Value initial = t.reads[first + k];
      bool whole = p.places.at(n.inputs[1 + first + k]).root == n.inputs[1 + first + k];
      if (whole && std::count(t.reads.begin(), t.reads.end(), initial) == 1)
        t.in_place.push_back({k, first + k});
    }
  }

  void emit_task(Program& p, std::uint32_t id) {
    const Node& n = g_.node(id);
    NodeKind kind = units_.kind[id];
    if (kind == NodeKind::Sizes && !memory_[id]) return;
    Task t;
    t.kind = kind == NodeKind::Sizes  ? Task::Kind::Sizes
             : kind == NodeKind::Loop ? Task::Kind::Loop
             : kind == NodeKind::Copy ? Task::Kind::Copy
                                      : Task::Kind::Library;
    t.device = n.device;
    if (kind == NodeKind::Copy && !t.device) t.device = g_.node(n.inputs[0]).device;
    t.index = id;
    t.name = std::string(n.op->name);
    t.covers = {id};
    t.origin = n.origin;
    t.may_fail = has(*n.op, kMayFail) || decides_checked_size(id);
    for (Value v : units_.data_of(g_, id)) t.reads.push_back(p.places.at(v).root);
    for (std::uint32_t k = 0; k < n.types.size(); ++k) t.writes.push_back({id, k});
    if (has(*n.op, kInPlace) && p.places.at(n.inputs[0]).root == n.inputs[0])
      t.in_place.push_back({0, 0});
    if (t.kind == Task::Kind::Loop) add_states_in_place(p, n, t);
    p.tasks.push_back(std::move(t));
  }

  const Graph& g_;
  Libraries libraries_;
  FuseOptions options_;
  SizeTable& sizes_;
  Units units_;
  std::vector<bool> memory_;  // by node: has memory
};

}  // namespace

Program fuse(const Graph& g, Libraries libraries, const FuseOptions& options) {
  return Fuser(g, libraries, options).run();
}

}  // namespace snug
