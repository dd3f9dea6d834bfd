// The polynomials of kernel/math_constants.h.
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "backend/cpu/emit_math.h"
#include "kernel/math_constants.h"

namespace snug {

using namespace llvm;
using namespace math;
using V = Value*;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

V MathEmitter::exp_tail(V r) { return poly(r, kExpTail); }

V MathEmitter::expm1_poly(V r) { return fma(b.CreateFMul(r, r), exp_tail(r), r); }

/// x - n ln 2
V MathEmitter::reduce_exp(V x, V n) {
  V r = fma(n, pick(x, -kLn2High), x);
  return fma(n, pick(x, -kLn2Low), r);
}

V MathEmitter::exp(V x) {
  x = clamp_below(clamp_above(x, pick(x, 89, 710)), pick(x, -104, -746));
  if (!host_.avx512) return exp_within(x);
  V n = unary(Intrinsic::roundeven, b.CreateFMul(x, pick(x, kLog2E)));
  V q = expm1_poly(reduce_exp(x, n));
  return scale(b.CreateFAdd(q, number(x, 1)), n);
}

/// For x within the clamps of exp, where no instruction scales by powers of two. The whole number n
/// comes to lie in the low bits of `near`; 2^n is made in two steps, one of them 2^64 (2^512) or
/// its inverse, so that subnormal results are rounded once.
V MathEmitter::exp_within(V x) {
  const bool f32 = single(x);
  V magic = pick(x, kNoFraction);
  V near = fma(x, pick(x, kLog2E), magic);
  V r = reduce_exp(x, b.CreateFSub(near, magic));
  V y = fma(fma(exp_tail(r), r, number(x, 1)), r, number(x, 1));
  V exponent = b.CreateShl(bits(near), integer(bits(x), f32 ? 23 : 52));
  V negative = b.CreateICmpSLT(bits(x), integer(bits(x), 0));
  V up = pick(x, 0x1p64, 0x1p512), down = pick(x, 0x1p-64, 0x1p-512);
  V first = b.CreateAdd(exponent, bits(b.CreateSelect(negative, up, down)));
  return b.CreateFMul(b.CreateFMul(y, from_bits(first, x)), b.CreateSelect(negative, down, up));
}

V MathEmitter::exp2(V x) {
  x = clamp_below(clamp_above(x, pick(x, 129, 1025)), pick(x, -151, -1076));
  V n = unary(Intrinsic::roundeven, x);
  V r = b.CreateFMul(b.CreateFSub(x, n), pick(x, kLn2));
  return scale(b.CreateFAdd(expm1_poly(r), number(x, 1)), n);
}

/// For x within the clamps of expm1.
V MathEmitter::expm1_within(V x) {
  V n = unary(Intrinsic::roundeven, b.CreateFMul(x, pick(x, kLog2E)));
  V q = expm1_poly(reduce_exp(x, n));
  // 2^n q + (2^n - 1), halved so that 2^n does not overflow before the result does.
  V half;
  if (host_.avx512) {
    half = scale(number(x, 0.5), n);
  } else {
    V i = near_integer(n);
    half = power_of_two(b.CreateSub(i, integer(i, 1)));
  }
  V r = fma(half, q, b.CreateFSub(half, number(x, 0.5)));
  return b.CreateFAdd(r, r);
}

V MathEmitter::expm1(V x) {
  V zero = b.CreateFCmpOEQ(x, number(x, 0));
  V t = clamp_below(clamp_above(x, pick(x, 89, 710)), pick(x, -30, -50));
  return b.CreateSelect(zero, x, expm1_within(t));  // keeps -0
}

/// The same values by the instructions of AVX-512, which know subnormal numbers.
MathEmitter::Split MathEmitter::split_avx512(V x) {
  constexpr int kFrom1To2 = 0;
  V m = avx512("getmant", x, {x, b.getInt32(kFrom1To2), x}), e = avx512("getexp", x, {x, x});
  V large = b.CreateFCmpOGE(m, pick(x, 0x1.6a09e6p0, 0x1.6a09e667f3bcdp0));
  return {b.CreateSelect(large, b.CreateFAdd(e, number(x, 1)), e),
          b.CreateSelect(large, b.CreateFMul(m, number(x, 0.5)), m)};
}

MathEmitter::Split MathEmitter::split(V x) {
  if (has_avx512(x)) return split_avx512(x);
  V tiny = b.CreateFCmpOLT(x, pick(x, 1.1754943508222875e-38, 2.2250738585072014e-308));
  V scaled = b.CreateFMul(x, pick(x, 16777216.0, 18014398509481984.0));
  V i = bits(b.CreateSelect(tiny, scaled, x));
  int mantissa = single(x) ? 23 : 52;
  V e = b.CreateSub(i, integer(i, single(x) ? 0x3f3504f3 : 0x3fe6a09e667f3bcd));
  e = b.CreateAShr(e, integer(i, mantissa));
  V m = from_bits(b.CreateSub(i, b.CreateShl(e, integer(i, mantissa))), x);
  V ef;
  if (single(x)) {
    ef = b.CreateSIToFP(e, x->getType());
  } else {  // see near_integer
    V magic = b.CreateAdd(e, integer(e, 0x4338000000000000));
    ef = b.CreateFSub(from_bits(magic, x), number(x, 6755399441055744.0));
  }
  V lowered = b.CreateFSub(ef, pick(x, 24, 54));
  return {b.CreateSelect(tiny, lowered, ef), m};
}

/// float32: log(1 + f) = f - f^2/2 + f^3 P(f), 2^-26.7. float64: with s = f / (2 + f),
/// log(1 + f) = 2 s + s^3 P(s^2), 2^-59, arranged so that f is added last.
V MathEmitter::log_reduced(V f, V e) {
  V ff = b.CreateFMul(f, f);
  if (single(f)) {
    V p = poly(f, kLogTail);
    V y = b.CreateFMul(b.CreateFMul(ff, f), p);
    if (e) y = fma(e, pick(f, kLn2Low), y);
    y = fma(ff, number(f, -0.5), y);
    V r = b.CreateFAdd(f, y);
    return e ? fma(e, pick(f, kLn2High), r) : r;
  }
  V s = b.CreateFDiv(f, b.CreateFAdd(f, number(f, 2)));
  V z = b.CreateFMul(s, s);
  V rest = poly(z, kLogTail);
  V half = b.CreateFMul(ff, number(f, 0.5));
  V y = b.CreateFMul(s, fma(z, rest, half));
  if (e) y = fma(e, pick(f, kLn2Low), y);
  V r = b.CreateFSub(f, b.CreateFSub(half, y));
  return e ? fma(e, pick(f, kLn2High), r) : r;
}

V MathEmitter::log_special(V x, V r) {
  if (has_avx512(x)) {
    // By class of x, 4 bits each, the lowest first: both kinds of NaN give x, 0 gives -inf, 1 gives
    // r, -inf gives NaN, inf gives inf, negative numbers give NaN, positive ones r.
    constexpr std::int64_t kResults = 0x03530411;
    V table = integer(bits(x), kResults);
    return avx512("fixupimm", x, {r, x, table, b.getInt32(0)});
  }
  // The sign of NaN is that of the instruction above.
  r = b.CreateSelect(b.CreateFCmpOLT(x, number(x, kInf)), r, x);
  r = b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), number(x, -kNan), r);
  return b.CreateSelect(b.CreateFCmpOEQ(x, number(x, 0)), number(x, -kInf), r);
}

