#include "ops/functions.h"

#include <algorithm>

#include "base/spelling.h"
#include "ops/arguments.h"

namespace snug {
namespace {

std::vector<std::int64_t> normal_axes(const char* what, const Axes& axes, int ndim) {
  std::vector<std::int64_t> out;
  if (axes.all) {
    for (int i = 0; i < ndim; ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t a : axes.list) out.push_back(normal_axis(what, a, ndim));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    fail(Fault::Value, fmt::format("{}: an axis is given twice", what),
         "negative axes count from the end: -1 is the last one");
  return out;
}

// ---- reductions ----

DType accumulator(DType t) {
  t = real_of(t);
  if (t == DType::F16 || t == DType::BF16) return DType::F32;
  return t == DType::F32 ? DType::F64 : t;
}

Expr reduce(const OpDef& op, ReduceOp kind, const Expr& x, const Axes& given, bool keepdims,
            DType dtype, DType acc) {
  require_expr(op.name.data(), x);
  std::vector<std::int64_t> axes = normal_axes(op.name.data(), given, x.ndim());
  Expr out = apply(op, {x},
                   {{"axes", axes},
                    {"reduce", static_cast<std::int64_t>(kind)},
                    {"dtype", dtype},
                    {"acc", acc}});
  return keepdims ? ops::expand_axes(out, axes) : out;
}

Expr reduce_sum(const OpDef& op, ReduceOp kind, const Expr& x, const Axes& axes, bool keepdims,
                std::optional<DType> dtype, std::optional<DType> acc) {
  require_expr(op.name.data(), x);
  DType out = dtype.value_or(sum_dtype(x.dtype()));
  if (is_complex(x.dtype()) && !is_complex(out))
    fail(Fault::Type, fmt::format("{}: of {} is no {}", op.name, name_of(x.dtype()), name_of(out)),
         "take the real part, imaginary part or absolute value");
  return reduce(op, kind, is_complex(out) ? cast(x, complex_of(x.dtype())) : x, axes, keepdims, out,
                acc.value_or(accumulator(out)));
}

/// The number of elements that a reduction takes together, as a 0-d int64.
Expr reduced_count(const Expr& x, const std::vector<std::int64_t>& axes) {
  Expr n = int64_constant(1);
  for (std::int64_t axis : axes) {
    Expr d = shape_i(x, axis);
    n = axes.size() == 1 ? d : n * d;
  }
  return n;
}

DType moment_dtype(const Expr& x) {
  const DType part = real_of(x.dtype());
  return is_float(part) ? part : DType::F64;
}

/// The variance in at least float32: a square of 16-bit floats overflows where their deviation does
/// not.
Expr wide_var(const char* what, const Arg& given, const Axes& axes, bool keepdims,
              std::int64_t ddof, bool corrected) {
  require_expr(what, given.expr);
  if (is_complex(given.expr.dtype()))
    return wide_var(what, real(given), axes, keepdims, ddof, corrected) +
           wide_var(what, imag(given), axes, keepdims, ddof, corrected);
  DType out = moment_dtype(given.expr);
  Expr x = cast(given, size_of(out) == 2 ? DType::F32 : out);
  Expr centred = x - mean(x, axes, true);
  Expr n = cast(reduced_count(x, normal_axes(what, axes, x.ndim())), x.dtype());
  Expr total = sum(sqr(centred), axes, keepdims);
  if (corrected) total = total - sqr(sum(centred, axes, keepdims)) / n;
  if (ddof != 0) n = n - typed_number(static_cast<double>(ddof), x.dtype());
  return total / n;
}

}  // namespace

// ---- inputs ----

Expr tensor(DType dtype, int ndim, std::string name, std::uint8_t broadcast, Here where) {
  Scope scope(where);
  if (ndim < 0 || ndim > 8)
    fail(Fault::Type, fmt::format("tensor: {} dimensions; there are 0 to 8", ndim));
  return input({dtype, Dims(static_cast<std::size_t>(ndim), -1), broadcast}, std::move(name));
}

Expr shared(const Array& value, std::string name, std::uint8_t broadcast, Here where) {
  Scope scope(where);
  Ref<Variable> v(new SharedVariable(value, std::move(name), broadcast));
  v->origin = current_origin();
  return Expr(v);
}

Expr shared(const Recipe& recipe, std::string name, std::uint8_t broadcast, Here where) {
  Scope scope(where);
  Ref<Variable> v(new SharedVariable(recipe, std::move(name), broadcast));
  v->origin = current_origin();
  return Expr(v);
}

Array zeros(const Dims& shape, DType dtype) { return Array::zeros(dtype, shape); }

Array ones(const Dims& shape, DType dtype) {
  Array a = Array::empty(dtype, shape);
  for (std::int64_t k = 0, n = a.size(); k < n; ++k) a.set_int(k, 1);
  return a;
}

// ---- elementwise ----

Expr neg(const Arg& x) { return unary(ops::neg, x); }
Expr abs(const Arg& x) { return unary(ops::abs, x); }
Expr sign(const Arg& x) { return unary(ops::sign, x); }
Expr sqr(const Arg& x) { return unary(ops::sqr, x); }
Expr sqrt(const Arg& x) { return unary(ops::sqrt, x); }
Expr exp(const Arg& x) { return unary(ops::exp, x); }
Expr expm1(const Arg& x) { return unary(ops::expm1, x); }
Expr exp2(const Arg& x) { return unary(ops::exp2, x); }
Expr log(const Arg& x) { return unary(ops::log, x); }
Expr log1p(const Arg& x) { return unary(ops::log1p, x); }
Expr log2(const Arg& x) { return unary(ops::log2, x); }
Expr log10(const Arg& x) { return unary(ops::log10, x); }
Expr tanh(const Arg& x) { return unary(ops::tanh, x); }
Expr sigmoid(const Arg& x) { return unary(ops::sigmoid, x); }
Expr softplus(const Arg& x) { return unary(ops::softplus, x); }
Expr erf(const Arg& x) { return unary(ops::erf, x); }
Expr erfc(const Arg& x) { return unary(ops::erfc, x); }
Expr sin(const Arg& x) { return unary(ops::sin, x); }
Expr cos(const Arg& x) { return unary(ops::cos, x); }
Expr tan(const Arg& x) { return unary(ops::tan, x); }
Expr asin(const Arg& x) { return unary(ops::asin, x); }
Expr acos(const Arg& x) { return unary(ops::acos, x); }
Expr atan(const Arg& x) { return unary(ops::atan, x); }
Expr sinh(const Arg& x) { return unary(ops::sinh, x); }
Expr cosh(const Arg& x) { return unary(ops::cosh, x); }
Expr asinh(const Arg& x) { return unary(ops::asinh, x); }
Expr acosh(const Arg& x) { return unary(ops::acosh, x); }
Expr atanh(const Arg& x) { return unary(ops::atanh, x); }
Expr floor(const Arg& x) { return unary(ops::floor, x); }
Expr ceil(const Arg& x) { return unary(ops::ceil, x); }
Expr trunc(const Arg& x) { return unary(ops::trunc, x); }
Expr round(const Arg& x) { return unary(ops::round, x); }
Expr isnan(const Arg& x) { return unary(ops::isnan, x); }
Expr isinf(const Arg& x) { return unary(ops::isinf, x); }
Expr invert(const Arg& x) { return unary(ops::invert, x); }
Expr stop_gradient(const Arg& x) { return unary(ops::stop_gradient, x); }

Expr cast(const Arg& x, DType dtype) {
  Scope scope(x);
  require_expr("cast", x.expr);
  if (x.expr.dtype() == dtype) return x.expr;
  if (Expr exact = exact_number(x.expr, dtype); exact && exact.dtype() == dtype) return exact;
  if (is_complex(dtype) && !is_complex(x.expr.dtype()))
    return complex(cast(x, real_of(dtype)), typed_number(0, real_of(dtype)));
  return apply(ops::cast, {x.expr}, {{"dtype", dtype}});
}

Expr identity(const Arg& x) {
  Scope scope(x);
  require_expr("identity", x.expr);
  return apply(ops::cast, {x.expr}, {{"dtype", x.expr.dtype()}});
}

Expr add(const Arg& a, const Arg& b) { return binary(ops::add, a, b); }
Expr sub(const Arg& a, const Arg& b) { return binary(ops::sub, a, b); }
Expr mul(const Arg& a, const Arg& b) { return binary(ops::mul, a, b); }
Expr div(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("div", a.expr);
  require_expr("div", b.expr);
  if (is_continuous(a.expr.dtype()) || is_continuous(b.expr.dtype())) return binary(ops::div, a, b);
  if (int_division() == IntDivision::Floor) return floor_div(a, b);
  if (int_division() == IntDivision::Raise)
    fail(Fault::Type,
         spelled("div: both operands are integers, and int_division() is Raise",
                 "div: both operands are integers, and config.int_division is 'raise'"),
         fmt::format("write {} for integers, or cast one operand to a float",
                     spelled("floor_div(a, b)", "a // b")));
  return elementwise(ops::div, {cast(a, default_float()), cast(b, default_float())});
}
Expr floor_div(const Arg& a, const Arg& b) { return binary(ops::floor_div, a, b); }
Expr mod(const Arg& a, const Arg& b) { return binary(ops::mod, a, b); }
Expr pow(const Arg& a, const Arg& b) { return binary(ops::pow, a, b); }
Expr minimum(const Arg& a, const Arg& b) { return binary(ops::minimum, a, b); }
Expr maximum(const Arg& a, const Arg& b) { return binary(ops::maximum, a, b); }
Expr atan2(const Arg& a, const Arg& b) { return binary(ops::atan2, a, b); }
Expr lt(const Arg& a, const Arg& b) { return binary(ops::lt, a, b); }
Expr le(const Arg& a, const Arg& b) { return binary(ops::le, a, b); }
Expr gt(const Arg& a, const Arg& b) { return binary(ops::gt, a, b); }
Expr ge(const Arg& a, const Arg& b) { return binary(ops::ge, a, b); }
Expr eq(const Arg& a, const Arg& b) { return binary(ops::eq, a, b); }
Expr ne(const Arg& a, const Arg& b) { return binary(ops::ne, a, b); }
Expr bit_and(const Arg& a, const Arg& b) { return binary(ops::bit_and, a, b); }
Expr bit_or(const Arg& a, const Arg& b) { return binary(ops::bit_or, a, b); }
Expr bit_xor(const Arg& a, const Arg& b) { return binary(ops::bit_xor, a, b); }
Expr shl(const Arg& a, const Arg& b) { return binary(ops::shl, a, b); }
Expr shr(const Arg& a, const Arg& b) { return binary(ops::shr, a, b); }

Expr switch_(const Arg& condition, const Arg& then, const Arg& otherwise) {
  Scope scope(condition);
  return elementwise(ops::switch_, {condition.expr, then.expr, otherwise.expr});
}

Expr clip(const Arg& x, const Arg& low, const Arg& high) {
  Scope scope(x);
  return minimum(maximum(x, low), high);
}

// ---- reductions ----

Expr sum(const Arg& x, const Axes& axes, bool keepdims, std::optional<DType> dtype,
         std::optional<DType> acc) {
  Scope scope(x);
  return reduce_sum(ops::sum, ReduceOp::Sum, x.expr, axes, keepdims, dtype, acc);
}

Expr prod(const Arg& x, const Axes& axes, bool keepdims, std::optional<DType> dtype,
          std::optional<DType> acc) {
  Scope scope(x);
  return reduce_sum(ops::prod, ReduceOp::Prod, x.expr, axes, keepdims, dtype, acc);
}

Expr mean(const Arg& x, const Axes& axes, bool keepdims, std::optional<DType> dtype,
          std::optional<DType> acc) {
  Scope scope(x);
  require_expr("mean", x.expr);
  DType out = dtype.value_or(is_continuous(x.expr.dtype()) ? x.expr.dtype() : DType::F64);
  if (!is_continuous(out))
    fail(Fault::Type, fmt::format("mean: the result is a float, not {}", name_of(out)),
         "cast the mean");
  // A sum of 16-bit floats overflows where their mean does not.
  DType work = size_of(out) == 2 ? DType::F32 : out;
  Expr total = reduce_sum(ops::sum, ReduceOp::Sum, x.expr, axes, keepdims, work, acc);
  Expr n = reduced_count(x.expr, normal_axes("mean", axes, x.expr.ndim()));
  return cast(total / cast(n, real_of(work)), out);
}

Expr max(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::max, ReduceOp::Max, x.expr, axes, keepdims, x.expr.dtype(), x.expr.dtype());
}

Expr min(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::min, ReduceOp::Min, x.expr, axes, keepdims, x.expr.dtype(), x.expr.dtype());
}

