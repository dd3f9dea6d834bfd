#include "reference/interpret_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace snug {
namespace {

using Pointers = std::vector<const RefTensor*>;
std::vector<RefTensor> run_graph(const Graph& graph, const Pointers& inputs,
                                 const InterpretOptions& options);

/// Steps through the elements of a shape in C order, keeping one offset per operand.
class Walk {
 public:
  Walk(const Dims& shape, std::vector<Dims> strides)
      : shape_(shape),
        strides_(std::move(strides)),
        index_(shape.size(), 0),
        offsets_(strides_.size(), 0) {}
  const Dims& index() const { return index_; }
  std::int64_t offset(std::size_t operand) const { return offsets_[operand]; }
  void next() {
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      ++index_[axis];
      for (std::size_t k = 0; k < offsets_.size(); ++k) offsets_[k] += strides_[k][axis];
      if (index_[axis] < shape_[axis]) return;
      for (std::size_t k = 0; k < offsets_.size(); ++k)
        offsets_[k] -= strides_[k][axis] * shape_[axis];
      index_[axis] = 0;
    }
  }

 private:
  Dims shape_;
  std::vector<Dims> strides_;
  Dims index_;
  std::vector<std::int64_t> offsets_;
};

/// Strides that read `tensor` over `shape`: an axis of size 1 stretches. Types have been checked.
Dims broadcast_strides(const RefTensor& tensor, const Dims& shape, std::string_view op) {
  Dims strides = contiguous_strides(tensor.shape);
  SNUG_CHECK(strides.size() == shape.size(), "{}: an operand of {} dimensions for a result of {}",
             op, strides.size(), shape.size());
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (tensor.shape[axis] == 1) {
      strides[axis] = 0;
    } else if (tensor.shape[axis] != shape[axis]) {
      fail(Fault::Shape, fmt::format("{}: an operand of shape {} does not fit the result {}", op,
                                     describe_shape(tensor.shape), describe_shape(shape)));
    }
  return strides;
}

/// Elementwise ops and generators: the scalar body, element by element. Operands that only decide
/// sizes have no place in the body.
RefTensor run_scalar(const Node& node, std::span<const RefTensor* const> inputs,
                     const Dims& shape) {
  const OpDef& op = *node.op;
  std::size_t operands = inputs.size();
  if (op.size_inputs_from >= 0)
    operands = std::min<std::size_t>(operands, static_cast<std::size_t>(op.size_inputs_from));
  ScalarBuilder builder;
  for (const RefTensor* x : inputs) builder.arg_types.push_back(x->dtype);
  builder.result = node.types[0].dtype;
  std::uint32_t result = op.scalar(builder, node.attrs).id;
  const std::vector<Instr>& body = builder.body;

  RefTensor out = RefTensor::zeros(node.types[0].dtype, shape);
  std::vector<Dims> strides;
  for (std::size_t k = 0; k < operands; ++k) {
    bool scalar = inputs[k]->shape.empty();  // generators take 0-d parameters
    strides.push_back(scalar ? Dims(shape.size(), 0)
                             : broadcast_strides(*inputs[k], shape, op.name));
  }
  Walk walk(shape, std::move(strides));
  std::vector<Number> values(body.size());
  Instr to_result{Prim::Cast, out.dtype};
  bool convert = body[result].dtype != out.dtype;
  for (std::int64_t flat = 0, n = out.size(); flat < n; ++flat, walk.next()) {
    for (std::size_t k = 0; k < body.size(); ++k) {
      const Instr& in = body[k];
      switch (in.prim) {
        case Prim::Const: values[k] = {in.number, in.integer}; break;
        case Prim::Arg:
          SNUG_CHECK(static_cast<std::size_t>(in.integer) < operands,
                     "{}: its body reads operand {} of {}", op.name, in.integer, operands);
          values[k] = inputs[in.integer]->at(walk.offset(in.integer));
          break;
        case Prim::Index: values[k] = {0, walk.index()[in.integer]}; break;
        case Prim::FlatIndex: values[k] = {0, flat}; break;
        default:
          values[k] = evaluate(in, body[in.a].dtype, values[in.a], values[in.b], values[in.c]);
      }
    }
    Number value = values[result];
    if (convert) value = evaluate(to_result, body[result].dtype, value, {}, {});
    out.set(flat, value);
  }
  return out;
}

