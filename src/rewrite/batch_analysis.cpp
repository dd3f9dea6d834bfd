#include "rewrite/batch_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "graph/substitute_sizes.h"

namespace snug {
namespace {

/// A range over axis 0 of a shared variable that the function does not update, or of its cast.
bool is_slice_of_data(const Graph& g, const Node& n) {
  if (n.op->name != "slice") return false;
  const Attrs::Ints& spec = n.attrs.ints("spec");
  if (spec.empty() || spec[0] != 0 || (spec[1] == 0 && spec[2] == 0)) return false;
  Value from = n.inputs[0];
  while (g.node(from).op->name == "cast") from = g.node(from).inputs[0];
  if (from.node >= g.inputs().size() || !g.inputs()[from.node].shared) return false;
  return std::none_of(g.updates().begin(), g.updates().end(),
                      [&](const Update& u) { return u.input == from.node; });
}

/// The numbers 0, 1, 2, ... behind an index into an axis, or nothing.
std::optional<Value> row_numbers(const Graph& g, Value index) {
  while (g.node(index).op->name == "check_index") index = g.node(index).inputs[0];
  const Node& n = g.node(index);
  if (n.op->name != "arange") return std::nullopt;
  auto start = g.elements(n.inputs[0]), step = g.elements(n.inputs[1]);
  if (start.empty() || step.empty()) return std::nullopt;
  if (!g.sizes().is(start[0], 0) || !g.sizes().is(step[0], 1)) return std::nullopt;
  return index;
}

/// Sorts the nodes of a graph by how they depend on the rows of the batch.
class Analysis {
 public:
  Analysis(const Graph& g, const Batch& batch) : g_(g), batch_(batch), info_(g.nodes().size()) {}

  std::vector<BatchInfo> run() {
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) classify(id);
    return std::move(info_);
  }

 private:
  [[noreturn]] void refuse(std::uint32_t id, std::string_view why) const {
    throw Error(Fault::Value,
                fmt::format("micro_batches: {} {}, so the batch cannot be cut into slices",
                            g_.node(id).op->name, why),
                "leave micro_batches out, or use a smaller batch", g_.node(id).origin);
  }

  void classify(std::uint32_t id) {
    const Node& n = g_.node(id);
    BatchInfo& out = info_[id];
    if (std::find(batch_.sources.begin(), batch_.sources.end(), Value{id, 0}) !=
        batch_.sources.end()) {
      out.kind = BatchKind::Rows;
      out.axis = 0;
      return;
    }
    if (has(*n.op, kLeaf) || !g_.elements({id, 0}).empty()) return;
    bool rows = false, after = false, all_outside = true;
    for (std::size_t i = 0; i < data_inputs(n); ++i) {
      const BatchInfo& in = info_[n.inputs[i].node];
      rows |= in.kind == BatchKind::Rows;
      after |= in.kind == BatchKind::After;
      all_outside &= in.outside;
    }
    if (rows && after) refuse(id, "combines rows with a value of the whole batch");
    if (after) {
      out.kind = BatchKind::After;
      return;
    }
    bool sized = n.op->size_inputs_from >= 0 && n.types.size() == 1 &&
                 std::find(n.types[0].dims.begin(), n.types[0].dims.end(), batch_.rows) !=
                     n.types[0].dims.end();
    if (!rows && !sized) return;
    BatchRule rule = ask(n);
    if (rule.kind == BatchRule::Kind::No) {
      if (!rows) return;  // only its size is the batch's: made whole
      refuse(id, n.op->batch || has(*n.op, kReduction | kElementwise) ? "needs several rows at once"
                                                                      : "does not work on slices");
    }
    out.kind = rule.kind == BatchRule::Kind::Rows ? BatchKind::Rows : BatchKind::After;
    if (rule.kind == BatchRule::Kind::Joined) return;
    out.axis = rule.axis;
    out.row_numbers = rule.row_numbers;
    const Type& type = n.types[0];
    out.outside =
        out.kind == BatchKind::Rows && all_outside && type.ndim() == 1 && is_discrete(type.dtype);
    if (!out.outside) out.rule = std::move(rule);
  }

