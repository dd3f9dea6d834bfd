#pragma once
#include "ops/functions.h"

/// Special functions of mathematics, and elementwise functions that are made of others. Floats keep
/// their dtype; integers become floats as in other float functions.
namespace snug {

// ---- special functions ----

Expr gamma(const Arg& x);
Expr gammaln(const Arg& x);  // log |gamma(x)|
Expr digamma(const Arg& x);
Expr trigamma(const Arg& x);
Expr polygamma(const Arg& n,
               const Arg& x);  // derivative n of digamma; n is a number of whole value
Expr erfinv(const Arg& x);
Expr erfcinv(const Arg& x);
Expr erfcx(const Arg& x);                    // exp(x * x) * erfc(x)
Expr gammainc(const Arg& k, const Arg& x);   // regularised: from 0 to 1
Expr gammaincc(const Arg& k, const Arg& x);  // 1 - gammainc(k, x)
Expr betaln(const Arg& a, const Arg& b);     // log |beta(a, b)|
Expr beta(const Arg& a, const Arg& b);       // gamma(a) gamma(b) / gamma(a + b), for a, b > 0
Expr gammal(const Arg& k, const Arg& x);     // gammainc(k, x) * gamma(k)
Expr gammau(const Arg& k, const Arg& x);     // gammaincc(k, x) * gamma(k)
/// The probability that a chi-squared variable with k degrees of freedom exceeds x.
Expr chi2sf(const Arg& x, const Arg& k);
Expr j0(const Arg& x);
Expr j1(const Arg& x);
Expr jv(const Arg& order, const Arg& x);
Expr i0(const Arg& x);
Expr i1(const Arg& x);
Expr iv(const Arg& order, const Arg& x);
Expr xlogx(const Arg& x);                 // x * log(x), 0 at 0
Expr xlogy0(const Arg& x, const Arg& y);  // x * log(y), 0 where x is 0
Expr deg2rad(const Arg& x);
Expr rad2deg(const Arg& x);

// ---- rounding, division, tolerance ----

Expr round_half_away_from_zero(const Arg& x);
Expr ceil_intdiv(const Arg& a, const Arg& b);  // the quotient of integers, rounded up
/// `value` in the common shape of `like` and itself.
Expr second(const Arg& like, const Arg& value);
Expr largest(const std::vector<Expr>& xs, Here where = Here::current());
Expr smallest(const std::vector<Expr>& xs, Here where = Here::current());
/// Where |a - b| <= atol + rtol * |b|, or both are the same infinity.
Expr isclose(const Arg& a, const Arg& b, double rtol = 1e-5, double atol = 1e-8,
             bool equal_nan = false);
Expr allclose(const Arg& a, const Arg& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// x with other numbers for NaN and the infinities; without one, for an infinity the number of
/// x's dtype that is nearest to it.
Expr nan_to_num(const Arg& x, double nan = 0, std::optional<double> posinf = {},
                std::optional<double> neginf = {});

// ---- truth values: a number is true if it is not 0 ----

Expr logical_and(const Arg& a, const Arg& b);
Expr logical_or(const Arg& a, const Arg& b);
Expr logical_xor(const Arg& a, const Arg& b);
Expr logical_not(const Arg& x);

// ---- of axes ----

Expr ptp(const Arg& x, const Axes& axes = {}, bool keepdims = false);  // max - min
/// The sum of |x|^order, to the power of 1 / order. An infinite order gives the largest or the
/// smallest |x|, 0 the number of elements that are not 0.
Expr vector_norm(const Arg& x, double order = 2, const Axes& axes = {}, bool keepdims = false);
/// The covariances of the rows of a matrix, each a variable; of a vector, its variance.
Expr cov(const Arg& x, std::int64_t ddof = 1);

}  // namespace snug
