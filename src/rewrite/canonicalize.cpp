#include <algorithm>

#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

constexpr Rule kRules[] = {
    {"broadcast_to(broadcast_to(x, s), t) -> broadcast_to(x, t)"},
    {"reshape(reshape(x, s), t) -> reshape(x, t)"},
    {"rebroadcast(rebroadcast(x)) -> rebroadcast(x)"},
    {"real(pair(x, y)) -> x"},
    {"imag(pair(x, y)) -> y"},
    {"pair(real(x), imag(x)) -> x"},
    {"pair(x, y) + pair(u, v) -> pair(x + u, y + v)"},
};

bool numeric_constant(const Builder& b, Value v) { return scalar_of(b, v) || constant_like(b, v); }

/// Constants stand last, other operands by age; so a + b and b + a are one node. Not for minimum
/// and maximum, where the order decides the sign of a 0.
std::optional<Value> order_operands(Builder& b, Value root) {
  const Node node = b.node(root);
  Value x = node.inputs[0], y = node.inputs[1];
  bool cx = numeric_constant(b, x), cy = numeric_constant(b, y);
  if (cx == cy ? !(y < x) : !cx) return std::nullopt;
  return b.add(*node.op, {y, x}, node.attrs);
}

std::optional<Value> join_dimshuffles(Builder& b, Value root) {
  Value x = operand(b, root, 0);
  Attrs::Ints pattern = b.node(root).attrs.ints("pattern");
  if (is(b, x, "dimshuffle")) {
    const Attrs::Ints& inner = b.node(x).attrs.ints("pattern");
    for (std::int64_t& axis : pattern)
      if (axis >= 0) axis = inner[static_cast<std::size_t>(axis)];
    x = operand(b, x, 0);
  }
  return dimshuffle(b, x, pattern);
}

/// cast, rebroadcast, broadcast_to, reshape: one rule serves all, as types say all about them.
std::optional<Value> drop_identity(Builder& b, Value root) {
  const Node& node = b.node(root);
  const Type &in = b.type(node.inputs[0]), &out = node.types[0];
  if (in.dtype != out.dtype || !(in.dims == out.dims)) return std::nullopt;
  if (node.op->name == "rebroadcast" && in.broadcast != out.broadcast) return std::nullopt;
  return node.inputs[0];
}

/// Whether a slice with bounds from input `next` on takes whole axes in their order, given that it
/// changes no size.
bool takes_all(Builder& b, const Node& node, std::size_t next) {
  const Attrs::Ints& spec = node.attrs.ints("spec");
  for (std::size_t k = 0; k + 3 < spec.size(); k += 4) {
    if (spec[k] != 0) return false;
    const std::optional<std::int64_t> wanted[3] = {0, std::nullopt, 1};  // start, any stop, step
    for (std::size_t part = 0; part < 3; ++part) {
      if (spec[k + 1 + part] == 0) continue;
      auto elements = b.elements(node.inputs[next++]);
      if (wanted[part] && (elements.size() != 1 || !b.sizes().is(elements[0], *wanted[part])))
        return false;
    }
  }
  return true;
}

std::optional<Value> drop_slice(Builder& b, Value root) {
  const Node& node = b.node(root);
  if (!(b.type(node.inputs[0]).dims == node.types[0].dims) || !takes_all(b, node, 1))
    return std::nullopt;
  return node.inputs[0];
}

std::optional<Value> drop_overwritten(Builder& b, Value root) {
  const Node& node = b.node(root);
  if (!(b.type(node.inputs[1]).dims == node.types[0].dims) || !takes_all(b, node, 2))
    return std::nullopt;
  return node.inputs[1];
}

/// A reshape that only adds or drops axes of size 1 is a view of any layout.
std::optional<Value> reshape_to_dimshuffle(Builder& b, Value root) {
  Value x = operand(b, root, 0);
  const Type in = b.type(x), out = b.type(root);
  Attrs::Ints pattern;
  std::uint8_t broadcast = in.broadcast;
  std::size_t axis = 0;
  auto skip_ones = [&] {
    for (; axis < in.dims.size() && b.sizes().is(in.dims[axis], 1); ++axis)
      broadcast |= static_cast<std::uint8_t>(1u << axis);
  };
  for (SizeId d : out.dims) {
    if (b.sizes().is(d, 1)) {
      pattern.push_back(-1);
      continue;
    }
    skip_ones();
    if (axis == in.dims.size() || in.dims[axis] != d) return std::nullopt;
    pattern.push_back(static_cast<std::int64_t>(axis++));
  }
  skip_ones();
  if (axis != in.dims.size()) return std::nullopt;
  if (broadcast != in.broadcast)
    x = call(b, "rebroadcast", {x}, Attrs{{"broadcast", static_cast<std::int64_t>(broadcast)}});
  return dimshuffle(b, x, pattern);
}

