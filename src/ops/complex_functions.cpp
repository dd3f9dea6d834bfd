#include "ops/complex_functions.h"

#include <algorithm>

#include "ops/arguments.h"
#include "ops/complex_rules.h"

namespace snug {
namespace {

/// float32 or float64.
DType part_dtype(DType t) { return real_of(complex_of(t)); }

/// `x` with as many axes as `to`, stretched to its sizes.
Expr stretched(const Expr& x, const Expr& to) {
  if (x.ndim() == to.ndim() && x.type().broadcast == to.type().broadcast) return x;
  return apply(ops::broadcast_to, {x, shape(to)},
               {{"broadcast", std::int64_t{to.type().broadcast}}});
}

void require_real(const char* what, const Expr& x) {
  require_expr(what, x);
  if (is_complex(x.dtype()))
    fail(Fault::Type, fmt::format("{}: takes real numbers, not {}", what, name_of(x.dtype())));
}

}  // namespace

Expr complex(const Arg& re, const Arg& im) {
  Scope scope(re);
  require_real("complex", re.expr);
  require_real("complex", im.expr);
  const DType t = part_dtype(upcast(re.expr.dtype(), im.expr.dtype()));
  Expr a = cast(re, t), b = cast(im, t);
  if (a.ndim() != b.ndim() || a.type().broadcast != b.type().broadcast) {
    Expr both = a + b;  // only its sizes are used
    a = stretched(a, both);
    b = stretched(b, both);
  }
  return apply(ops::view_as_complex, {apply(ops::pair, {a, b})});
}

Expr complex_from_polar(const Arg& size, const Arg& angle) {
  Scope scope(size);
  require_real("complex_from_polar", size.expr);
  require_real("complex_from_polar", angle.expr);
  return complex(size.expr * cos(angle), size.expr * sin(angle));
}

Expr real(const Arg& x) {
  Scope scope(x);
  require_expr("real", x.expr);
  return is_complex(x.expr.dtype()) ? ops::parts_of(x.expr).re : x.expr;
}

Expr imag(const Arg& x) {
  Scope scope(x);
  require_expr("imag", x.expr);
  return is_complex(x.expr.dtype()) ? ops::parts_of(x.expr).im : zeros_like(x);
}

Expr angle(const Arg& x) {
  Scope scope(x);
  require_expr("angle", x.expr);
  return atan2(imag(x), real(x));
}

Expr conj(const Arg& x) {
  Scope scope(x);
  require_expr("conj", x.expr);
  if (!is_complex(x.expr.dtype())) return x.expr;
  ops::Parts p = ops::parts_of(x.expr);
  return complex(p.re, neg(p.im));
}

Expr view_as_real(const Arg& x) {
  Scope scope(x);
  require_expr("view_as_real", x.expr);
  if (!is_complex(x.expr.dtype()))
    fail(Fault::Type,
         fmt::format("view_as_real: takes complex numbers, not {}", name_of(x.expr.dtype())));
  return ops::pairs_of(x.expr);
}

Expr view_as_complex(const Arg& x) {
  Scope scope(x);
  require_expr("view_as_complex", x.expr);
  const Dims& shape = x.expr.type().shape;
  if (shape.empty() || (shape.back() >= 0 && x.expr->owner))
    return apply(ops::view_as_complex, {x.expr});
  // The graph, which has no such view, checks the size.
  std::vector<std::int64_t> sizes(shape.size(), -1);
  sizes.back() = 2;
  return apply(ops::view_as_complex, {specify_shape(x, sizes)});
}

}  // namespace snug