  BatchRule ask(const Node& n) const {
    std::vector<const Type*> types;
    std::vector<int> axis;
    auto numbers = std::make_unique<bool[]>(n.inputs.size());
    std::vector<std::span<const SizeId>> elements;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const BatchInfo& in = info_[n.inputs[i].node];
      types.push_back(&g_.type(n.inputs[i]));
      bool data = i < data_inputs(n);
      axis.push_back(data && in.kind == BatchKind::Rows ? in.axis : kWhole);
      numbers[i] = data && in.row_numbers;
      elements.push_back(g_.elements(n.inputs[i]));
    }
    BatchArgs args{n.attrs,  types,      n.types[0], axis, {numbers.get(), n.inputs.size()},
                   elements, g_.sizes(), batch_.rows};
    if (n.op->batch) return n.op->batch(args);
    if (has(*n.op, kReduction)) return reduction(args);
    if (has(*n.op, kElementwise)) return elementwise(args);
    return {};
  }

  /// All operands have the rows on one axis; what does not stretch there is cut.
  static BatchRule elementwise(const BatchArgs& a) {
    int axis = kWhole;
    for (int k : a.axis) {
      if (k == kWhole) continue;
      if (axis != kWhole && axis != k) return {};
      axis = k;
    }
    BatchRule rule{BatchRule::Kind::Rows, axis, {}};
    for (const Type* t : a.in)
      rule.cut.push_back(t->broadcastable(static_cast<std::size_t>(axis)) ? kWhole : axis);
    return rule;
  }

  static BatchRule reduction(const BatchArgs& a) {
    int before = 0;
    for (std::int64_t axis : a.attrs.ints("axes")) {
      if (axis == a.axis[0]) {
        auto kind = static_cast<ReduceOp>(a.attrs.integer("reduce"));
        if (kind == ReduceOp::ArgMax || kind == ReduceOp::ArgMin) return {};
        return {BatchRule::Kind::Summed, kWhole, {a.axis[0]}};
      }
      before += axis < a.axis[0];
    }
    return {BatchRule::Kind::Rows, a.axis[0] - before, {a.axis[0]}};
  }

  const Graph& g_;
  const Batch& batch_;
  std::vector<BatchInfo> info_;
};

}  // namespace

Batch find_batch(const Graph& g) {
  Batch batch;
  auto take = [&](Value v) {
    const Type& t = g.type(v);
    if (t.ndim() == 0 || t.broadcastable(0)) return;
    if (batch.rows == SizeTable::kNoSize) batch.rows = t.dims[0];
    if (t.dims[0] == batch.rows) batch.sources.push_back(v);
  };
  for (const GraphInput& in : g.inputs())
    if (!in.shared) take(in.value);
  if (!batch.sources.empty()) return batch;
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
    if (is_slice_of_data(g, g.node(id))) take({id, 0});
  return batch;
}

std::optional<Graph> with_one_size(const Graph& g, const Batch& batch) {
  if (g.sizes().node(batch.rows).op != SizeOp::Symbol) return std::nullopt;
  std::unordered_map<SizeId, SizeId> same;
  std::vector<Infer::Requirement> more;
  for (const Node& n : g.nodes()) {
    const bool gather = n.op->name == "gather";
    if (!gather && n.op->name != "scatter_add" && n.op->name != "scatter_set") continue;
    for (std::size_t i = gather ? 1 : 2, axis = 0; i < n.inputs.size(); ++i, ++axis) {
      std::optional<Value> numbers = row_numbers(g, n.inputs[i]);
      if (!numbers || g.type(n.inputs[0]).dims[axis] != batch.rows) continue;
      const SizeId rows = g.type(*numbers).dims[0];
      if (rows == batch.rows || g.sizes().node(rows).op != SizeOp::Symbol ||
          g.sizes().symbol_of(rows).kind != Symbol::Kind::Dim || same.count(rows))
        continue;
      same[rows] = batch.rows;
      Infer::Requirement r{batch.rows,
                           rows,
                           true,
                           "micro_batches: the parts of the batch differ in their number of rows",
                           "without micro_batches they may",
                           {{batch.rows}, {rows}},
                           n.origin};
      more.push_back(std::move(r));
    }
  }
  if (same.empty()) return std::nullopt;
  return substitute_sizes(g, same, more);
}

std::vector<BatchInfo> analyse_batch(const Graph& graph, const Batch& batch) {
  return Analysis(graph, batch).run();
}

}  // namespace snug