/// What a broadcast_to stretches, with as many axes as its result.
Value unstretched(Builder& b, Value stretched) {
  Value x = operand(b, stretched, 0);
  int ndim = b.type(x).ndim(), lead = b.type(stretched).ndim() - ndim;
  Attrs::Ints pattern(static_cast<std::size_t>(lead), -1);
  for (int axis = 0; axis < ndim; ++axis) pattern.push_back(axis);
  return dimshuffle(b, x, pattern);
}

/// broadcast_to(x), or a dimshuffle of it.
bool stretches(const Builder& b, Value v) {
  return is(b, v, "broadcast_to") ||
         (is(b, v, "dimshuffle") && is(b, operand(b, v, 0), "broadcast_to"));
}

/// An operand need not be stretched beforehand if another one has the shape of the result.
std::optional<Value> drop_stretch(Builder& b, Value root) {
  const Node node = b.node(root);
  const Type& type = node.types[0];
  bool covered = false, stretched = false;
  for (Value v : node.inputs) {
    if (stretches(b, v))
      stretched = true;
    else
      covered |= b.type(v).dims == type.dims && b.type(v).broadcast == type.broadcast;
  }
  if (!stretched || !covered) return std::nullopt;
  std::vector<Value> inputs = node.inputs;
  for (Value& v : inputs) {
    if (!stretches(b, v)) continue;
    if (is(b, v, "broadcast_to")) {
      v = unstretched(b, v);
    } else {
      const Attrs::Ints pattern = b.node(v).attrs.ints("pattern");
      v = dimshuffle(b, unstretched(b, operand(b, v, 0)), pattern);
    }
  }
  return b.add(*node.op, std::move(inputs), node.attrs);
}

/// Computes before stretching, on fewer elements.
std::optional<Value> stretch_later(Builder& b, Value root) {
  const Node node = b.node(root);
  std::optional<Value> shape;
  std::vector<Value> inputs;
  for (Value v : node.inputs) {
    if (is(b, v, "broadcast_to") && b.type(v).dims == node.types[0].dims) {
      if (!shape) shape = operand(b, v, 1);
      inputs.push_back(unstretched(b, v));
    } else {
      for (std::size_t axis = 0; axis < b.type(v).dims.size(); ++axis)
        if (!b.type(v).broadcastable(axis)) return std::nullopt;
      inputs.push_back(v);
    }
  }
  if (!shape) return std::nullopt;
  for (Value v : inputs)
    if (b.type(v).dims == node.types[0].dims) return std::nullopt;
  return call(b, "broadcast_to", {b.add(*node.op, std::move(inputs), node.attrs), *shape});
}

std::optional<Value> single_part(Builder& b, Value root) {
  const Node& node = b.node(root);
  return node.inputs.size() == 1 ? std::optional(node.inputs[0]) : std::nullopt;
}

constexpr CodeRule kCode[] = {
    {"dimshuffle(dimshuffle(x)) -> dimshuffle(x)", "dimshuffle", join_dimshuffles,
     "the identity is dropped too"},
    {"cast(x) -> x, the same type", "cast rebroadcast broadcast_to reshape", drop_identity, ""},
    {"x[:] -> x", "slice", drop_slice, ""},
    {"slice_set(x, y, [:]) -> y", "slice_set", drop_overwritten, "capture keeps the sizes of x"},
    {"reshape(x) -> dimshuffle(x), only axes of size 1 change", "reshape", reshape_to_dimshuffle,
     "a view of any layout"},
    {"concatenate(x) -> x", "concatenate", single_part, ""},
    {"f(broadcast_to(x), y) -> f(x, y)", "elementwise", drop_stretch,
     "y has the shape of the result"},
    {"f(broadcast_to(x), c) -> broadcast_to(f(x, c))", "elementwise", stretch_later,
     "fewer elements to compute"},
    {"f(c, x) -> f(x, c)", "add mul bit_and bit_or bit_xor eq ne", order_operands,
     "one form for equal values"},
};

}  // namespace

const RuleTable& canonicalize_rules() {
  static const RuleTable table(kRules, kCode);
  return table;
}

std::optional<Graph> canonicalize(const Graph& graph, RuleCounts& counts) {
  return apply_rules(graph, canonicalize_rules(), counts);
}

}  // namespace snug
