#pragma once
#include "ops/rules.h"

/// What rows are on complex operands (OpDef::on_complex), in terms of real parts and imaginary
/// parts.
namespace snug::ops {

struct Parts {
  Expr re, im;
};
/// The parts of a complex value; a graph drops what takes apart a pair that was made of parts. Of a
/// real value: itself and -0, which sums drop.
Parts parts_of(const Expr& x);
Expr complex_of_parts(const Parts& parts);
/// A value as pairs of reals on a last axis.
Expr pairs_of(const Expr& x);

/// Input 0 has float32 or float64 pairs on a last axis of size 2.
void require_pairs(Infer& f);

/// For rows that are linear in their operands and leave the last axis of pairs alone: the row on
/// pairs, or on the parts apart if an operand was made of them.
Exprs complex_linear(const ComplexArgs& c);
Exprs complex_dimshuffle(const ComplexArgs& c);
Exprs complex_with_shape(const ComplexArgs& c);  // broadcast_to, reshape
Exprs complex_shape(const ComplexArgs& c);
Exprs complex_product(const ComplexArgs& c);  // dot, batched_dot
Exprs complex_cast(const ComplexArgs& c);
Exprs complex_switch(const ComplexArgs& c);
Exprs complex_any_part(const ComplexArgs& c);    // isnan, isinf, ne: true of either part
Exprs complex_both_parts(const ComplexArgs& c);  // eq

Exprs complex_mul(const ComplexArgs& c);
Exprs complex_div(const ComplexArgs& c);
Exprs complex_pow(const ComplexArgs& c);
Exprs complex_sqr(const ComplexArgs& c);
Exprs complex_sqrt(const ComplexArgs& c);
Exprs complex_abs(const ComplexArgs& c);
Exprs complex_exp(const ComplexArgs& c);
Exprs complex_expm1(const ComplexArgs& c);
Exprs complex_exp2(const ComplexArgs& c);
Exprs complex_log(const ComplexArgs& c);
Exprs complex_log1p(const ComplexArgs& c);
Exprs complex_log2(const ComplexArgs& c);
Exprs complex_log10(const ComplexArgs& c);
Exprs complex_sin(const ComplexArgs& c);
Exprs complex_cos(const ComplexArgs& c);
Exprs complex_tan(const ComplexArgs& c);
Exprs complex_sinh(const ComplexArgs& c);
Exprs complex_cosh(const ComplexArgs& c);
Exprs complex_tanh(const ComplexArgs& c);

}  // namespace snug::ops
