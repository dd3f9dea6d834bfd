#include "rewrite/batch_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "graph/substitute_sizes.h"
#include "graph/words.h"

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

/// The sizes that an axis with the rows of the batch (n, or n * t) and as many row numbers
/// (m, or m * s) are made of, in pairs: (n, m), (t, s). Nothing if they are not of this form.
std::vector<std::pair<SizeId, SizeId>> pair_factors(const Graph& g, SizeId axis, SizeId numbers,
                                                    SizeId rows) {
  const SizeTable& t = g.sizes();
  if (!t.is_multiple(axis, rows)) return {};
  std::vector<SizeId> parts = t.factors(axis, rows), asked = t.factors(numbers);
  if (parts.size() != asked.size() || parts.size() > 2) return {};
  for (SizeId id : asked)
    if (t.node(id).op != SizeOp::Symbol || t.symbol_of(id).kind != Symbol::Kind::Dim) return {};
  if (parts[0] != rows) std::swap(parts[0], parts[1]);
  std::sort(asked.begin(), asked.end(), [&](SizeId a, SizeId b) {
    return std::pair(t.symbol_of(a).input, t.symbol_of(a).index) <
           std::pair(t.symbol_of(b).input, t.symbol_of(b).index);
  });
  std::vector<std::pair<SizeId, SizeId>> pairs;
  for (std::size_t i = 0; i < parts.size(); ++i) pairs.emplace_back(parts[i], asked[i]);
  return pairs;
}

