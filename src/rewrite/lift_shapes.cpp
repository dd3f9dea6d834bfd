#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

std::optional<Value> known_elements(Builder& b, Value root) {
  const Type& type = b.type(root);
  auto elements = b.elements(root);
  if (elements.empty() || type.ndim() > 1 || is_float(type.dtype)) return std::nullopt;
  if (has(*b.node(root).op, kMayFail | kBarrier) || constant_like(b, root)) return std::nullopt;
  Dims shape;
  if (type.ndim() == 1) shape.push_back(static_cast<std::int64_t>(elements.size()));
  auto value = std::make_shared<Array>(Array::empty(type.dtype, shape));
  for (std::size_t k = 0; k < elements.size(); ++k) {
    auto known = b.sizes().known(elements[k]);
    if (!known) return std::nullopt;
    value->set_int(static_cast<std::int64_t>(k), *known);
  }
  return b.constant(value);
}

std::optional<Value> shape_of_computed(Builder& b, Value root) {
  Value x = operand(b, root, 0);
  if (has(*b.node(x).op, kLeaf)) return std::nullopt;
  return shape_vector(b, SizeDims(b.type(x).dims));
}

std::optional<Value> element_of_vector(Builder& b, Value root) {
  const Node node = b.node(root);
  Value from = node.inputs[0];
  if (is(b, from, "rebroadcast")) from = operand(b, from, 0);
  if (!is(b, from, "make_vector")) return std::nullopt;
  if (node.attrs.ints("spec") != Attrs::Ints{1, 1, 0, 0}) return std::nullopt;
  auto index = b.elements(node.inputs[1]);
  if (index.size() != 1 || !b.sizes().known(index[0])) return std::nullopt;
  const Node& vector = b.node(from);
  std::int64_t k = *b.sizes().known(index[0]), n = static_cast<std::int64_t>(vector.inputs.size());
  if (k < 0) k += n;
  if (k < 0 || k >= n) return std::nullopt;
  return cast(b, vector.inputs[static_cast<std::size_t>(k)], node.types[0].dtype);
}

constexpr CodeRule kCode[] = {
    {"f(sizes) -> constant", "any", known_elements, "all its elements are known"},
    {"shape(f(x)) -> sizes of inputs", "shape", shape_of_computed,
     "asking for a shape computes nothing else"},
    {"make_vector(a, b)[0] -> a", "slice", element_of_vector, ""},
};

}  // namespace

const RuleTable& lift_shapes_rules() {
  static const RuleTable table({}, kCode);
  return table;
}

std::optional<Graph> lift_shapes(const Graph& graph, RuleCounts& counts) {
  return apply_rules(graph, lift_shapes_rules(), counts);
}

}  // namespace snug
