#include "ops/arguments.h"

#include <algorithm>

namespace snug {

void require_expr(const char* what, const Expr& e) {
  if (!e) fail(Fault::Type, fmt::format("{}: an argument is an empty expression", what));
}

std::int64_t normal_axis(const char* what, std::int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim)
    fail(Fault::Value,
         fmt::format("{}: there is no axis {} in a value of {} dimensions", what, axis, ndim));
  return axis < 0 ? axis + ndim : axis;
}

Expr int64_constant(std::int64_t value) { return constant(Array::scalar<std::int64_t>(value)); }

Expr typed_number(double value, DType dtype) {
  Array a = Array::empty(dtype, {});
  if (is_continuous(dtype))
    a.set_double(0, value);
  else
    a.set_int(0, static_cast<std::int64_t>(value));
  return constant(a);
}

DType sum_dtype(DType t) {
  if (is_continuous(t)) return t;
  return is_unsigned_int(t) ? DType::U64 : DType::I64;
}

Expr in_float(const char* what, const Arg& x) {
  require_expr(what, x.expr);
  return cast(x, to_float(x.expr.dtype()));
}

std::int64_t ones_mask(const Expr& vector) {
  std::int64_t mask = 0;
  for (std::size_t k = 0; k < vector->elements.size() && k < 8; ++k)
    if (vector->elements_known[k] && vector->elements[k] == 1) mask |= std::int64_t{1} << k;
  return mask;
}

namespace {
/// Adds broadcastable axes in front until it has `ndim` of them.
Expr padded(const Expr& x, int ndim) {
  if (x.ndim() == ndim) return x;
  std::vector<std::int64_t> pattern(static_cast<std::size_t>(ndim - x.ndim()), -1);
  for (int i = 0; i < x.ndim(); ++i) pattern.push_back(i);
  return apply(ops::dimshuffle, {x}, {{"pattern", pattern}});
}

}  // namespace

bool Scope::is_composite(const char* function) {
  if (!function) return false;
  std::string_view name = function;
  if (name.starts_with("operator")) return false;
  if (name.ends_with('_')) name.remove_suffix(1);  // switch_
  const auto before = [](const OpDef* op, std::string_view n) { return op->name < n; };
  const auto ops = all_ops();
  const auto at = std::lower_bound(ops.begin(), ops.end(), name, before);
  return at == ops.end() || (*at)->name != name;
}

Expr elementwise(const OpDef& op, std::vector<Expr> xs, Attrs attrs) {
  int ndim = 0;
  for (const Expr& x : xs) {
    require_expr(op.name.data(), x);
    ndim = std::max(ndim, x.ndim());
  }
  widen_numbers(xs, &op == &ops::switch_ ? 1 : 0);
  for (Expr& x : xs) x = padded(x, ndim);
  return apply(op, std::move(xs), std::move(attrs));
}

Expr unary(const OpDef& op, const Arg& x) {
  Scope scope(x, nullptr);
  return elementwise(op, {x.expr});
}

namespace {
/// cast_policy NumpyFloatX: the operands such that no float64 comes of types that are none.
void keep_narrow(Expr& a, Expr& b) {
  if (cast_policy() != CastPolicy::NumpyFloatX || default_float() == DType::F64) return;
  if (is_float(a.dtype()) == is_float(b.dtype())) return;
  if (upcast(a.dtype(), b.dtype()) != DType::F64) return;
  if (is_float(a.dtype()) && a.dtype() != DType::F64) b = cast(b, default_float());
  if (is_float(b.dtype()) && b.dtype() != DType::F64) a = cast(a, default_float());
}
}  // namespace

Expr binary(const OpDef& op, const Arg& a, const Arg& b) {
  Scope scope(a, nullptr);
  Expr x = a.expr, y = b.expr;
  require_expr(op.name.data(), x);
  require_expr(op.name.data(), y);
  keep_narrow(x, y);
  return elementwise(op, {x, y});
}

}  // namespace snug