Expr any(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  Expr b = x.expr.dtype() == DType::Bool ? x.expr : ne(x, typed_number(0, x.expr.dtype()));
  return reduce(ops::any, ReduceOp::Any, b, axes, keepdims, DType::Bool, DType::Bool);
}

Expr all(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  Expr b = x.expr.dtype() == DType::Bool ? x.expr : ne(x, typed_number(0, x.expr.dtype()));
  return reduce(ops::all, ReduceOp::All, b, axes, keepdims, DType::Bool, DType::Bool);
}

Expr argmax(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::argmax, ReduceOp::ArgMax, x.expr, axes, keepdims, DType::I64, x.expr.dtype());
}

Expr argmin(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::argmin, ReduceOp::ArgMin, x.expr, axes, keepdims, DType::I64, x.expr.dtype());
}

Expr var(const Arg& x, const Axes& axes, bool keepdims, std::int64_t ddof, bool corrected) {
  Scope scope(x);
  return cast(wide_var("var", x, axes, keepdims, ddof, corrected), moment_dtype(x.expr));
}

Expr stddev(const Arg& x, const Axes& axes, bool keepdims, std::int64_t ddof, bool corrected) {
  Scope scope(x);
  return cast(sqrt(wide_var("std", x, axes, keepdims, ddof, corrected)), moment_dtype(x.expr));
}

}  // namespace snug