Number smallest(DType t) {
  if (is_float(t)) return {-std::numeric_limits<double>::infinity(), 0};
  if (!is_signed_int(t)) return {};
  return {0, t == DType::I64 ? INT64_MIN : -(std::int64_t{1} << (8 * size_of(t) - 1))};
}

Number largest(DType t) {
  if (is_float(t)) return {std::numeric_limits<double>::infinity(), 0};
  if (t == DType::Bool) return {0, 1};
  if (t == DType::U64) return {0, -1};
  std::int64_t bits = 8 * size_of(t) - (is_signed_int(t) ? 1 : 0);
  return {0, static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1)};
}

/// What a reduction over nothing gives.
Number identity(ReduceOp op, DType acc) {
  switch (op) {
    case ReduceOp::Prod: return {1, 1};
    case ReduceOp::Max: return smallest(acc);
    case ReduceOp::Min: return largest(acc);
    case ReduceOp::All: return {0, 1};
    default: return {};
  }
}

/// True if `x` takes the place of the best value so far; the first NaN wins, then the first best.
bool better(ReduceOp op, DType t, Number x, Number best) {
  if (is_float(t)) {
    if (std::isnan(best.f)) return false;
    if (std::isnan(x.f)) return true;
  }
  Instr compare{op == ReduceOp::ArgMax ? Prim::Gt : Prim::Lt, DType::Bool};
  return evaluate(compare, t, x, best, {}).i != 0;
}

RefTensor run_reduction(const Node& node, const RefTensor& x, const Dims& shape) {
  auto op = static_cast<ReduceOp>(node.attrs.integer("reduce"));
  const Attrs::Ints& axes = node.attrs.ints("axes");
  bool arg = op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
  bool logic = op == ReduceOp::Any || op == ReduceOp::All;
  DType acc = logic ? DType::Bool : arg ? x.dtype : node.attrs.dtype("acc");
  Prim combine = op == ReduceOp::Sum    ? Prim::Add
                 : op == ReduceOp::Prod ? Prim::Mul
                 : op == ReduceOp::Max  ? Prim::Max
                 : op == ReduceOp::Min  ? Prim::Min
                 : op == ReduceOp::Any  ? Prim::Or
                                        : Prim::And;
  RefTensor out = RefTensor::zeros(node.types[0].dtype, shape);

  // Where an element of x goes in the result, and its number among those folded into one.
  Dims out_strides(x.shape.size(), 0), place_strides(x.shape.size(), 0);
  std::int64_t kept = 1, folded = 1;
  for (std::size_t axis = x.shape.size(); axis-- > 0;) {
    bool reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
    (reduced ? place_strides : out_strides)[axis] = reduced ? folded : kept;
    (reduced ? folded : kept) *= x.shape[axis];
  }
  SNUG_CHECK(kept == out.size(), "{}: {} results for shape {}", node.op->name, kept,
             describe_shape(shape));

  std::vector<Number> state(static_cast<std::size_t>(out.size()), identity(op, acc));
  std::vector<std::int64_t> place(arg ? state.size() : 0, -1);
  Instr to_acc{Prim::Cast, acc}, step{combine, acc}, to_out{Prim::Cast, out.dtype};
  Walk walk(x.shape, {out_strides, place_strides});
  for (std::int64_t flat = 0, n = x.size(); flat < n; ++flat, walk.next()) {
    std::size_t k = static_cast<std::size_t>(walk.offset(0));
    Number value = x.at(flat);
    if (x.dtype != acc) value = evaluate(to_acc, x.dtype, value, {}, {});
    if (!arg) {
      state[k] = evaluate(step, acc, state[k], value, {});
    } else if (place[k] < 0 || better(op, acc, value, state[k])) {
      state[k] = value;
      place[k] = walk.offset(1);
    }
  }
  for (std::int64_t k = 0; k < out.size(); ++k) {
    if (arg)
      out.set(k, {0, std::max<std::int64_t>(place[k], 0)});
    else
      out.set(k, acc == out.dtype ? state[k] : evaluate(to_out, acc, state[k], {}, {}));
  }
  return out;
}

