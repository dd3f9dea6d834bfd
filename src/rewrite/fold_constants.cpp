#include "reference/interpret_graph.h"
#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

/// The value behind the views of a constant.
RefTensor constant_value(const Builder& b, Value v) {
  std::vector<Value> views;
  while (!constant_of(b, v)) {
    views.push_back(v);
    v = operand(b, v, 0);
  }
  RefTensor value = RefTensor::from(*constant_of(b, v));
  for (std::size_t k = views.size(); k-- > 0;) {
    const Node& node = b.node(views[k]);
    RefTensor next = value;
    next.shape.clear();
    if (node.op->name == "dimshuffle" && value.size() == 1) {
      next.shape = Dims(node.attrs.ints("pattern").size(), 1);
    } else if (node.op->name == "rebroadcast") {
      next.shape = value.shape;
    } else {
      Dims shape;
      for (std::int64_t axis : node.attrs.ints("pattern"))
        shape.push_back(axis < 0 ? 1 : value.shape[static_cast<std::size_t>(axis)]);
      const RefTensor* input = &value;
      next = std::move(interpret_node(node, {&input, 1}, {&shape, 1})[0]);
    }
    value = std::move(next);
  }
  return value;
}

std::optional<Value> fold(Builder& b, Value root) {
  const Node& node = b.node(root);
  constexpr std::uint32_t kNever = kRandom | kMayFail | kGenerator | kBarrier | kInner | kLeaf;
  if (has(*node.op, kNever) || node.inputs.empty()) return std::nullopt;
  for (Value v : node.inputs)
    if (!constant_like(b, v)) return std::nullopt;
  std::int64_t bytes = size_of(node.types[0].dtype), read = 0;
  Dims shape;
  for (SizeId d : node.types[0].dims) {
    std::optional<std::int64_t> known = b.sizes().known(d);
    if (!known || *known < 0) return std::nullopt;
    shape.push_back(*known);
    if (__builtin_mul_overflow(bytes, *known, &bytes)) return std::nullopt;
  }
  if (bytes > kMaxFoldBytes) return std::nullopt;
  std::string_view op = node.op->name;
  bool view = op == "dimshuffle" || op == "rebroadcast";
  if (view && scalar_of(b, root)) return std::nullopt;  // a stretched number stays one
  std::vector<RefTensor> inputs;
  std::vector<const RefTensor*> pointers;
  for (Value v : node.inputs) inputs.push_back(constant_value(b, v));
  for (const RefTensor& x : inputs) {
    pointers.push_back(&x);
    read += x.size() * size_of(x.dtype);
  }
  if (op == "broadcast_to" && bytes > read) return std::nullopt;
  std::vector<RefTensor> out = interpret_node(node, pointers, {&shape, 1});
  if (!(out[0].shape == shape)) return std::nullopt;
  Array value = out[0].to_array();
  if (value.size() == 1 && !shape.empty()) {
    auto scalar = std::make_shared<Array>(Array::empty(value.dtype, {}));
    std::memcpy(scalar->data, value.data, static_cast<std::size_t>(size_of(value.dtype)));
    // A vector of one element may be a size: its elements must stay known.
    if (b.elements(root).empty())
      return dimshuffle(b, b.constant(scalar), Attrs::Ints(shape.size(), -1));
  }
  return b.constant(std::make_shared<Array>(std::move(value)));
}

constexpr CodeRule kCode[] = {
    {"f(constants) -> constant", "any", fold, "computed once, by the reference"},
};

}  // namespace

const RuleTable& fold_constants_rules() {
  static const RuleTable table({}, kCode);
  return table;
}

std::optional<Graph> fold_constants(const Graph& graph, RuleCounts& counts) {
  return apply_rules(graph, fold_constants_rules(), counts);
}

}  // namespace snug
