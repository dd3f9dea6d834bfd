#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

struct Shifted {
  Value z;           // x - max(x), in at least float32
  Attrs::Ints axes;  // the last one
  int ndim;
  DType dtype;
};

Shifted shift(Builder& b, Value root) {
  Value x = operand(b, root, 0);
  DType dtype = b.type(root).dtype;
  // Halves have too few digits for the sum of a row.
  x = cast(b, x, size_of(dtype) == 2 ? DType::F32 : dtype);
  int ndim = b.type(x).ndim();
  Attrs::Ints axes{ndim - 1};
  Value top = reduce(b, "max", ReduceOp::Max, x, axes, b.type(x).dtype);
  return {call(b, "sub", {x, keep_axes(b, top, axes, ndim)}), axes, ndim, dtype};
}

std::optional<Value> expand_softmax(Builder& b, Value root) {
  Shifted s = shift(b, root);
  Value e = call(b, "exp", {s.z});
  Value total = reduce(b, "sum", ReduceOp::Sum, e, s.axes, b.type(e).dtype);
  return cast(b, call(b, "div", {e, keep_axes(b, total, s.axes, s.ndim)}), s.dtype);
}

std::optional<Value> expand_log_softmax(Builder& b, Value root) {
  Shifted s = shift(b, root);
  Value e = call(b, "exp", {s.z});
  Value total = reduce(b, "sum", ReduceOp::Sum, e, s.axes, b.type(e).dtype);
  Value log_total = keep_axes(b, call(b, "log", {total}), s.axes, s.ndim);
  return cast(b, call(b, "sub", {s.z, log_total}), s.dtype);
}

/// In at least float32: halves have too few digits for a difference.
std::optional<Value> expand_standardize(Builder& b, Value root) {
  const DType dtype = b.type(root).dtype, wide = size_of(dtype) == 2 ? DType::F32 : dtype;
  Value difference =
      call(b, "sub", {cast(b, operand(b, root, 0), wide), cast(b, operand(b, root, 1), wide)});
  return cast(b, call(b, "mul", {difference, cast(b, operand(b, root, 2), wide)}), dtype);
}

constexpr CodeRule kCode[] = {
    {"softmax(x) -> exp(x - max(x)) / sum(exp(x - max(x)))", "softmax", expand_softmax, ""},
    {"log_softmax(x) -> x - max(x) - log(sum(exp(x - max(x))))", "log_softmax", expand_log_softmax,
     ""},
    {"standardize(x, m, s) -> (x - m) * s", "standardize", expand_standardize, ""},
};

}  // namespace

const RuleTable& expand_rules() {
  static const RuleTable table({}, kCode);
  return table;
}

std::optional<Graph> expand(const Graph& graph, RuleCounts& counts) {
  return apply_rules(graph, expand_rules(), counts);
}

}  // namespace snug
