#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "expr/loop_shape.h"
#include "graph/words.h"
#include "rewrite/batch_analysis.h"
#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

using Rule = BatchRule::Kind;

/// The pattern that moves axis `axis` to the front, or back from there.
Attrs::Ints to_front(int axis, int ndim) {
  Attrs::Ints pattern{axis};
  for (int k = 0; k < ndim; ++k)
    if (k != axis) pattern.push_back(k);
  return pattern;
}
Attrs::Ints from_front(int axis, int ndim) {
  Attrs::Ints pattern;
  for (int k = 0; k < ndim; ++k) pattern.push_back(k == axis ? 0 : k < axis ? k + 1 : k);
  return pattern;
}

Value reshape(Builder& b, Value v, const SizeDims& dims, int broadcast) {
  std::optional<Value> shape = shape_vector(b, dims);
  SNUG_CHECK(shape.has_value(), "micro_batches: a shape is not known");
  return call(b, "reshape", {v, *shape},
              Attrs{{"ndim", static_cast<std::int64_t>(dims.size())},
                    {"broadcast", static_cast<std::int64_t>(broadcast)}});
}
/// (n * t, ...) -> (n, t, ...)
Value split_axis(Builder& b, Value v, SizeId rows, SizeId of_row) {
  const Type t = b.type(v);
  SizeDims dims{rows, of_row};
  for (std::size_t k = 1; k < t.dims.size(); ++k) dims.push_back(t.dims[k]);
  return reshape(b, v, dims, (t.broadcast & ~1) << 1);
}
/// (n, t, ...) -> (n * t, ...)
Value join_axes(Builder& b, Value v) {
  const Type t = b.type(v);
  SizeDims dims{b.sizes().mul(t.dims[0], t.dims[1])};
  for (std::size_t k = 2; k < t.dims.size(); ++k) dims.push_back(t.dims[k]);
  return reshape(b, v, dims, (t.broadcast >> 1) & ~1);
}

ReduceOp join_kind(const Node& n) {
  return has(*n.op, kReduction) ? static_cast<ReduceOp>(n.attrs.integer("reduce")) : ReduceOp::Sum;
}

/// The op that joins what two slices gave.
std::string_view join_op(ReduceOp kind) {
  switch (kind) {
    case ReduceOp::Prod: return "mul";
    case ReduceOp::Max: return "maximum";
    case ReduceOp::Min: return "minimum";
    case ReduceOp::Any: return "bit_or";
    case ReduceOp::All: return "bit_and";
    default: return "add";
  }
}

/// The value that joining starts from: joined with x it is x.
std::shared_ptr<const Array> join_start(ReduceOp kind, DType dtype) {
  auto a = std::make_shared<Array>(Array::empty(dtype, {}));
  const double infinite = std::numeric_limits<double>::infinity();
  const std::int64_t bits = 8 * size_of(dtype);
  const std::int64_t highest =
      static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits + (is_signed_int(dtype) ? 1 : 0)));
  double number = 0;
  std::int64_t integer = 0;
  switch (kind) {
    case ReduceOp::Prod:
    case ReduceOp::All: number = 1, integer = 1; break;
    case ReduceOp::Max:
      number = -infinite, integer = is_signed_int(dtype) ? -highest - 1 : 0;
      break;
    case ReduceOp::Min: number = infinite, integer = dtype == DType::Bool ? 1 : highest; break;
    default: break;
  }
  is_float(dtype) ? a->set_double(0, number) : a->set_int(0, integer);
  return a;
}

/// Builds the new graph: what is whole, the loop over slices, what needs the whole batch.
class Splitter {
 public:
  Splitter(const Graph& g, const Batch& batch, std::int64_t count)
      : g_(g),
        batch_(batch),
        info_(analyse_batch(g, batch)),
        count_(count),
        outer_(g, map_),
        inner_map_(g.nodes().size()) {
    SizeTable& t = outer_.sizes();
    // As many slices as the rows fill: 9 rows in 4 slices are 3 slices of 3.
    block_ = t.ceil_div(batch.rows, t.constant(count));
    steps_ = t.ceil_div(batch.rows, block_);
    block_ = t.ceil_div(batch.rows, steps_);
  }