V MathEmitter::log(Prim p, V x) {
  Split s = split(x);
  V f = b.CreateFSub(s.m, number(x, 1));
  if (p == Prim::Log) return log_special(x, log_reduced(f, s.e));
  V r = log_reduced(f, nullptr);
  if (p == Prim::Log2) return log_special(x, fma(r, pick(x, kLog2E), s.e));
  r = b.CreateFMul(r, pick(x, kLog10E));
  r = fma(s.e, pick(x, kLog10Of2Low), r);
  return log_special(x, fma(s.e, pick(x, kLog10Of2High), r));
}

/// 1 + x rounds to u; what u lost goes into the reduced argument.
V MathEmitter::log1p_finite(V x) {
  V one = number(x, 1);
  V u = b.CreateFAdd(x, one);
  V lost = b.CreateFSub(x, b.CreateFSub(u, one));
  // u = m * 2^e, without the care for tiny numbers: u >= 2^-53.
  V i = bits(u);
  int mantissa = single(x) ? 23 : 52;
  V e = b.CreateSub(i, integer(i, single(x) ? 0x3f3504f3 : 0x3fe6a09e667f3bcd));
  e = b.CreateAShr(e, integer(i, mantissa));
  V shifted = b.CreateShl(e, integer(i, mantissa));
  V m = from_bits(b.CreateSub(i, shifted), x);
  // 2^-e; for large e nothing is lost, and the power must only stay finite.
  V few = b.CreateBinaryIntrinsic(Intrinsic::smin, e, integer(e, 100));
  V down = power_of_two(b.CreateNeg(few));
  V f = fma(lost, down, b.CreateFSub(m, one));
  V ef;
  if (single(x)) {
    ef = b.CreateSIToFP(e, x->getType());
  } else {
    V magic = b.CreateAdd(e, integer(e, 0x4338000000000000));
    ef = b.CreateFSub(from_bits(magic, x), number(x, 6755399441055744.0));
  }
  return log_reduced(f, ef);
}

