#include "expr/number.h"

namespace snug {

RoundedNumber::RoundedNumber(Array rounded, std::complex<double> number)
    : Constant(std::move(rounded)), number(number) {}

Expr number_constant(Array value, std::complex<double> number) {
  // A nan is as good in any type.
  const std::complex<double> held = value.at_complex(0);
  const auto same = [](double a, double b) { return a == b || (a != a && b != b); };
  if (same(held.real(), number.real()) && same(held.imag(), number.imag()))
    return constant(std::move(value));
  Ref<Variable> v(new RoundedNumber(std::move(value), number));
  v->origin = current_origin();
  return Expr(v);
}

Expr exact_number(const Expr& e, DType dtype) {
  auto* rounded = dynamic_cast<const RoundedNumber*>(e.get());
  if (!rounded || !is_continuous(dtype)) return {};
  Array value = Array::empty(is_complex(e.dtype()) ? complex_of(dtype) : real_of(dtype), {});
  is_complex(value.dtype) ? value.set_complex(0, rounded->number)
                          : value.set_double(0, rounded->number.real());
  Expr exact = number_constant(std::move(value), rounded->number);
  exact->name = e->name;
  return exact;
}

void widen_numbers(std::vector<Expr>& operands, std::size_t first) {
  if (operands.size() <= first) return;
  DType common = operands[first].dtype();
  for (std::size_t i = first; i < operands.size(); ++i)
    common = upcast(common, operands[i].dtype());
  for (std::size_t i = first; i < operands.size(); ++i)
    if (real_of(operands[i].dtype()) != real_of(common))
      if (Expr exact = exact_number(operands[i], common)) operands[i] = exact;
}

}  // namespace snug
