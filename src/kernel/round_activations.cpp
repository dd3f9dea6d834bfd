#include <algorithm>
#include <unordered_set>

#include "base/origin_marks.h"
#include "expr/loop_shape.h"
#include "kernel/program.h"
#include "place/place.h"

namespace snug {
namespace {

constexpr std::int64_t kUnknownSize = 64;  // of an axis, where it is not known
constexpr double kSmallShare = 0.01;       // of the bytes that are kept: not worth rounding
constexpr std::int64_t kShared = -1;       // the reader of a value that kernels read

bool over_slices(const Node& n) { return n.inner && LoopShape::of(n.attrs).blocks; }

/// A decision that rounding may turn: which of several values is the largest, an index. Comparisons
/// by size are none: their answer is that of a point nearby.
bool decides(const Graph& g, const Node& n) {
  constexpr std::string_view kBySize[] = {"ge", "gt", "le", "lt"};
  if (has(*n.op, kMayFail)) return true;
  if (n.types.empty() || is_float(n.types[0].dtype)) return false;
  if (std::find(std::begin(kBySize), std::end(kBySize), n.op->name) != std::end(kBySize))
    return false;
  for (std::size_t i = 0; i < data_inputs(n); ++i)
    if (is_float(g.type(n.inputs[i]).dtype)) return true;
  return false;
}

/// Finds the values that backward tasks read, and builds the graph in which they read them rounded.
/// A node without memory is computed by every task that needs it, so it has two versions: as it is,
/// for forward tasks, and made of rounded values, for backward ones.
class Rounder {
 public:
  explicit Rounder(const Program& p)
      : p_(p),
        g_(p.graph),
        task_of_(g_.nodes().size(), nullptr),
        backward_(p.tasks.size(), false),
        b_(g_, map_),
        rounded_(g_.nodes().size()) {
    map_.resize(g_.nodes().size());
    for (const Task& t : p.tasks)
      for (Value v : t.writes)
        if (v.node < g_.nodes().size()) task_of_[v.node] = &t;
    find_backward_tasks();
    find_reads();
    choose();
  }

  std::optional<Graph> run(RuleCounts& counts) {
    if (chosen_.empty()) return std::nullopt;
    counts.emplace_back(
        "value -> kept for the backward part in bfloat16: lossy, derivatives change",
        chosen_.size());
    for (std::uint32_t id : order()) add(id);
    return std::move(b_).finish_as(g_, map_);
  }

 private:
  bool in_memory(std::uint32_t id) const { return task_of_[id] || has(*g_.node(id).op, kLeaf); }
  bool in_backward_task(std::uint32_t id) const {
    return task_of_[id] && backward_[static_cast<std::size_t>(task_of_[id] - p_.tasks.data())];
  }
  /// Known before running: no task reads what it is made of.
  bool is_size(std::uint32_t id) const {
    const Node& n = g_.node(id);
    return !n.types.empty() && !is_float(n.types[0].dtype) && !g_.elements({id, 0}).empty();
  }

  /// Those that make derivatives, or what depends on them, alone.
  void find_backward_tasks() {
    const std::size_t n_nodes = g_.nodes().size();
    late_.assign(n_nodes, false);
    for (std::uint32_t id = 0; id < n_nodes; ++id) {
      const Node& n = g_.node(id);
      late_[id] = is_derivative(n.origin) ||
                  std::any_of(n.inputs.begin(), n.inputs.end(), [&](Value v) { return late(v); });
    }
    // A copy in the layout that a library wants is as late as its readers.
    std::vector<bool> left(n_nodes, false), all(n_nodes, true);  // has readers; all are late
    for (Value v : g_.outputs()) all[v.node] = false;
    for (const Update& u : g_.updates()) all[u.value.node] = false;
    for (auto id = static_cast<std::uint32_t>(n_nodes); id-- > 0;) {
      const Node& n = g_.node(id);
      const bool only_late = left[id] && all[id];
      if (n.op == &kCopyOp && only_late) late_[id] = true;
      for (Value v : n.inputs) {
        left[v.node] = true;
        if (!late_[id] && !(has(*n.op, kView) && only_late)) all[v.node] = false;
      }
    }
    for (std::size_t t = 0; t < p_.tasks.size(); ++t) {
      const std::vector<Value>& writes = p_.tasks[t].writes;
      backward_[t] = std::all_of(writes.begin(), writes.end(), [&](Value v) {
        return v.node >= n_nodes || (late_[v.node] && !over_slices(g_.node(v)));
      });
    }
  }