  /// Nothing if only small integer vectors have rows.
  std::optional<Graph> run(PassNotes& notes) {
    const auto first = static_cast<std::uint32_t>(g_.inputs().size());
    const auto end = static_cast<std::uint32_t>(g_.nodes().size());
    for (std::uint32_t id = first; id < end; ++id)
      if (!info(id).inside() && info(id).kind != BatchKind::After) keep_outside(id);
    collect();
    if (states_.empty() && results_.empty()) return std::nullopt;
    build_body();
    add_loop();
    for (std::uint32_t id = first; id < end; ++id)
      if (!info(id).inside() && info(id).kind == BatchKind::After) outer_.keep_all(g_, id, map_);
    std::size_t inside = 0;
    for (std::uint32_t id = first; id < end; ++id) inside += info(id).inside();
    notes.counts.emplace_back("op -> the op on a slice, in the loop", inside);
    if (!states_.empty())
      notes.counts.emplace_back("value -> summed up over the slices", states_.size());
    notes.text = fmt::format("the {} rows of the batch run in at most {} slices",
                             g_.sizes().describe(batch_.rows, g_.input_names()), count_);
    return std::move(outer_).finish_as(g_, map_);
  }

 private:
  const BatchInfo& info(std::uint32_t id) const { return info_[id]; }
  const BatchInfo& info(Value v) const { return info_[v.node]; }

  /// An operand of the loop: a value from outside, cut on an axis or whole.
  struct Operand {
    Value value;  // of the given graph
    int cut = kWhole;
    SizeId size = SizeTable::kNoSize;  // of that axis: the rows, or a multiple
    bool operator<(const Operand& o) const {
      return std::tuple(value, cut, size) < std::tuple(o.value, o.cut, o.size);
    }
  };

  /// Data input i of a node inside, which is not made there.
  Operand operand(std::uint32_t id, std::size_t i) const {
    const Value v = g_.node(id).inputs[i];
    const int cut = info(id).rule.cut[i];
    if (cut == kWhole) return {is_turned(v) ? g_.node(v).inputs[0] : v, cut};
    return {v, cut, info(v).kind == BatchKind::Rows ? info(v).size : info(id).in_size};
  }
  Operand first_operand() const { return {batch_.sources[0], 0, batch_.rows}; }

  /// What a row has of an axis with `size` elements, as factors; none: one element.
  std::vector<SizeId> row_factors(SizeId size) const {
    std::vector<SizeId> found = g_.sizes().factors(size, batch_.rows);
    found.erase(std::find(found.begin(), found.end(), batch_.rows));
    return found;
  }

  /// A value outside the loop. What follows from sizes asks for nothing that the loop makes.
  void keep_outside(std::uint32_t id) {
    const Node& n = g_.node(id);
    bool ready = true;
    for (Value v : n.inputs) ready &= !map_[v.node].empty();
    if (ready) return outer_.keep_all(g_, id, map_);
    OriginOverride origin(n.origin);
    SizeDims dims;
    for (SizeId e : g_.elements({id, 0})) dims.push_back(e);
    std::optional<Value> v =
        n.types[0].ndim() == 0 ? size_value(outer_, dims[0]) : shape_vector(outer_, dims);
    SNUG_CHECK(v.has_value(), "micro_batches: {} is not known outside the loop", n.op->name);
    map_[id] = {cast(outer_, *v, n.types[0].dtype)};
  }