V MathEmitter::log1p(V x) {
  V r = log1p_finite(x);
  r = b.CreateSelect(b.CreateFCmpOLT(x, number(x, kInf)), r, x);
  r = b.CreateSelect(b.CreateFCmpOLT(x, number(x, -1)), number(x, kNan), r);
  r = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, -1)), number(x, -kInf), r);
  return b.CreateSelect(b.CreateFCmpOEQ(x, number(x, 0)), x, r);  // keeps -0
}

V MathEmitter::tanh(V x) {
  V ax = clamp_above(unary(Intrinsic::fabs, x), pick(x, 10, 22));
  V t = expm1_within(b.CreateFAdd(ax, ax));
  return copysign(b.CreateFDiv(t, b.CreateFAdd(t, number(x, 2))), x);
}

V MathEmitter::abs_of(V x) {
  auto* negation = dyn_cast<UnaryOperator>(x);
  if (negation && negation->getOpcode() == Instruction::FNeg) x = negation->getOperand(0);
  return unary(Intrinsic::fabs, x);
}

V MathEmitter::sigmoid(V x) {
  V e = exp(b.CreateFNeg(abs_of(x)));
  V one = number(x, 1);
  V top = b.CreateSelect(b.CreateFCmpOGE(x, number(x, 0)), one, e);
  return b.CreateFDiv(top, b.CreateFAdd(e, one));
}

V MathEmitter::softplus(V x) {
  // A nan comes from the sum's first operand alone: the sign of the sum of two depends on their
  // order, which the compiler chooses.
  V below = b.CreateFNeg(abs_of(x)), least = pick(x, -200, -1000);
  V e = exp(b.CreateSelect(b.CreateFCmpOGT(below, least), below, least));
  // A tiny e is its own logarithm; squaring it would underflow, which is slow.
  V tiny = b.CreateFCmpOLT(e, pick(x, 1e-9, 1e-18));
  V l = log1p_finite(b.CreateSelect(tiny, number(x, 0), e));
  return b.CreateFAdd(clamp_below(x, number(x, 0)), b.CreateSelect(tiny, e, l));
}

/// For x from 0 to 10.6 or 28: exp(x^2) erfc(x) = Q(q) / (1 + 2x), q = (x - k) / (x + k): 2^-25 and
/// 2^-54.
V MathEmitter::erfcx_near(V x) {
  V k = pick(x, kErfcxCentre);
  V inverse = b.CreateFDiv(number(x, 1), b.CreateFAdd(x, k));
  V q = b.CreateFMul(b.CreateFSub(x, k), inverse);
  // The residual (x - k) - q (x + k) mends the rounding of the quotient.
  V left = fma(b.CreateFAdd(q, number(x, 1)), b.CreateFNeg(k), x);
  q = fma(fma(b.CreateFNeg(q), x, left), inverse, q);
  V p = poly(q, kErfcx);
  return b.CreateFDiv(p, fma(x, number(x, 2), number(x, 1)));
}

/// For x >= 0.
V MathEmitter::erfc_positive(V x) {
  V h = b.CreateFMul(x, x);
  V low = fma(x, x, b.CreateFNeg(h));  // x^2 = h + low
  V g = erfcx_near(x);
  V e = exp(b.CreateFNeg(h));
  V r = b.CreateFMul(e, g);
  return fma(b.CreateFNeg(low), r, r);
}

/// Beyond the range of the polynomial the asymptotic series in 1 / (2x^2); for negative x
/// 2 exp(x^2) - erfcx(-x).
V MathEmitter::erfcx(V x) {
  V ax = unary(Intrinsic::fabs, x), limit = pick(x, 10.5, 28);
  V near = erfcx_near(clamp_above(ax, limit));
  V inverse = b.CreateFDiv(number(x, 1), ax);
  V t = b.CreateFMul(b.CreateFMul(inverse, inverse), number(x, -0.5));
  V series = poly(t, kErfcxSeries);
  V far = b.CreateFMul(b.CreateFMul(inverse, pick(x, kOneOverRootPi)), series);
  V positive = b.CreateSelect(b.CreateFCmpOGT(ax, limit), far, near);
  V h = b.CreateFMul(x, x);
  V low = fma(x, x, b.CreateFNeg(h));
  V finite = b.CreateFCmpOLT(h, number(x, kInf));
  low = b.CreateSelect(finite, low, number(x, 0));
  V e = exp(h);
  e = b.CreateSelect(b.CreateFCmpOLT(e, number(x, kInf)), fma(e, low, e), e);
  V negative = b.CreateFSub(b.CreateFAdd(e, e), positive);
  return b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), negative, positive);
}