  /// A derivative, or after one. A loop over slices does both parts; its body tells its results
  /// apart.
  bool late(Value v) const {
    const Node& n = g_.node(v);
    if (!over_slices(n)) return late_[v.node];
    return is_derivative(n.inner->node(n.inner->outputs()[v.output]).origin);
  }

  /// What backward tasks read, themselves or in nodes without memory.
  void find_reads() {
    for (auto id = static_cast<std::uint32_t>(g_.nodes().size()); id-- > 0;) {
      const Node& n = g_.node(id);
      bool read = in_backward_task(id), exactly = decides(g_, n);
      for (std::uint32_t k = 0; k < n.types.size(); ++k) {
        if (!in_memory(id)) read |= read_.count({id, k}) != 0;
        if (!in_memory(id) || n.op == &transfer_op) exactly |= exact_.count({id, k}) != 0;
      }
      if (!read || is_size(id)) continue;
      for (std::size_t i = 0; i < data_inputs(n); ++i) {
        read_.insert(n.inputs[i]);
        if (exactly) exact_.insert(n.inputs[i]);
      }
    }
  }

  double elements(Value v) const {
    double count = 1;
    for (SizeId d : g_.type(v).dims)
      count *= static_cast<double>(g_.sizes().known(d).value_or(kUnknownSize));
    return count;
  }

  /// The values to round: the largest, without those that together are a small share.
  void choose() {
    std::unordered_set<Value, ValueHash> leaving(g_.outputs().begin(), g_.outputs().end());
    for (const Update& u : g_.updates()) leaving.insert(u.value);
    std::vector<Value> kept;
    double total = 0;
    for (Value v : read_)
      if (task_of_[v.node] && !late(v) && g_.type(v).dtype == DType::F32 && !exact_.count(v) &&
          !leaving.count(v)) {
        kept.push_back(v);
        total += elements(v);
      }
    std::sort(kept.begin(), kept.end(), [&](Value a, Value b) {
      const double x = elements(a), y = elements(b);
      return x != y ? x > y : a < b;
    });
    double rest = total;
    for (Value v : kept) {
      if (rest <= kSmallShare * total) break;
      rest -= elements(v);
      chosen_.insert(v);
    }
  }

  bool is_kernel(std::uint32_t id) const { return task_of_[id]->kind == Task::Kind::Kernel; }

  /// The value in memory that `v` is a view of; `views`: the views in between, the outermost first.
  Value below_views(Value v, std::vector<std::uint32_t>& views) const {
    for (; !in_memory(v.node) && has(*g_.node(v).op, kView); v = g_.node(v).inputs[0])
      views.push_back(v.node);
    return v;
  }

  /// A library call that reads a value which is rounded.
  bool restores(std::uint32_t id) const {
    if (!in_backward_task(id) || is_kernel(id)) return false;
    std::vector<std::uint32_t> views;
    for (Value v : g_.node(id).inputs)
      if (chosen_.count(below_views(v, views))) return true;
    return false;
  }

  /// The nodes but for the inputs, in an order in which library calls that restore a value come as
  /// soon as they can: what they restore is then gone before others make theirs.
  std::vector<std::uint32_t> order() const {
    std::vector<std::uint32_t> key(g_.nodes().size()), ids;
    for (std::uint32_t id = 0; id < key.size(); ++id) {
      const OpDef& op = *g_.node(id).op;
      const bool early =
          has(op, kLeaf) || is_size(id) || restores(id) || (!in_memory(id) && has(op, kView));
      key[id] = early ? 0 : id;
      if (early)
        for (Value v : g_.node(id).inputs) key[id] = std::max(key[id], key[v.node]);
      if (id >= g_.inputs().size()) ids.push_back(id);
    }
    std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return key[a] < key[b]; });
    return ids;
  }

  void add(std::uint32_t id) {
    const Node& n = g_.node(id);
    if (in_backward_task(id) && !is_size(id)) {
      std::vector<Value> inputs = rounded_inputs(id);
      const Value v = b_.keep(g_, id, std::move(inputs));
      for (std::uint32_t k = 0; k < n.types.size(); ++k) map_[id].push_back({v.node, k});
      for (const Graph::RuntimeSource& s : g_.runtime_sources())
        if (s.value.node == id)
          b_.add_runtime_source({s.symbol, map_[id][s.value.output], s.extent, s.element});
      return;
    }
    b_.keep_all(g_, id, map_);
    for (std::uint32_t k = 0; k < n.types.size(); ++k)
      if (chosen_.count({id, k})) {
        OriginOverride origin(n.origin);
        stored_[{id, k}] = b_.add(kToBfloat16Op, {map_[id][k]});
      }
  }

