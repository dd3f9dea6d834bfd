#include <fmt/format.h>

#include <algorithm>

#include "graph/words.h"
#include "kernel/cluster.h"
#include "place/place.h"

namespace snug {
namespace {

constexpr std::int64_t kFewRows = 64, kFewColumns = 8;
constexpr std::uint32_t kStored = 16;    // what is stored, in parts
constexpr std::uint32_t kFunction = 16;  // simple instructions that a function is made of, about

/// Units are numbered as they are made; a node joins a cluster only if everything it reads comes
/// from units of smaller or the same number, so the units are in a valid order by construction.
/// Where two clusters of the same loops meet in a node, the later one may move into the earlier.
class UnitFinder {
 public:
  UnitFinder(const Graph& g, Libraries libraries, const FuseOptions& options)
      : g_(g), libraries_(libraries), options_(options), sizes_(g.sizes()) {}

  Units run() {
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) units_.kind.push_back(kind_of(id));
    count_readers();
    make_units();
    for (std::uint32_t& unit : units_.unit_of) unit = current(unit);
    return std::move(units_);
  }

 private:
  NodeKind kind_of(std::uint32_t id) const {
    const Node& n = g_.node(id);
    if (has(*n.op, kLeaf)) return NodeKind::Leaf;
    if (n.op == &transfer_op) return NodeKind::Copy;
    if (n.inner) return NodeKind::Loop;
    if (n.device == 0 && all_sizes(id)) return NodeKind::Sizes;  // known on the host
    if (has(*n.op, kIndexView)) return NodeKind::IndexView;
    if (has(*n.op, kView)) return NodeKind::MemoryView;
    if (has(*n.op, kElementwise | kReduction | kGenerator)) return NodeKind::Fused;
    if (find_library(libraries_, n)) return NodeKind::Library;
    throw UnsupportedError(
        fmt::format("{}: not supported on cpu for {}", word_for(n), name_of(n.types[0].dtype)), {},
        n.origin);
  }

  bool all_sizes(std::uint32_t id) const {
    const Node& n = g_.node(id);
    if (n.op == &kCopyOp || n.types.empty()) return false;
    if (has(*n.op, kBarrier) && has(*n.op, kMayFail)) return false;  // it is there to run
    for (std::uint32_t k = 0; k < n.types.size(); ++k) {
      const Type& t = n.types[k];
      const bool nothing = t.ndim() == 1 && sizes_.is(t.dims[0], 0);  // the shape of a number
      if ((g_.elements({id, k}).empty() && !nothing) || is_float(t.dtype)) return false;
    }
    return true;
  }

  /// Who reads a node decides whether it is likely to be stored: what leaves for other tasks is,
  /// what one elementwise node reads hardly ever, what several read sometimes.
  void count_readers() {
    constexpr std::uint32_t kMaybe = 1;
    std::vector<std::uint32_t> readers(g_.nodes().size(), 0);
    write_estimate_.assign(g_.nodes().size(), 0);
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id)
      for (Value v : data_of(id)) {
        if (++readers[v.node] > 1)
          write_estimate_[v.node] = std::max(write_estimate_[v.node], kMaybe);
        if (units_.kind[id] != NodeKind::Fused) write_estimate_[v.node] = kStored;
      }
    for (Value v : g_.outputs()) write_estimate_[v.node] = kStored;
    for (const Update& u : g_.updates()) write_estimate_[u.value.node] = kStored;
  }

  /// Limits of a kernel: the option is for nodes that are functions, such as exp.
  std::uint32_t max_weight() const { return kFunction * options_.max_nodes; }
  std::uint32_t max_nodes() const { return kFunction / 2 * options_.max_nodes; }

  /// The size of a node's code, in simple instructions.
  std::uint32_t weight_of(std::uint32_t id) const {
    const Node& n = g_.node(id);
    if (!has(*n.op, kElementwise)) return kFunction;
    std::uint32_t weight = 0;
    for (const Instr& in : scalar_body(g_, n).instrs)
      weight += in.prim >= Prim::Add ? (is_function(in.prim) ? kFunction : 1) : 0;
    return std::max(weight, 1u);
  }

