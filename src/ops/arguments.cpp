#include "ops/arguments.h"

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

std::int64_t ones_mask(const Expr& vector) {
  std::int64_t mask = 0;
  for (std::size_t k = 0; k < vector->elements.size() && k < 8; ++k)
    if (vector->elements_known[k] && vector->elements[k] == 1) mask |= std::int64_t{1} << k;
  return mask;
}

}  // namespace snug
