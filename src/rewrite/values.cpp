#include "rewrite/values.h"

#include <algorithm>
#include <cmath>

namespace snug {

const Array* constant_of(const Builder& b, Value v) {
  const Node& node = b.node(v);
  return has(*node.op, kLeaf) && node.attrs.has("value") ? node.attrs.array("value").get()
                                                         : nullptr;
}

const Array* scalar_of(const Builder& b, Value v) {
  for (;;) {
    if (const Array* value = constant_of(b, v)) return value->size() == 1 ? value : nullptr;
    const Node& node = b.node(v);
    if (!has(*node.op, kView)) return nullptr;
    std::string_view name = node.op->name;
    if (name != "dimshuffle" && name != "broadcast_to" && name != "rebroadcast") return nullptr;
    v = node.inputs[0];
  }
}

bool constant_like(const Builder& b, Value v) {
  while (is(b, v, "dimshuffle") || is(b, v, "rebroadcast")) v = operand(b, v, 0);
  return constant_of(b, v) != nullptr;
}

bool is_number(const Builder& b, Value v, double number) {
  const Array* value = scalar_of(b, v);
  if (!value) return false;
  if (is_float(value->dtype)) {
    double x = value->at_double(0);
    return x == number && std::signbit(x) == std::signbit(number);
  }
  if (std::signbit(number) && number == 0) return false;
  std::int64_t x = value->at_int(0);
  return std::fabs(number) < 1e15 && static_cast<double>(x) == number;
}

Value call(Builder& b, std::string_view op, std::vector<Value> inputs, Attrs attrs) {
  return b.add(find_op(op), std::move(inputs), std::move(attrs));
}

Value number(Builder& b, double value, DType dtype, int ndim) {
  Value c = b.constant(value, Type{dtype});
  return ndim == 0 ? c : dimshuffle(b, c, Attrs::Ints(static_cast<std::size_t>(ndim), -1));
}

Value dimshuffle(Builder& b, Value x, const Attrs::Ints& pattern) {
  bool same = static_cast<int>(pattern.size()) == b.type(x).ndim();
  for (std::size_t i = 0; i < pattern.size() && same; ++i)
    same = pattern[i] == static_cast<std::int64_t>(i);
  return same ? x : call(b, "dimshuffle", {x}, Attrs{{"pattern", pattern}});
}

Value cast(Builder& b, Value x, DType dtype) {
  return b.type(x).dtype == dtype ? x : call(b, "cast", {x}, Attrs{{"dtype", dtype}});
}

Value reduce(Builder& b, std::string_view op, ReduceOp kind, Value x, const Attrs::Ints& axes,
             DType acc) {
  return call(b, op, {x},
              Attrs{{"axes", axes},
                    {"reduce", static_cast<std::int64_t>(kind)},
                    {"dtype", b.type(x).dtype},
                    {"acc", acc}});
}

Value keep_axes(Builder& b, Value reduced, const Attrs::Ints& axes, int ndim) {
  Attrs::Ints pattern;
  std::int64_t next = 0;
  for (std::int64_t axis = 0; axis < ndim; ++axis)
    pattern.push_back(std::find(axes.begin(), axes.end(), axis) != axes.end() ? -1 : next++);
  return dimshuffle(b, reduced, pattern);
}

}  // namespace snug