std::vector<RefTensor> run_row(const Node& node, std::span<const RefTensor* const> inputs,
                               std::span<const Dims> shapes) {
  SNUG_CHECK(node.op->reference != nullptr, "{} has neither a scalar body nor a reference",
             node.op->name);
  std::vector<RefTensor> out;
  for (std::size_t k = 0; k < node.types.size(); ++k)
    out.push_back(RefTensor::zeros(node.types[k].dtype, shapes[k]));
  ReferenceArgs args{node.attrs, inputs, out, {}};
  if (node.inner)
    args.inner = [&](const std::vector<RefTensor>& x) { return interpret(*node.inner, x); };
  node.op->reference(args);
  for (std::size_t k = 0; k < out.size(); ++k) {
    std::size_t held = out[k].floating() ? out[k].f.size() : out[k].i.size();
    SNUG_CHECK(held == static_cast<std::size_t>(out[k].size()), "{}: {} values for shape {}",
               node.op->name, held, describe_shape(out[k].shape));
  }
  return out;
}

/// The sizes of a running graph. Symbols of computed values stand at their bound until the value
/// is there; requirements are checked as soon as nothing in them is pending.
class Sizes {
 public:
  Sizes(const Graph& graph, const Pointers& inputs) : graph_(graph), inputs_(inputs) {
    for (const Graph::RuntimeSource& s : graph.runtime_sources()) runtime_[s.symbol] = {};
    evaluate_all();
    check_requirements();
  }

  Dims dims(const SizeDims& ids) const { return eval_dims(ids, values_); }

  /// Takes the sizes that the outputs of `node` decide.
  void computed(std::uint32_t node, std::span<const RefTensor> outputs) {
    bool changed = false;
    for (const Graph::RuntimeSource& s : graph_.runtime_sources()) {
      if (s.value.node != node) continue;
      const RefTensor& y = outputs[s.value.output];
      std::int64_t value = s.extent ? y.shape[0] : y.i[s.element];
      const Symbol& symbol = graph_.sizes().symbol_of(s.symbol);
      if (value < 0 && !s.extent && symbol.low < values_.size() && values_[symbol.low] > value)
        value = values_[symbol.low];
      runtime_[s.symbol] = value;
      changed = true;
    }
    if (!changed) return;
    evaluate_all();
    check_requirements();
  }

 private:
  void evaluate_all() {
    const SizeTable& sizes = graph_.sizes();
    values_.resize(sizes.nodes().size());
    evaluate_sizes(
        sizes, values_,
        [&](const Symbol& s, SizeId id, std::span<const std::int64_t> done) -> std::int64_t {
          switch (s.kind) {
            case Symbol::Kind::Dim: return inputs_[s.input]->shape[s.index];
            case Symbol::Kind::Element: return element(*inputs_[s.input], s.index);
            case Symbol::Kind::Runtime:
              if (auto it = runtime_.find(id); it != runtime_.end() && it->second)
                return *it->second;
              return s.high < id ? done[s.high] : 0;
            case Symbol::Kind::Unknown: break;
          }
          return 0;
        });
    pending_.assign(values_.size(), false);
    for (SizeId id = 0; id < values_.size(); ++id) {
      const SizeNode& n = sizes.node(id);
      if (n.op == SizeOp::Symbol) {
        auto it = runtime_.find(id);
        pending_[id] = it != runtime_.end() && !it->second;
      } else if (n.op != SizeOp::Const) {
        pending_[id] = pending_[n.a] || pending_[n.b] || (n.op == SizeOp::Select && pending_[n.c]);
      }
    }
  }

  static std::int64_t element(const RefTensor& x, std::uint32_t index) {
    SNUG_CHECK(!x.floating(), "a size from a float");
    // A vector shorter than its symbols is refused by the requirement on its length.
    return index < x.i.size() ? x.i[index] : 0;
  }

  void check_requirements() {
    std::span<const Infer::Requirement> all = graph_.requirements();
    checked_.resize(all.size(), false);
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (checked_[k] || pending_[all[k].a] || pending_[all[k].b]) continue;
      check(all[k], values_);
      checked_[k] = true;
    }
  }

  const Graph& graph_;
  const Pointers& inputs_;
  std::unordered_map<SizeId, std::optional<std::int64_t>> runtime_;
  std::vector<std::int64_t> values_;
  std::vector<bool> pending_, checked_;
};

