#include "ops/special_functions.h"

#include <cmath>
#include <limits>

#include "ops/arguments.h"

namespace snug {
namespace {

Expr truth(const char* what, const Expr& x) {
  require_expr(what, x);
  return x.dtype() == DType::Bool ? x : ne(x, typed_number(0, x.dtype()));
}

double largest_of(DType t) {
  switch (t) {
    case DType::F16: return 65504;
    case DType::BF16: return 0x1.fep127;
    case DType::F32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

Expr fold(const char* what, const OpDef& op, const std::vector<Expr>& xs, Here where) {
  Scope scope(where, nullptr);
  if (xs.empty()) fail(Fault::Value, fmt::format("{}: no arguments given", what));
  Expr result = xs[0];
  for (std::size_t k = 1; k < xs.size(); ++k) result = elementwise(op, {result, xs[k]});
  return result;
}

}  // namespace

Expr gamma(const Arg& x) { return unary(ops::gamma, x); }
Expr gammaln(const Arg& x) { return unary(ops::gammaln, x); }
Expr digamma(const Arg& x) { return unary(ops::digamma, x); }
Expr trigamma(const Arg& x) { return unary(ops::trigamma, x); }
Expr polygamma(const Arg& n, const Arg& x) { return binary(ops::polygamma, n, x); }
Expr erfinv(const Arg& x) { return unary(ops::erfinv, x); }
Expr erfcinv(const Arg& x) { return unary(ops::erfcinv, x); }
Expr erfcx(const Arg& x) { return unary(ops::erfcx, x); }
Expr gammainc(const Arg& k, const Arg& x) { return binary(ops::gammainc, k, x); }
Expr gammaincc(const Arg& k, const Arg& x) { return binary(ops::gammaincc, k, x); }
Expr j0(const Arg& x) { return unary(ops::j0, x); }
Expr j1(const Arg& x) { return unary(ops::j1, x); }
Expr jv(const Arg& order, const Arg& x) { return binary(ops::jv, order, x); }
Expr i0(const Arg& x) { return unary(ops::i0, x); }
Expr i1(const Arg& x) { return unary(ops::i1, x); }
Expr iv(const Arg& order, const Arg& x) { return binary(ops::iv, order, x); }
Expr xlogx(const Arg& x) { return unary(ops::xlogx, x); }
Expr xlogy0(const Arg& x, const Arg& y) { return binary(ops::xlogy0, x, y); }

Expr betaln(const Arg& a, const Arg& b) { return binary(ops::betaln, a, b); }

Expr beta(const Arg& a, const Arg& b) {
  Scope scope(a);
  return exp(betaln(a, b));
}

Expr gammal(const Arg& k, const Arg& x) {
  Scope scope(k);
  return gammainc(k, x) * gamma(k);
}

Expr gammau(const Arg& k, const Arg& x) {
  Scope scope(k);
  return gammaincc(k, x) * gamma(k);
}

Expr chi2sf(const Arg& x, const Arg& k) {
  Scope scope(x);
  Expr half_x = in_float("chi2sf", x), half_k = in_float("chi2sf", k);
  half_x = half_x * typed_number(0.5, half_x.dtype());
  return gammaincc(half_k * typed_number(0.5, half_k.dtype()), half_x);
}

Expr deg2rad(const Arg& given) {
  Scope scope(given);
  Expr x = in_float("deg2rad", given);
  return x * typed_number(M_PI / 180, x.dtype());
}

Expr rad2deg(const Arg& given) {
  Scope scope(given);
  Expr x = in_float("rad2deg", given);
  return x * typed_number(180 / M_PI, x.dtype());
}

Expr round_half_away_from_zero(const Arg& x) {
  Scope scope(x);
  require_expr("round_half_away_from_zero", x.expr);
  DType t = x.expr.dtype();
  if (!is_float(t)) return x.expr;
  // Adding a half would round for itself.
  Expr whole = trunc(x);
  Expr away = ge(abs(x.expr - whole), typed_number(0.5, t));
  return whole + sign(x) * cast(away, t);
}

Expr ceil_intdiv(const Arg& a, const Arg& b) {
  Scope scope(a);
  Expr quotient = floor_div(a, b), rest = mod(a, b);
  return quotient + cast(ne(rest, typed_number(0, rest.dtype())), quotient.dtype());
}

Expr second(const Arg& like, const Arg& value) {
  Scope scope(like);
  require_expr("second", like.expr);
  require_expr("second", value.expr);
  const Expr &a = like.expr, &b = value.expr;
  int ndim = std::max(a.ndim(), b.ndim());
  std::vector<Expr> sizes;
  for (int axis = 0; axis < ndim; ++axis) {
    int in_a = axis - (ndim - a.ndim()), in_b = axis - (ndim - b.ndim());
    bool by_a = in_a >= 0 && (!a.type().broadcastable(static_cast<std::size_t>(in_a)) || in_b < 0);
    sizes.push_back(by_a ? shape_i(a, in_a) : shape_i(b, in_b));
  }
  return sizes.empty() ? b : broadcast_to(b, sizes);
}

Expr largest(const std::vector<Expr>& xs, Here where) {
  return fold("largest", ops::maximum, xs, where);
}
Expr smallest(const std::vector<Expr>& xs, Here where) {
  return fold("smallest", ops::minimum, xs, where);
}

Expr isclose(const Arg& given_a, const Arg& given_b, double rtol, double atol, bool equal_nan) {
  Scope scope(given_a);
  require_expr("isclose", given_a.expr);
  require_expr("isclose", given_b.expr);
  // Integers in float64: a difference of unsigned ones would wrap.
  DType t = upcast(given_a.expr.dtype(), given_b.expr.dtype());
  if (!is_float(t)) t = DType::F64;
  Expr a = cast(given_a, t), b = cast(given_b, t);
  Expr limit = typed_number(atol, t) + typed_number(rtol, t) * abs(b);
  Expr within = bit_and(le(abs(a - b), limit), invert(isinf(b)));
  Expr near = bit_or(eq(a, b), within);
  return equal_nan ? bit_or(near, bit_and(isnan(a), isnan(b))) : near;
}

Expr allclose(const Arg& a, const Arg& b, double rtol, double atol, bool equal_nan) {
  Scope scope(a);
  return all(isclose(a, b, rtol, atol, equal_nan));
}

Expr nan_to_num(const Arg& x, double nan, std::optional<double> posinf,
                std::optional<double> neginf) {
  Scope scope(x);
  require_expr("nan_to_num", x.expr);
  DType t = x.expr.dtype();
  if (!is_float(t)) return x.expr;
  Expr zero = typed_number(0, t);
  Expr high = typed_number(posinf.value_or(largest_of(t)), t);
  Expr low = typed_number(neginf.value_or(-largest_of(t)), t);
  Expr finite = switch_(isinf(x), switch_(gt(x, zero), high, low), x);
  return switch_(isnan(x), typed_number(nan, t), finite);
}

Expr logical_and(const Arg& a, const Arg& b) {
  Scope scope(a);
  return bit_and(truth("logical_and", a.expr), truth("logical_and", b.expr));
}
Expr logical_or(const Arg& a, const Arg& b) {
  Scope scope(a);
  return bit_or(truth("logical_or", a.expr), truth("logical_or", b.expr));
}
Expr logical_xor(const Arg& a, const Arg& b) {
  Scope scope(a);
  return bit_xor(truth("logical_xor", a.expr), truth("logical_xor", b.expr));
}
Expr logical_not(const Arg& x) {
  Scope scope(x);
  return invert(truth("logical_not", x.expr));
}

Expr ptp(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return max(x, axes, keepdims) - min(x, axes, keepdims);
}

Expr vector_norm(const Arg& given, double order, const Axes& axes, bool keepdims) {
  Scope scope(given);
  Expr x = in_float("norm", given);
  if (order == 2) return sqrt(sum(sqr(x), axes, keepdims));
  Expr size = abs(x);
  if (order == 1) return sum(size, axes, keepdims);
  if (std::isinf(order)) return order > 0 ? max(size, axes, keepdims) : min(size, axes, keepdims);
  if (order == 0) return sum(cast(ne(x, typed_number(0, x.dtype())), x.dtype()), axes, keepdims);
  Expr total = sum(pow(size, typed_number(order, x.dtype())), axes, keepdims);
  return pow(total, typed_number(1 / order, x.dtype()));
}

Expr cov(const Arg& given, std::int64_t ddof) {
  Scope scope(given);
  Expr x = in_float("cov", given);
  if (x.ndim() > 2)
    fail(Fault::Value,
         fmt::format("cov: expected a matrix of variables, got {} dimensions", x.ndim()));
  if (x.ndim() < 2) return var(x, Axes(), false, ddof);
  Expr centred = x - mean(x, 1, true);
  Expr count = cast(shape_i(x, 1) - int64_constant(ddof), x.dtype());
  return dot(centred, transpose(centred)) / count;
}

}  // namespace snug