  void make_units() {
    units_.unit_of.assign(g_.nodes().size(), 0);
    open_unit();  // of the leaves
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) {
      switch (units_.kind[id]) {
        case NodeKind::Leaf: break;
        case NodeKind::IndexView:
        case NodeKind::MemoryView: units_.unit_of[id] = unit_of(g_.node(id).inputs[0]); break;
        case NodeKind::Fused: join_or_open(id); break;
        default: units_.unit_of[id] = open_unit(); units_.clusters.back().task_node = id;
      }
    }
  }

  std::uint32_t open_unit() {
    units_.clusters.emplace_back();
    moved_to_.push_back(static_cast<std::uint32_t>(moved_to_.size()));
    return moved_to_.back();
  }
  /// The unit that holds what was put into `unit`.
  std::uint32_t current(std::uint32_t unit) const {
    while (moved_to_[unit] != unit) unit = moved_to_[unit] = moved_to_[moved_to_[unit]];
    return unit;
  }
  std::uint32_t unit_of(Value v) const { return current(units_.unit_of[v.node]); }
  std::span<const Value> data_of(std::uint32_t id) const { return units_.data_of(g_, id); }

  void join_or_open(std::uint32_t id) {
    merge_producers(id);
    for (std::uint32_t unit : candidates(id))
      if (try_join(unit, id)) return register_member(unit, id);
    const Node& n = g_.node(id);
    std::uint32_t unit = open_unit();
    Cluster& c = units_.clusters.back();
    c.open = true;
    c.space = loop_type(n).dims;
    SNUG_CHECK(try_join(unit, id), "a node does not fit a kernel of its own: {}", n.op->name);
    register_member(unit, id);
  }

  /// Makes one cluster of those that `id` reads: exp(x) and log(y) of exp(x) + log(y).
  void merge_producers(std::uint32_t id) {
    for (bool again = true; again;) {
      again = false;
      std::uint32_t latest = 0, before = 0;
      for (Value v : data_of(id)) latest = std::max(latest, unit_of(v));
      for (Value v : data_of(id))
        if (unit_of(v) < latest) before = std::max(before, unit_of(v));
      if (before > 0 && may_merge(before, latest, id)) {
        merge(before, latest);
        again = true;
      }
    }
  }

  /// Both run over the same loops, nothing the later one reads is made after the earlier one
  /// begins, and `id` fits into both in the same way.
  bool may_merge(std::uint32_t into, std::uint32_t from, std::uint32_t id) const {
    const Cluster &a = units_.clusters[into], &b = units_.clusters[from];
    if (!a.open || !b.open || a.reduced_set || b.reduced_set || a.space != b.space) return false;
    std::size_t nodes = a.nodes.size() + b.nodes.size();
    if (nodes >= max_nodes() || a.weight + b.weight >= max_weight()) return false;
    const std::size_t writes = (a.write_estimate + b.write_estimate) / kStored;
    if (a.reads.size() + b.reads.size() + writes >= options_.max_operands) return false;
    for (std::uint32_t read : b.reads)
      if (unit_of({read, 0}) >= into) return false;
    for (Value v : data_of(id))
      if ((unit_of(v) == into || unit_of(v) == from) && !inside(unit_of(v), v)) return false;
    auto map = match_axes(into, id);
    return map && map == match_axes(from, id);
  }

  /// The spaces are equal, so the axes of the members stay what they are.
  void merge(std::uint32_t into, std::uint32_t from) {
    Cluster &a = units_.clusters[into], &b = units_.clusters[from];
    auto middle = static_cast<std::ptrdiff_t>(a.nodes.size());
    a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
    std::inplace_merge(a.nodes.begin(), a.nodes.begin() + middle, a.nodes.end());
    a.has_index |= b.has_index;
    a.weight += b.weight;
    a.write_estimate += b.write_estimate;
    a.reads.merge(b.reads);
    a.maps.merge(b.maps);
    a.loops.merge(b.loops);
    b = {};
    moved_to_[from] = into;
  }

  /// Clusters that may take a node: the latest producer, then those that already read an input.
  std::vector<std::uint32_t> candidates(std::uint32_t id) const {
    std::uint32_t latest = 0;
    for (Value v : data_of(id)) latest = std::max(latest, unit_of(v));
    std::vector<std::uint32_t> units;
    if (units_.clusters[latest].open) units.push_back(latest);
    for (Value v : data_of(id)) {
      auto it = readers_.find(v.node);
      if (it == readers_.end()) continue;
      for (auto r = it->second.rbegin(); r != it->second.rend() && *r > latest; ++r) {
        if (units.size() == 4) return units;
        if (current(*r) > latest) units.push_back(current(*r));
      }
    }
    return units;
  }

  /// A constant of one element: a part of the code, not an operand.
  bool is_number(Value v) const {
    v = units_.below_index_views(g_, v);
    const Node& n = g_.node(v);
    return has(*n.op, kLeaf) && n.attrs.has("value") && n.attrs.array("value")->size() == 1;
  }

  void register_member(std::uint32_t unit, std::uint32_t id) {
    units_.unit_of[id] = unit;
    Cluster& c = units_.clusters[unit];
    c.nodes.push_back(id);
    c.weight += weight_of(id);
    c.write_estimate += write_estimate_[id];
    for (Value v : data_of(id)) {
      if (unit_of(v) != unit && !is_number(v)) c.reads.insert(v.node);
      auto& units = readers_[v.node];
      auto at = std::lower_bound(units.begin(), units.end(), unit);
      if (at == units.end() || *at != unit) units.insert(at, unit);
    }
  }

  /// The type whose axes the loops of a node run over.
  const Type& loop_type(const Node& n) const {
    return has(*n.op, kReduction) ? g_.type(n.inputs[0]) : n.types[0];
  }

  /// The axes of `v` in terms of the cluster's, if a member computes it (through index views).
  std::optional<AxisMap> inside(std::uint32_t unit, Value v) const {
    if (unit_of(v) != unit) return std::nullopt;
    std::vector<std::uint32_t> views;  // outermost first
    for (; units_.kind[v.node] == NodeKind::IndexView; v = g_.node(v).inputs[0])
      views.push_back(v.node);
    const Cluster& c = units_.clusters[unit];
    auto it = c.maps.find(v.node);
    if (it == c.maps.end()) return std::nullopt;
    AxisMap map = it->second;
    for (std::size_t k = views.size(); k-- > 0;) map = above_view(g_, views[k], map);
    return map;
  }

  /// Whether node `id` can be computed in the loops of the unit; notes its axes if so.
  bool try_join(std::uint32_t unit, std::uint32_t id) {
    Cluster& c = units_.clusters[unit];
    const Node& n = g_.node(id);
    if (c.nodes.size() >= max_nodes() || c.weight >= max_weight()) return false;
    if (!c.nodes.empty() && operand_estimate(c, unit, id) > options_.max_operands) return false;
    // A value with elements in memory views of this very unit cannot be read before it is written.
    // What is kept in bfloat16 is read by later kernels: in this one it would be kept as it is.
    for (Value v : data_of(id))
      if (unit_of(v) == unit && (!inside(unit, v) || g_.node(v).op == &kToBfloat16Op)) return false;
    auto map = match_axes(unit, id);
    if (!map) return false;
    std::uint32_t covered = axes_of(*map), all = c.required_axes(sizes_);
    bool full = (covered & all) == all;
    const bool late = waits(c, id);
    if (c.columns && late && (full || (covered & c.reduced))) return false;
    if (has(*n.op, kReduction)) return full && join_reduction(unit, id, *map);
    bool indexed = has(*n.op, kGenerator);
    if (indexed && (!full || !in_order(*map) || c.reduced)) return false;
    if (!full && (!c.reduced || (covered & c.reduced))) return false;
    c.has_index |= indexed;
    if (late) c.late.insert(id);
    c.loops[id] = c.maps[id] = *map;
    return true;
  }

  bool join_reduction(std::uint32_t unit, std::uint32_t id, const AxisMap& map) {
    Cluster& c = units_.clusters[unit];
    const auto& dropped = g_.node(id).attrs.ints("axes");
    std::uint32_t axes = 0;
    AxisMap kept;
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (std::find(dropped.begin(), dropped.end(), static_cast<std::int64_t>(i)) == dropped.end())
        kept.push_back(map[i]);
      else if (map[i] >= 0)
        axes |= 1u << map[i];
    }
    if (c.reduced_set && c.reduced != axes) return false;
    if (!c.reduced_set && c.has_index && !trailing(axes, c.space.size())) return false;
    if (!c.reduced_set && !reducible_members(c, axes)) return false;
    c.loops[id] = map;
    c.maps[id] = kept;
    if (!c.reduced_set) c.columns = runs_down_columns(unit, id, axes);
    c.reduced_set = true;
    c.reduced = axes;
    c.late.insert(id);
    return true;
  }

  /// A value that `id` reads is known only after a reduction of the cluster.
  bool waits(const Cluster& c, std::uint32_t id) const {
    for (Value v : data_of(id))
      if (c.late.count(units_.below_index_views(g_, v).node)) return true;
    return false;
  }

  /// Whether most of what the unit reads whole, to reduce `axes` in `id`, lies in memory with those
  /// axes first; not if there are few rows or columns.
  bool runs_down_columns(std::uint32_t unit, std::uint32_t id, std::uint32_t axes) const {
    const Cluster& c = units_.clusters[unit];
    std::int64_t rows = 1, columns = 1;  // 0: not known
    for (std::size_t i = 0; i < c.space.size(); ++i) {
      std::int64_t& count = axes >> i & 1 ? rows : columns;
      count *= sizes_.known(c.space[i]).value_or(0);
    }
    if ((rows > 0 && rows <= kFewRows) || (columns > 0 && columns < kFewColumns)) return false;
    int yes = 0, no = 0;
    auto vote = [&](std::uint32_t member) {
      for (Value v : data_of(member)) {
        if (unit_of(v) == unit) continue;
        AxisMap map = c.loops.at(member);
        for (; units_.kind[v.node] == NodeKind::IndexView; v = g_.node(v).inputs[0])
          map = below_view(g_, v.node, map);
        std::uint32_t seen = 0;
        bool first = true;
        for (std::size_t j = 0; j < map.size(); ++j) {
          if (map[j] < 0 || sizes_.is(g_.type(v).dims[j], 1)) continue;
          const bool reduced = axes >> map[j] & 1;
          if (reduced && (seen & ~axes)) first = false;
          seen |= 1u << map[j];
        }
        if (seen == c.required_axes(sizes_)) ++(first ? yes : no);
      }
    };
    for (std::uint32_t member : c.nodes) vote(member);
    vote(id);
    return yes > no;
  }

  /// Members that cover only part of the space must lie outside the axes to be reduced.
  bool reducible_members(const Cluster& c, std::uint32_t axes) const {
    std::uint32_t all = c.required_axes(sizes_);
    for (const auto& [id, map] : c.maps) {
      std::uint32_t covered = axes_of(map);
      if ((covered & all) != all && (covered & axes)) return false;
    }
    return true;
  }

  /// The cluster axes in a map, as bits.
  static std::uint32_t axes_of(const AxisMap& map) {
    std::uint32_t axes = 0;
    for (int axis : map)
      if (axis >= 0) axes |= 1u << axis;
    return axes;
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

  /// How many operands the kernel would have, roughly, were `id` a member.
  std::size_t operand_estimate(const Cluster& c, std::uint32_t unit, std::uint32_t id) const {
    std::span<const Value> data = data_of(id);
    std::size_t more = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      bool again = false;
      for (std::size_t k = 0; k < i; ++k) again |= data[k].node == data[i].node;
      more +=
          !again && unit_of(data[i]) != unit && !c.reads.count(data[i].node) && !is_number(data[i]);
    }
    return c.reads.size() + more + c.write_estimate / kStored;
  }

  /// Which cluster axis each axis of the loops of `id` is; none if it does not fit.
  std::optional<AxisMap> match_axes(std::uint32_t unit, std::uint32_t id) const {
    const Cluster& c = units_.clusters[unit];
    const Type& type = loop_type(g_.node(id));
    AxisMap map(type.dims.size(), kNewAxis);
    std::uint32_t taken = 0;
    for (Value v : data_of(id)) {
      auto in = inside(unit, v);
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

  const Graph& g_;
  Libraries libraries_;
  FuseOptions options_;
  const SizeTable& sizes_;
  Units units_;
  std::vector<std::uint32_t> write_estimate_;    // by node: kStored if it is, 1 if it may be
  mutable std::vector<std::uint32_t> moved_to_;  // by unit: itself, or where it went
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> readers_;  // node -> units, sorted
};

}  // namespace

Units find_units(const Graph& graph, Libraries libraries, const FuseOptions& options) {
  return UnitFinder(graph, libraries, options).run();
}

}  // namespace snug
