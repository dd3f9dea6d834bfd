#pragma once
#include "expr/expr.h"

namespace snug {

/// re + i im; the parts stretch as operands of a sum do. Every function here and every function
/// that makes sense on complex numbers takes them; what does not (comparisons, max, floor, ...)
/// says so.
Expr complex(const Arg& re, const Arg& im);
Expr complex_from_polar(const Arg& size, const Arg& angle);
Expr real(const Arg& x);
Expr imag(const Arg& x);
Expr angle(const Arg& x);
Expr conj(const Arg& x);
/// Complex (...) as floats (..., 2), and back.
Expr view_as_real(const Arg& x);
Expr view_as_complex(const Arg& x);

}  // namespace snug