  std::vector<Value> rounded_inputs(std::uint32_t id) {
    const Node& n = g_.node(id);
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const Value v = n.inputs[i];
      if (i >= data_inputs(n))
        inputs.push_back(map_[v.node][v.output]);
      else
        inputs.push_back(is_kernel(id) ? rounded(v) : restored_for(id, v));
    }
    return inputs;
  }

  /// The value in float32 again. For a library call it is in memory, so each has its own, which
  /// lives as long as the call.
  Value restored(Value v, std::int64_t reader) {
    OriginOverride origin(as_derivative(g_.node(v).origin));
    return b_.add(kFromBfloat16Op, {stored_.at(v)}, Attrs{{"reader", reader}});
  }

  Value restored_for(std::uint32_t reader, Value v) {
    std::vector<std::uint32_t> views;
    const Value base = below_views(v, views);
    if (!chosen_.count(base)) return map_[v.node][v.output];
    Value made = restored(base, reader);
    for (std::size_t k = views.size(); k-- > 0;) made = on_inputs(views[k], {made});
    return made;
  }

  /// Node `id` with other data inputs, the first ones.
  Value on_inputs(std::uint32_t id, std::vector<Value> inputs) {
    const Node& n = g_.node(id);
    for (std::size_t i = inputs.size(); i < n.inputs.size(); ++i)
      inputs.push_back(map_[n.inputs[i].node][n.inputs[i].output]);
    return b_.keep(g_, id, std::move(inputs));
  }

  /// The version for backward kernels; nodes are made when they are first asked for, so that they
  /// come late in the program, too.
  Value rounded(Value v) {
    std::vector<std::uint32_t> open{v.node}, missing;
    std::unordered_set<std::uint32_t> seen{v.node};
    while (!open.empty()) {
      const std::uint32_t id = open.back();
      open.pop_back();
      if (in_memory(id) || is_size(id) || rounded_[id]) continue;
      missing.push_back(id);
      const Node& n = g_.node(id);
      for (std::size_t i = 0; i < data_inputs(n); ++i)
        if (seen.insert(n.inputs[i].node).second) open.push_back(n.inputs[i].node);
    }
    std::sort(missing.begin(), missing.end());
    for (std::uint32_t id : missing) {
      const Node& n = g_.node(id);
      std::vector<Value> inputs;
      for (std::size_t i = 0; i < data_inputs(n); ++i) inputs.push_back(version(n.inputs[i]));
      rounded_[id] = on_inputs(id, std::move(inputs)).node;
    }
    return version(v);
  }

  Value version(Value v) {
    if (chosen_.count(v)) return restored(v, kShared);
    return rounded_[v.node] ? Value{*rounded_[v.node], v.output} : map_[v.node][v.output];
  }

  const Program& p_;
  const Graph& g_;
  std::vector<const Task*> task_of_;  // by node: what writes it; null if it has no memory
  std::vector<bool> backward_;        // by task
  std::vector<bool> late_;            // by node; see `late`
  std::unordered_set<Value, ValueHash> read_, exact_, chosen_;
  std::vector<std::vector<Value>> map_;
  Builder b_;
  std::vector<std::optional<std::uint32_t>> rounded_;  // by node without memory
  std::unordered_map<Value, Value, ValueHash> stored_;
};

template <DType To>
void convert_infer(Infer& f) {
  Type out = f.in(0);
  out.dtype = To;
  f.out(out);
}

Scalar convert(ScalarBuilder& s, const Attrs&) { return s.arg(0, s.result); }

constexpr std::string_view kNoGrad = "it is made after differentiation";

}  // namespace

const OpDef kToBfloat16Op = {
    .name = "to_bfloat16",
    .doc = "An activation as it is kept for the backward part, in memory of its own.",
    .traits = kElementwise,
    .infer = convert_infer<DType::BF16>,
    .no_grad = kNoGrad,
    .scalar = convert,
};
const OpDef kFromBfloat16Op = {
    .name = "from_bfloat16",
    .doc = "An activation that was kept in bfloat16, for one `reader`.",
    .traits = kElementwise,
    .infer = convert_infer<DType::F32>,
    .no_grad = kNoGrad,
    .scalar = convert,
};

std::optional<Graph> round_activations(const Graph& graph, Libraries libraries,
                                       const FuseOptions& options, RuleCounts& counts) {
  return Rounder(fuse(graph, libraries, options)).run(counts);
}

}  // namespace snug