/// Where rows are folded by -1: (n, t, d) -> (-1, 5) gives t * d // 5 elements to a row, if that
/// is a whole number. The sizes of the last axes, in pairs: (5, d).
std::vector<std::pair<SizeId, SizeId>> pair_last_axes(const Graph& g, const Node& n, SizeId rows) {
  const SizeTable& t = g.sizes();
  const SizeDims &from = g.type(n.inputs[0]).dims, &to = n.types[0].dims;
  auto quotient = [&](SizeId d) {
    if (t.node(d).op != SizeOp::FloorDiv) return false;
    const std::vector<SizeId> parts = t.factors(t.node(d).a, rows);
    return std::find(parts.begin(), parts.end(), rows) != parts.end();
  };
  std::vector<std::pair<SizeId, SizeId>> pairs;
  if (std::none_of(to.begin(), to.end(), quotient)) return pairs;
  for (std::size_t k = 1; k <= std::min(from.size(), to.size()); ++k) {
    const SizeId a = to[to.size() - k], b = from[from.size() - k];
    if (a == b) continue;
    const bool open =
        t.node(b).op == SizeOp::Symbol && b != rows && t.symbol_of(b).kind == Symbol::Kind::Dim;
    if (!open || quotient(a)) break;
    pairs.emplace_back(a, b);
  }
  return pairs;
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
    throw ValueError(fmt::format("micro_batches: {} {}, so the batch cannot be cut into slices",
                                 word_for(g_.node(id)), why),
                     "leave micro_batches out, or use a smaller batch", g_.node(id).origin);
  }

  /// Why a node that is called `word` needs all rows at once: it reads a value of the whole batch.
  /// The op that makes that one, and its line.
  std::string joined_at(std::uint32_t id, const std::string& word) const {
    while (info_[id].rule.kind != BatchRule::Kind::Summed) {
      const Node& n = g_.node(id);
      std::size_t i = 0;
      while (i < data_inputs(n) && info_[n.inputs[i].node].kind != BatchKind::After) ++i;
      if (i == data_inputs(n)) break;
      id = n.inputs[i].node;
    }
    std::string where = describe(g_.node(id).origin);
    if (!where.empty()) where = fmt::format(" ({})", where);
    const std::string join = word_for(g_.node(id));
    if (join == word) return fmt::format("needs a value of the whole batch{}", where);
    return fmt::format("combines rows with a value of the whole batch, by {}{}", join, where);
  }

  void classify(std::uint32_t id) {
    const Node& n = g_.node(id);
    BatchInfo& out = info_[id];
    if (std::find(batch_.sources.begin(), batch_.sources.end(), Value{id, 0}) !=
        batch_.sources.end()) {
      out.kind = BatchKind::Rows;
      out.axis = 0;
      out.size = batch_.rows;
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
    if (rows && after) {
      for (std::size_t i = 0; i < data_inputs(n); ++i)
        if (const std::uint32_t from = n.inputs[i].node; info_[from].kind == BatchKind::After)
          refuse(id, joined_at(from, word_for(n)));
    }
    if (after) {
      out.kind = BatchKind::After;
      return;
    }
    bool sized = n.op->size_inputs_from >= 0 && n.types.size() == 1 &&
                 std::any_of(n.types[0].dims.begin(), n.types[0].dims.end(),
                             [&](SizeId d) { return g_.sizes().is_multiple(d, batch_.rows); });
    if (!rows && !sized) return;
    out.in_size = size_of_rows(n);
    BatchRule rule = ask(n, out.in_size);
    if (rule.kind == BatchRule::Kind::No) {
      if (!rows) return;  // only its size is the batch's: made whole
      if (!n.op->batch && !has(*n.op, kReduction | kElementwise))
        refuse(id, "does not work on slices");
      refuse(id,
             fmt::format("needs several rows at once{}{}", rule.why.empty() ? "" : ": ", rule.why));
    }
    out.kind = rule.kind == BatchRule::Kind::Rows ? BatchKind::Rows : BatchKind::After;
    if (rule.kind == BatchRule::Kind::Joined) return;
    out.axis = rule.axis;
    out.size = rule.size == SizeTable::kNoSize ? out.in_size : rule.size;
    if (!rows) out.in_size = out.size;
    out.row_numbers = rule.row_numbers;
    const Type& type = n.types[0];
    out.outside =
        out.kind == BatchKind::Rows && all_outside && type.ndim() == 1 && is_discrete(type.dtype);
    if (!out.outside) out.rule = std::move(rule);
  }

  /// Of the axis on which the inputs have their rows: all of them, or the op would not take them.
  SizeId size_of_rows(const Node& n) const {
    for (std::size_t i = 0; i < data_inputs(n); ++i)
      if (const BatchInfo& in = info_[n.inputs[i].node]; in.kind == BatchKind::Rows) return in.size;
    return batch_.rows;
  }

  BatchRule ask(const Node& n, SizeId size) const {
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
    BatchArgs args{n.attrs,  types,      n.types[0],  axis, {numbers.get(), n.inputs.size()},
                   elements, g_.sizes(), batch_.rows, size};
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
      if (axis != kWhole && axis != k) {
        BatchRule no;
        no.why = "the batch would be on two axes";
        return no;
      }
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
  const auto require = [&](SizeId part, SizeId asked, const char* otherwise, OriginId origin) {
    if (part == asked || !same.emplace(asked, part).second) return;
    more.push_back({part,
                    asked,
                    true,
                    otherwise,
                    "without micro_batches they may",
                    {{part}, {asked}},
                    origin});
  };
  for (const Node& n : g.nodes()) {
    if (n.op->name == "reshape")
      for (auto [part, asked] : pair_last_axes(g, n, batch.rows))
        require(part, asked,
                "micro_batches: the last sizes of what is reshaped and of the result differ, so "
                "that rows of the batch could mix",
                n.origin);
    const bool gather = n.op->name == "gather";
    if (!gather && n.op->name != "scatter_add" && n.op->name != "scatter_set") continue;
    for (std::size_t i = gather ? 1 : 2, axis = 0; i < n.inputs.size(); ++i, ++axis) {
      std::optional<Value> numbers = row_numbers(g, n.inputs[i]);
      if (!numbers) continue;
      for (auto [part, asked] :
           pair_factors(g, g.type(n.inputs[0]).dims[axis], g.type(*numbers).dims[0], batch.rows))
        require(part, asked, "micro_batches: the parts of the batch differ in their number of rows",
                n.origin);
    }
  }
  if (same.empty()) return std::nullopt;
  return substitute_sizes(g, same, more);
}

std::vector<BatchInfo> analyse_batch(const Graph& graph, const Batch& batch) {
  return Analysis(graph, batch).run();
}

}  // namespace snug
