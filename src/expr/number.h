#pragma once
#include <complex>

#include "expr/expr.h"

namespace snug {

/// A number of the program as a constant whose dtype does not hold it: 0.01 as a float32. Beside
/// a wider type it is that number in the wider type, not the rounded one.
class RoundedNumber : public Constant {
 public:
  RoundedNumber(Array rounded, std::complex<double> number);
  const std::complex<double> number;
};

/// A constant for a number that `value` is, or is nearest to.
Expr number_constant(Array value, std::complex<double> number);
/// The number behind a rounded constant in `dtype`, a float or complex type; null for all else.
Expr exact_number(const Expr& e, DType dtype);
/// Rounded numbers among the operands from `first` on get the type that these meet in.
void widen_numbers(std::vector<Expr>& operands, std::size_t first = 0);

}  // namespace snug