V MathEmitter::erfc(V x) {
  V ax = clamp_above(unary(Intrinsic::fabs, x), pick(x, 10.6, 28));
  V r = erfc_positive(ax);
  r = b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), b.CreateFSub(number(x, 2), r), r);
  // Two operands of a product above are nan if x is: which sign comes out depends on their order.
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, r);
}

/// erf(x) = x G(t): [0, 3.92] in eight pieces, |x| = (piece + t) / scale with |t| <= 1/2, and a
/// polynomial for each, 2^-24. The last one ends with 1.
V MathEmitter::erf_single(V x) {
  V ax = clamp_above(unary(Intrinsic::fabs, x), number(x, 3.92));
  V magic = pick(x, kNoFraction), scale = number(x, kErfPieces);
  V shifted = fma(ax, scale, magic);
  V t = fma(ax, scale, b.CreateFSub(magic, shifted));
  V piece = bits(shifted);  // in the last three bits
  V g = entry_of(kErfOfPiece[6], piece);
  for (int k = 5; k >= 0; --k) g = fma(g, t, entry_of(kErfOfPiece[k], piece));
  return copysign(b.CreateFMul(ax, g), x);
}

/// |x| < 1: x + x P(x^2), 2^-56. Beyond: 1 - erfc(|x|).
V MathEmitter::erf(V x) {
  if (single(x)) return erf_single(x);
  V ax = unary(Intrinsic::fabs, x);
  V p = poly(b.CreateFMul(x, x), kErf);
  V small = copysign(fma(ax, p, ax), x);  // keeps -0
  V rest = erfc_positive(clamp_above(ax, number(x, 6)));
  V large = copysign(b.CreateFSub(number(x, 1), rest), x);
  return b.CreateSelect(b.CreateFCmpOLT(ax, number(x, 1)), small, large);
}

MathEmitter::Angle MathEmitter::reduce_angle(V ax) {
  V n = unary(Intrinsic::roundeven, b.CreateFMul(ax, pick(ax, kTwoOverPi)));
  V r = fma(n, pick(ax, -kHalfPiHigh), ax);
  r = fma(n, pick(ax, -kHalfPiMiddle), r);
  r = fma(n, pick(ax, -kHalfPiLow), r);
  return {near_integer(n), r};
}

/// sin r = r + r^3 P(r^2): 2^-32 and 2^-62. cos r = 1 - r^2/2 + r^4 P(r^2): 2^-32 and 2^-68.
V MathEmitter::sine_or_cosine(Angle a, bool cosine) {
  V r = a.r, z = b.CreateFMul(r, r);
  V sp = poly(z, kSine);
  V sine = fma(b.CreateFMul(r, z), sp, r);
  V cp = poly(z, kCosine);
  V cos_r = fma(b.CreateFMul(z, z), cp, fma(z, number(z, -0.5), number(z, 1)));
  V quadrant = cosine ? b.CreateAdd(a.quadrant, integer(a.quadrant, 1)) : a.quadrant;
  V odd = b.CreateTrunc(quadrant, int_type(quadrant->getType(), 1));
  V value = b.CreateSelect(odd, cos_r, sine);
  V sign = b.CreateShl(b.CreateLShr(quadrant, integer(quadrant, 1)),
                       integer(quadrant, single(r) ? 31 : 63));
  return from_bits(b.CreateXor(bits(value), sign), r);
}

V MathEmitter::trigonometric(Prim p, V x) {
  V ax = unary(Intrinsic::fabs, x);
  V far = b.CreateFCmpOGT(ax, pick(x, 1e5, 1e9));
  Angle a = reduce_angle(b.CreateSelect(far, number(x, 0), ax));
  V r = p == Prim::Cos ? sine_or_cosine(a, true) : sine_or_cosine(a, false);
  if (p == Prim::Tan) r = b.CreateFDiv(r, sine_or_cosine(a, true));
  if (p != Prim::Cos)  // odd functions: the sign of x, which also keeps -0
    r = from_bits(b.CreateXor(bits(r), b.CreateAnd(bits(x), bits(number(x, -0.0)))), x);
  std::string name = std::string(single(x) ? "snug_f32_" : "snug_f64_") + name_of(p);
  return per_lane(name, far, r, x, nullptr);
}

}  // namespace snug