void check_input(const Graph& graph, std::size_t k, const RefTensor& x) {
  const GraphInput& in = graph.inputs()[k];
  const Type& type = graph.type(in.value);
  std::string name = in.name.empty() ? fmt::format("argument {}", k) : in.name;
  if (x.dtype != type.dtype)
    fail(Fault::Type,
         fmt::format("{}: expected {}, got {}", name, name_of(type.dtype), name_of(x.dtype)));
  if (x.shape.size() != type.dims.size())
    fail(Fault::Type, fmt::format("{}: expected {} dimensions, got shape {}", name,
                                  type.dims.size(), describe_shape(x.shape)));
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis)
    if (auto known = graph.sizes().known(type.dims[axis]); known && *known != x.shape[axis])
      fail(Fault::Shape, fmt::format("{}: axis {} has size {}, got shape {}", name, axis, *known,
                                     describe_shape(x.shape)));
}

std::vector<RefTensor> run_graph(const Graph& graph, const Pointers& inputs,
                                 const InterpretOptions& options) {
  if (inputs.size() != graph.inputs().size())
    fail(Fault::Missing, fmt::format("interpret: {} inputs given, the graph has {}", inputs.size(),
                                     graph.inputs().size()));
  for (std::size_t k = 0; k < inputs.size(); ++k) check_input(graph, k, *inputs[k]);
  Sizes sizes(graph, inputs);

  std::size_t count = graph.nodes().size();
  std::vector<std::uint32_t> last_use(count, 0);
  for (std::uint32_t id = 0; id < count; ++id)
    for (Value v : graph.node(id).inputs) last_use[v.node] = id;
  for (Value v : graph.outputs()) last_use[v.node] = UINT32_MAX;
  for (const Update& u : graph.updates()) last_use[u.value.node] = UINT32_MAX;

  std::vector<std::vector<RefTensor>> values(count);
  std::vector<const RefTensor*> input_of(count, nullptr);
  for (std::size_t k = 0; k < inputs.size(); ++k)
    input_of[graph.inputs()[k].value.node] = inputs[k];
  auto at = [&](Value v) {
    return input_of[v.node] ? input_of[v.node] : &values[v.node][v.output];
  };

  for (std::uint32_t id = 0; id < count; ++id) {
    if (input_of[id]) {
      sizes.computed(id, {input_of[id], 1});
      continue;
    }
    const Node& node = graph.node(id);
    Pointers x;
    for (Value v : node.inputs) x.push_back(at(v));
    std::vector<Dims> shapes;
    for (const Type& type : node.types) shapes.push_back(sizes.dims(type.dims));
    values[id] = interpret_node(node, x, shapes);
    sizes.computed(id, values[id]);
    if (options.on_node) options.on_node(id, values[id]);
    for (Value v : node.inputs)
      if (last_use[v.node] == id) values[v.node] = {};
    if (last_use[id] == 0) values[id] = {};
  }

  std::vector<RefTensor> results;
  for (Value v : graph.outputs()) results.push_back(*at(v));
  for (const Update& u : graph.updates()) results.push_back(*at(u.value));
  return results;
}

}  // namespace

std::vector<RefTensor> interpret_node(const Node& node, std::span<const RefTensor* const> inputs,
                                      std::span<const Dims> shapes) {
  const OpDef& op = *node.op;
  OriginOverride origin(node.origin);
  if (has(op, kLeaf) && node.attrs.has("value"))
    return {RefTensor::from(*node.attrs.array("value"))};
  std::vector<RefTensor> out;
  if (has(op, kElementwise | kGenerator) && op.scalar)
    out.push_back(run_scalar(node, inputs, shapes[0]));
  else if (has(op, kReduction))
    out.push_back(run_reduction(node, *inputs[0], shapes[0]));
  else
    out = run_row(node, inputs, shapes);
  return out;
}

std::vector<RefTensor> interpret(const Graph& graph, const std::vector<RefTensor>& inputs,
                                 const InterpretOptions& options) {
  Pointers pointers;
  for (const RefTensor& x : inputs) pointers.push_back(&x);
  return run_graph(graph, pointers, options);
}

}  // namespace snug