  /// Finds what the loop takes and gives.
  void collect() {
    std::set<Value> needed;
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) {
      const Node& n = g_.node(id);
      if (!info(id).inside()) {
        if (g_.elements({id, 0}).empty()) needed.insert(n.inputs.begin(), n.inputs.end());
        continue;
      }
      const BatchRule& rule = info(id).rule;
      if (rule.kind != Rule::Rows) states_.push_back(id);
      for (std::size_t i = 0; i < n.inputs.size(); ++i) {
        if (i >= data_inputs(n)) {
          for (SizeId e : g_.elements(n.inputs[i])) find_symbols(e, id);
        } else if (rule.local != static_cast<int>(i) && !info(n.inputs[i]).inside() &&
                   !(rule.cut[i] == kWhole && is_constant(n.inputs[i]))) {
          operands_.insert(operand(id, i));
        }
      }
      for (SizeId size : {info(id).size, info(id).in_size})
        if (size != SizeTable::kNoSize) find_symbols(size, id);
      for (const Type& type : n.types)
        for (SizeId d : type.dims) find_symbols(d, id);
      if (rule.counter >= 0) counters_.push_back(id);
    }
    needed.insert(g_.outputs().begin(), g_.outputs().end());
    for (const Update& u : g_.updates()) needed.insert(u.value);
    for (Value v : needed)
      if (info(v).inside() && info(v).kind == BatchKind::Rows) results_.push_back(v);
    operands_.insert(first_operand());  // says how many rows there are
    for (const Operand& o : operands_) {
      for (SizeId d : g_.type(o.value).dims) find_symbols(d, o.value.node);
      if (o.cut != kWhole) find_symbols(o.size, o.value.node);
    }
    symbols_[batch_.rows] = 0;
  }

  /// A whole value with its axes moved. They are moved inside: products take transposed weights as
  /// they are, while an operand of the loop would be a copy that lives as long as the loop.
  bool is_turned(Value v) const { return g_.node(v).op->name == "dimshuffle"; }

  /// A constant, or one with its axes moved: made inside.
  bool is_constant(Value v) const {
    if (is_turned(v)) v = g_.node(v).inputs[0];
    return has(*g_.node(v).op, kLeaf) && g_.node(v).attrs.has("value");
  }

  /// Notes the size symbols that a size is made of, down to the size of the batch.
  void find_symbols(SizeId size, std::uint32_t node) {
    const SizeTable& table = g_.sizes();
    table.walk({size}, [&](SizeId id) {
      if (id == batch_.rows) return false;
      if (table.node(id).op != SizeOp::Symbol) return true;
      if (table.is_runtime(id))
        throw ValueError(
            fmt::format("micro_batches: a size of {} becomes known only while running, so "
                        "the batch cannot be cut into slices",
                        word_for(g_.node(node))),
            "leave micro_batches out", g_.node(node).origin);
      symbols_[id] = 0;
      return false;
    });
  }

  // ---- inside ----

  /// A size of the given graph with `rows` for the size of the batch; `done` are those made so far.
  SizeId inner_size(SizeId id, SizeId rows, std::vector<SizeId>& done) {
    done.resize(g_.sizes().nodes().size(), SizeTable::kNoSize);
    done[batch_.rows] = rows;
    return inner_.sizes().import(g_.sizes(), id, done,
                                 [&](const Symbol&, SizeId s) { return symbols_.at(s); });
  }
  /// A size of the given graph; that of the batch stays the whole one, or becomes that of a slice.
  SizeId inner_size(SizeId id) { return inner_size(id, symbols_.at(batch_.rows), inner_sizes_); }
  SizeId slice_size(SizeId id) { return inner_size(id, slice_rows_, slice_sizes_); }

  Type inner_type(const Type& outer) {
    Type t = outer;
    for (SizeId& d : t.dims) d = inner_size(d);
    return t;
  }

  Value inner_input(Type type, const std::string& name, std::vector<SizeId> elements = {}) {
    return inner_.input(std::move(type), name, nullptr, std::move(elements));
  }

  void build_inputs() {
    SizeTable& t = inner_.sizes();
    index_ =
        inner_input(Type{DType::I64, {}, 0}, "slice", {t.symbol({Symbol::Kind::Element, 0, 0})});
    slice_rows_ = t.symbol({Symbol::Kind::Dim, 1, 0});
    // The sizes come last but are in all types: their numbers first.
    auto number = static_cast<std::uint32_t>(1 + operands_.size() + states_.size());
    for (auto& [symbol, id] : symbols_) id = t.symbol({Symbol::Kind::Element, number++, 0});
    // Sequences, the values that say how many rows there are first; states; whole values; sizes.
    const Operand first = first_operand();
    auto add_sequence = [&](const Operand& o) {
      Type type = inner_type(g_.type(o.value));
      Type front{type.dtype, {}, 0};
      for (std::int64_t k : to_front(o.cut, type.ndim())) {
        auto axis = static_cast<std::size_t>(k);
        if (type.broadcastable(axis) && k != o.cut)
          front.broadcast |= static_cast<std::uint8_t>(1u << front.dims.size());
        front.dims.push_back(k == o.cut ? slice_rows_ : type.dims[axis]);
        if (k == o.cut && o.size != batch_.rows) front.dims.push_back(inner_row_size(o.size));
      }
      taken_[o] = inner_input(front, "");
      sequence_values_.push_back(o);
    };
    add_sequence(first);
    for (const Operand& o : operands_)
      if (o.cut != kWhole && (first < o || o < first)) add_sequence(o);
    for (std::uint32_t id : states_)
      state_inputs_.push_back(inner_input(inner_type(g_.node(id).types[0]), ""));
    for (const Operand& o : operands_) {
      if (o.cut != kWhole) continue;
      std::vector<SizeId> elements;
      for (SizeId e : g_.elements(o.value)) elements.push_back(inner_constant_or_none(e));
      if (std::find(elements.begin(), elements.end(), SizeTable::kNoSize) != elements.end())
        elements.clear();
      taken_[o] = inner_input(inner_type(g_.type(o.value)), "", std::move(elements));
      whole_values_.push_back(o.value);
    }
    for (auto& [symbol, id] : symbols_) inner_input(Type{DType::I64, {}, 0}, "", {id});
    for (std::uint32_t id : counters_)
      counter_inputs_[id] = inner_input(Type{DType::I64, {}, 0}, "");
  }

  /// A value that is used as data keeps its meaning of the whole batch: only constants are known.
  SizeId inner_constant_or_none(SizeId e) {
    auto known = g_.sizes().known(e);
    return known ? inner_.sizes().constant(*known) : SizeTable::kNoSize;
  }

  /// The elements that a row has of an axis of this size.
  SizeId inner_row_size(SizeId size) {
    SizeId product = inner_.sizes().one();
    for (SizeId f : row_factors(size)) product = inner_.sizes().mul(product, inner_size(f));
    return product;
  }

  /// A size input; the element that is the number of rows becomes that of the slice.
  Value inner_size_value(Value v, const BatchRule& rule) {
    SizeDims dims;
    for (SizeId e : g_.elements(v)) {
      bool rows =
          static_cast<int>(dims.size()) == rule.rows_at && g_.sizes().is_multiple(e, batch_.rows);
      dims.push_back(rows ? slice_size(e) : inner_size(e));
    }
    std::optional<Value> value =
        g_.type(v).ndim() == 0 ? size_value(inner_, dims[0]) : shape_vector(inner_, dims);
    SNUG_CHECK(value.has_value(), "micro_batches: a size cannot be written inside the loop");
    return *value;
  }

  Value inner_constant(Value v) {
    const Node& n = g_.node(v);
    if (has(*n.op, kLeaf)) return inner_.constant(n.attrs.array("value"));
    return dimshuffle(inner_, inner_constant(n.inputs[0]), n.attrs.ints("pattern"));
  }

  /// What the body has for a value that is made inside.
  Value inner_result(Value v) const { return {inner_map_[v.node].node, v.output}; }

  /// Data input i of a node inside.
  Value inner_operand(std::uint32_t id, std::size_t i) {
    const Node& n = g_.node(id);
    const BatchRule& rule = info(id).rule;
    const Value v = n.inputs[i];
    if (rule.local == static_cast<int>(i)) {
      Value zero = inner_.constant(0, Type{DType::I64, {}, 0});
      Value one = inner_.constant(1, Type{DType::I64, {}, 0});
      return call(inner_, "arange", {zero, one, *size_value(inner_, slice_size(info(id).in_size))},
                  Attrs{{"dtype", g_.type(v).dtype}});
    }
    if (info(v).inside()) return inner_result(v);
    const Operand from = operand(id, i);
    const bool constant = from.cut == kWhole && is_constant(v);
    Value taken = constant ? inner_constant(v) : taken_.at(from);
    if (from.cut == kWhole && !constant && is_turned(v))
      taken = dimshuffle(inner_, taken, g_.node(v).attrs.ints("pattern"));
    if (from.cut != kWhole && from.size != batch_.rows) taken = join_axes(inner_, taken);
    if (rule.cut[i] > 0)
      taken = dimshuffle(inner_, taken, from_front(rule.cut[i], g_.type(v).ndim()));
    if (rule.counter == static_cast<int>(i))
      taken = call(inner_, "add", {taken, call(inner_, "mul", {index_, counter_inputs_.at(id)})});
    return taken;
  }

  void build_body() {
    build_inputs();
    std::vector<Value> results;
    std::size_t state = 0;
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) {
      if (!info(id).inside()) continue;
      const Node& n = g_.node(id);
      const BatchRule& rule = info(id).rule;
      OriginOverride origin(n.origin);
      std::vector<Value> inputs;
      for (std::size_t i = 0; i < n.inputs.size(); ++i) {
        inputs.push_back(i < data_inputs(n) ? inner_operand(id, i)
                                            : inner_size_value(n.inputs[i], rule));
      }
      Value v = inner_.add(*n.op, std::move(inputs), n.attrs);
      if (rule.kind == Rule::Summed)
        v = call(inner_, join_op(join_kind(n)), {state_inputs_[state], v});
      if (rule.kind != Rule::Rows) {
        results.push_back(v);
        ++state;
      }
      inner_map_[id] = v;
    }
    for (Value v : results_) {
      Value r = dimshuffle(inner_, inner_result(v), to_front(info(v).axis, g_.type(v).ndim()));
      if (const SizeId size = info(v).size; size != batch_.rows)
        r = split_axis(inner_, r, slice_rows_, inner_row_size(size));
      results.push_back(r);
    }
    body_ = std::make_shared<Graph>(std::move(inner_).finish(std::move(results), {}));
    verify(*body_, "split_batch, body");
  }

  // ---- outside ----

  Value outer_size(SizeId id) {
    std::optional<Value> v = size_value(outer_, id);
    SNUG_CHECK(v.has_value(), "micro_batches: a size cannot be written outside the loop");
    return *v;
  }

  Value start_of(std::uint32_t id) {
    const Node& n = g_.node(id);
    const Type& type = n.types[0];
    Value c = outer_.constant(join_start(join_kind(n), type.dtype));
    if (type.ndim() == 0) return c;
    std::optional<Value> v = stretch(outer_, c, type);
    SNUG_CHECK(v.has_value(), "micro_batches: a sum has no known shape");
    return *v;
  }

  void add_loop() {
    std::vector<Value> inputs{outer_size(steps_)};
    for (const Operand& o : sequence_values_) {
      Value v = map_[o.value.node][o.value.output];
      v = dimshuffle(outer_, v, to_front(o.cut, outer_.type(v).ndim()));
      if (o.size != batch_.rows)
        v = split_axis(outer_, v, batch_.rows, outer_.sizes().product(row_factors(o.size)));
      inputs.push_back(v);
    }
    for (std::uint32_t id : states_) inputs.push_back(start_of(id));
    for (Value v : whole_values_) inputs.push_back(map_[v.node][v.output]);
    for (const auto& [symbol, unused] : symbols_) inputs.push_back(outer_size(symbol));
    for (std::uint32_t id : counters_) {
      // Elements in a slice.
      SizeId elements =
          outer_.sizes().mul(block_, outer_.sizes().product(row_factors(info(id).size)));
      const SizeDims& dims = g_.node(id).types[0].dims;
      for (std::size_t k = 1; k < dims.size(); ++k)
        elements = outer_.sizes().mul(elements, dims[k]);
      inputs.push_back(outer_size(elements));
    }
    const LoopShape shape{sequence_values_.size(), states_.size(), results_.size(), true};
    OriginOverride origin(g_.node(states_.empty() ? results_[0].node : states_[0]).origin);
    Value loop = outer_.add(find_op("loop"), std::move(inputs), shape.attrs(), body_);
    std::uint32_t output = 0;
    for (std::uint32_t id : states_) map_[id] = {{loop.node, output++}};
    for (Value result : results_) {
      Value v{loop.node, output++};
      if (info(result).size != batch_.rows) v = join_axes(outer_, v);
      map_[result.node].resize(g_.node(result).types.size());
      map_[result.node][result.output] =
          dimshuffle(outer_, v, from_front(info(result).axis, outer_.type(v).ndim()));
    }
  }

  const Graph& g_;
  const Batch& batch_;
  std::vector<BatchInfo> info_;
  std::vector<std::vector<Value>> map_;
  std::int64_t count_;
  Builder outer_;
  SizeId block_ = 0, steps_ = 0;

  std::set<Operand> operands_;
  std::map<SizeId, SizeId> symbols_;  // to the body's sizes
  std::vector<std::uint32_t> states_, counters_;
  std::vector<Value> results_;
  std::vector<Operand> sequence_values_;
  std::vector<Value> whole_values_;

  Builder inner_;
  std::vector<Value> inner_map_;
  std::vector<SizeId> inner_sizes_, slice_sizes_;
  std::map<Operand, Value> taken_;
  std::vector<Value> state_inputs_;
  std::map<std::uint32_t, Value> counter_inputs_;
  Value index_;
  SizeId slice_rows_ = 0;
  std::shared_ptr<const Graph> body_;
};

}  // namespace

std::optional<Graph> split_batch(const Graph& given, std::int64_t count, PassNotes& notes) {
  Graph graph = given;
  Batch batch = find_batch(graph);
  // Sizes that have become one may show others; each time there is one size less.
  while (!batch.sources.empty()) {
    std::optional<Graph> changed = with_one_size(graph, batch);
    if (!changed) break;
    graph = *std::move(changed);
    batch = find_batch(graph);
  }
  if (batch.sources.empty())
    throw ValueError(
        "micro_batches: the function has no batch: no argument has an axis, and no shared "
        "variable is sliced",
        "leave micro_batches out");
  if (auto rows = graph.sizes().known(batch.rows))
    throw ValueError(
        fmt::format("micro_batches: the type fixes the batch at {} rows, which cannot be cut "
                    "into slices",
                    *rows),
        "leave the first size of the input open", graph.node(batch.sources[0]).origin);
  return Splitter(graph, batch, count).run(notes);
}

}  // namespace snug
