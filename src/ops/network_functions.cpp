#include "ops/arguments.h"

namespace snug {
namespace {

/// A row that works on the last axis, on any.
Expr over_axis(const OpDef& op, const Arg& given, std::int64_t axis) {
  Scope scope(given, nullptr);
  require_expr(op.name.data(), given.expr);
  Expr x = in_float(op.name.data(), given);
  axis = normal_axis(op.name.data(), axis, x.ndim());
  if (axis == x.ndim() - 1) return apply(op, {x});
  return swapaxes(apply(op, {swapaxes(x, axis, -1)}), axis, -1);
}

/// The places (row, y[row]) of a matrix.
std::vector<IndexItem> true_classes(const char* what, const Expr& p, const Expr& y) {
  if (p.ndim() != 2)
    fail(Fault::Type, fmt::format("{}: with class numbers the first argument is a matrix, not {}",
                                  what, snug::describe(p.type())));
  if (y.ndim() != 1 || !is_int(y.dtype()))
    fail(Fault::Type, fmt::format("{}: the class numbers are an integer vector, not {}", what,
                                  snug::describe(y.type())));
  return {arange(shape_i(p, 0)), checked_labels(what, y, shape_i(p, 1))};
}

Expr column(const Expr& vector) { return dimshuffle(vector, {0, -1}); }

}  // namespace

Expr checked_labels(const char* what, const Arg& y, const Expr& classes) {
  Scope scope(y);
  return apply(ops::check_index, {y.expr, classes}, {{"for", std::string(what)}, {"labels", true}});
}

Expr softmax(const Arg& x, std::int64_t axis) { return over_axis(ops::softmax, x, axis); }
Expr log_softmax(const Arg& x, std::int64_t axis) { return over_axis(ops::log_softmax, x, axis); }

Expr relu(const Arg& x) {
  Scope scope(x);
  require_expr("relu", x.expr);
  Expr zero = typed_number(0, x.expr.dtype());
  return switch_(le(x, zero), zero, x);
}

Expr leaky_relu(const Arg& given, const Arg& alpha) {
  Scope scope(given);
  Expr x = in_float("relu", given);
  return switch_(gt(x, typed_number(0, x.dtype())), x, alpha.expr * x);
}

Expr elu(const Arg& given, const Arg& alpha) {
  Scope scope(given);
  Expr x = in_float("elu", given);
  Expr zero = typed_number(0, x.dtype());
  // The branch that is not taken stays finite, or its gradient would be nan.
  return switch_(gt(x, zero), x, alpha.expr * expm1(minimum(x, zero)));
}

Expr selu(const Arg& given) {
  Scope scope(given);
  Expr x = in_float("selu", given);
  constexpr double kAlpha = 1.6732632423543772, kScale = 1.0507009873554805;
  return typed_number(kScale, x.dtype()) * elu(x, typed_number(kAlpha, x.dtype()));
}

Expr softsign(const Arg& given) {
  Scope scope(given);
  Expr x = in_float("softsign", given);
  return x / (typed_number(1, x.dtype()) + abs(x));
}

Expr hard_sigmoid(const Arg& given) {
  Scope scope(given);
  Expr x = in_float("hard_sigmoid", given);
  auto c = [&](double v) { return typed_number(v, x.dtype()); };
  return clip(x * c(0.2) + c(0.5), c(0), c(1));
}

Expr ultra_fast_sigmoid(const Arg& given) {
  Scope scope(given);
  Expr x = in_float("ultra_fast_sigmoid", given);
  auto c = [&](double v) { return typed_number(v, x.dtype()); };
  Expr u = minimum(abs(x) * c(0.5), c(3));
  Expr curve = c(1.5) * u / (c(1) + u);
  Expr line = c(0.935409070603099) + c(0.0458812946797165) * (u - c(1.7));
  return c(0.5) * (sign(x) * switch_(lt(u, c(1.7)), curve, line) + c(1));
}

Expr categorical_crossentropy(const Arg& p, const Arg& y) {
  Scope scope(p);
  require_expr("categorical_crossentropy", p.expr);
  require_expr("categorical_crossentropy", y.expr);
  int ndim = p.expr.ndim();
  if (ndim > 0 && y.expr.ndim() == ndim) return neg(sum(y.expr * log(p), -1));
  if (ndim == 0 || y.expr.ndim() != ndim - 1)
    fail(Fault::Type,
         fmt::format("categorical_crossentropy: distributions {} do not go with targets {}",
                     snug::describe(p.expr.type()), snug::describe(y.expr.type())),
         "give class numbers, one per row, or distributions of the same number of dimensions");
  return neg(log(subtensor(p, true_classes("categorical_crossentropy", p.expr, y.expr))));
}

Expr binary_crossentropy(const Arg& p, const Arg& y) {
  Scope scope(p);
  require_expr("binary_crossentropy", p.expr);
  require_expr("binary_crossentropy", y.expr);
  Expr one = typed_number(1, p.expr.dtype());
  return neg(y.expr * log(p) + (one - y.expr) * log(one - p.expr));
}

Expr sigmoid_binary_crossentropy(const Arg& given, const Arg& y) {
  Scope scope(given);
  Expr x = in_float("sigmoid_binary_crossentropy", given);
  require_expr("sigmoid_binary_crossentropy", y.expr);
  Expr one = typed_number(1, x.dtype());
  return y.expr * softplus(neg(x)) + (one - y.expr) * softplus(x);
}

SoftmaxLoss crossentropy_softmax_1hot(const Arg& given, const Arg& y) {
  Scope scope(given);
  Expr x = in_float("crossentropy_softmax_1hot", given);
  require_expr("crossentropy_softmax_1hot", y.expr);
  std::vector<IndexItem> places = true_classes("crossentropy_softmax_1hot", x, y.expr);
  return {neg(subtensor(log_softmax(x), places)), softmax(x)};
}

Expr softmax_grad(const Arg& dy, const Arg& p) {
  Scope scope(dy);
  Expr t = dy.expr * p.expr;
  return t - p.expr * sum(t, -1, true);
}

Expr crossentropy_softmax_1hot_dx(const Arg& dloss, const Arg& p, const Arg& y) {
  Scope scope(dloss);
  std::vector<IndexItem> places =
      true_classes("crossentropy_softmax_1hot_with_bias_dx", p.expr, y.expr);
  Expr one = typed_number(1, p.expr.dtype());
  return column(dloss.expr) * inc_subtensor(p, places, neg(one));
}

Expr crossentropy_categorical_1hot_grad(const Arg& dloss, const Arg& p, const Arg& y) {
  Scope scope(dloss);
  std::vector<IndexItem> places =
      true_classes("crossentropy_categorical_1hot_grad", p.expr, y.expr);
  Expr quotient = neg(dloss.expr / subtensor(p, places));
  return inc_subtensor(zeros_like(p), places, cast(quotient, p.expr.dtype()));
}

Expr h_softmax(const Arg& x, const HierarchicalWeights& w, const Arg& outputs) {
  Scope scope(x);
  Expr classes = softmax(dot(x, w.w1) + w.b1);
  Expr inside = softmax(tensordot(x, w.w2, {1}, {1}) + w.b2);
  Expr all = flatten(dimshuffle(classes, {0, 1, -1}) * inside, 2);
  return slice_axis(all, 1, {}, outputs.expr);
}

Expr h_softmax_of(const Arg& x, const HierarchicalWeights& w, const Arg& target) {
  Scope scope(x);
  require_expr("h_softmax", target.expr);
  if (!is_int(target.expr.dtype()))
    fail(Fault::Type,
         fmt::format("h_softmax: the targets are integers, not {}", name_of(target.expr.dtype())));
  Expr per_class = shape_i(w.w2, 2), rows = arange(shape_i(x, 0));
  Expr chosen = checked_labels("h_softmax", flatten(target), shape_i(w.w2, 0) * per_class);
  Expr in_class = floor_div(chosen, per_class), place = mod(chosen, per_class);
  Expr classes = softmax(dot(x, w.w1) + w.b1);
  Expr weights = subtensor(w.w2, {in_class});
  Expr product = batched_dot(dimshuffle(x, {0, -1, 1}), weights);
  Expr inside = softmax(flatten(product, 2) + subtensor(w.b2, {in_class}));
  return subtensor(classes, {rows, in_class}) * subtensor(inside, {rows, place});
}

Expr prepend_scalar_to_each_row(const Arg& value, const Arg& matrix) {
  Scope scope(value);
  require_expr("prepend_scalar_to_each_row", value.expr);
  require_expr("prepend_scalar_to_each_row", matrix.expr);
  if (value.expr.ndim() != 0 || matrix.expr.ndim() != 2)
    fail(Fault::Type,
         fmt::format("prepend_scalar_to_each_row: expected a number and a matrix, "
                     "got {} and {}",
                     snug::describe(value.expr.type()), snug::describe(matrix.expr.type())));
  DType t = matrix.expr.dtype();
  Expr front = broadcast_to(cast(value, t), {shape_i(matrix, 0), int64_constant(1)});
  return concatenate({front, matrix.expr}, 1);
}

}  // namespace snug
