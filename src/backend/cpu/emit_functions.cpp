// The polynomials. Coefficients are minimax for the form given beside them, found with rounding to
// the format in mind; the errors named are of the polynomial alone.
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "backend/cpu/emit_math.h"

namespace snug {

using namespace llvm;
using V = Value*;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 1.442695040888963387;
constexpr double kTwoOverPi = 0.6366197723675813824;

/// P of e^r - 1 = r + r^2 P(r) for |r| <= ln(2) / 2: 2^-26 and 2^-55.
V MathEmitter::exp_tail(V r) {
  return poly(r,
              {0.4999999701976776123, 0.1666654199361801147, 4.166749492287635803e-2,
               8.366725407540798187e-3, 1.386548508889973164e-3},
              {0.5000000000000005551, 0.1666666666666659080, 4.166666666657301010e-2,
               8.333333333388094968e-3, 1.388888893269381005e-3, 1.984126972337930505e-4,
               2.480150396905611503e-5, 2.755740245058765366e-6, 2.762654703082490572e-7,
               2.505578303082601361e-8});
}

V MathEmitter::expm1_poly(V r) { return fma(b.CreateFMul(r, r), exp_tail(r), r); }

/// x - n ln 2
V MathEmitter::reduce_exp(V x, V n) {
  V r = fma(n, pick(x, -0.693147182464599609375, -0.69314718055994528623), x);
  return fma(n, pick(x, 1.904654212125933554e-9, -2.319046813846299558e-17), r);
}

V MathEmitter::exp(V x) {
  x = clamp_below(clamp_above(x, pick(x, 89, 710)), pick(x, -104, -746));
  if (!host_.avx512) return exp_within(x);
  V n = unary(Intrinsic::roundeven, b.CreateFMul(x, number(x, kLog2E)));
  V q = expm1_poly(reduce_exp(x, n));
  return scale(b.CreateFAdd(q, number(x, 1)), n);
}

/// For x within the clamps of exp, where no instruction scales by powers of two. The whole number n
/// comes to lie in the low bits of `near`; 2^n is made in two steps, one of them 2^64 (2^512) or
/// its inverse, so that subnormal results are rounded once.
V MathEmitter::exp_within(V x) {
  const bool f32 = single(x);
  V magic = pick(x, 12582912.0, 6755399441055744.0);
  V near = fma(x, number(x, kLog2E), magic);
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
  V r = b.CreateFMul(b.CreateFSub(x, n), number(x, 0.69314718055994530942));
  return scale(b.CreateFAdd(expm1_poly(r), number(x, 1)), n);
}

/// For x within the clamps of expm1.
V MathEmitter::expm1_within(V x) {
  V n = unary(Intrinsic::roundeven, b.CreateFMul(x, number(x, kLog2E)));
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
    V p = poly(f,
               {0.3333327472209930420, -0.2500079572200775146, 0.2000431120395660400,
                -0.1662626713514328003, 0.1415046155452728271, -0.1308874189853668213,
                0.1303231716156005859, -8.114866912364959717e-2},
               {0});
    V y = b.CreateFMul(b.CreateFMul(ff, f), p);
    if (e) y = fma(e, number(f, -1.904654212125933554e-9), y);
    y = fma(ff, number(f, -0.5), y);
    V r = b.CreateFAdd(f, y);
    return e ? fma(e, number(f, 0.693147182464599609375), r) : r;
  }
  V s = b.CreateFDiv(f, b.CreateFAdd(f, number(f, 2)));
  V z = b.CreateFMul(s, s);
  V rest = poly(
      z, {0},
      {0.6666666666666734020, 0.3999999999941674100, 0.2857142874200940263, 0.2222219860560827043,
       0.1818356291723044193, 0.1531408045834265486, 0.1479570534548645955});
  V half = b.CreateFMul(ff, number(f, 0.5));
  V y = b.CreateFMul(s, fma(z, rest, half));
  if (e) y = fma(e, number(f, 2.319046813846299558e-17), y);
  V r = b.CreateFSub(f, b.CreateFSub(half, y));
  return e ? fma(e, number(f, 0.69314718055994528623), r) : r;
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
  if (p == Prim::Log2) return log_special(x, fma(r, number(x, kLog2E), s.e));
  r = b.CreateFMul(r, number(x, 0.4342944819032518167));
  r = fma(s.e, pick(x, -1.432098883924481925e-8, -2.803728127785170394e-18), r);
  return log_special(x, fma(s.e, pick(x, 0.3010300099849700928, 0.3010299956639811980), r));
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
  V k = pick(x, 2, 4);
  V inverse = b.CreateFDiv(number(x, 1), b.CreateFAdd(x, k));
  V q = b.CreateFMul(b.CreateFSub(x, k), inverse);
  // The residual (x - k) - q (x + k) mends the rounding of the quotient.
  V left = fma(b.CreateFAdd(q, number(x, 1)), b.CreateFNeg(k), x);
  q = fma(fma(b.CreateFNeg(q), x, left), inverse, q);
  V p = poly(q,
             {1.276978373527526855, -9.276400506496429443e-2, -0.1660309582948684692,
              0.1640558987855911255, -5.420715734362602234e-2, -8.063211105763912201e-3,
              8.637710474431514740e-3, 1.320555922575294971e-3, -1.233600545674562454e-3,
              -4.048697592224925756e-4},
             {1.232995118625552555,     -0.1396211168405628866,   1.537965210261438807e-2,
              6.809705425473597251e-2,  -0.1010390660361137199,   9.373283499687412590e-2,
              -6.633036581556649158e-2, 3.716751556056775013e-2,  -1.619773402194827835e-2,
              5.031969779169004342e-3,  -7.577735449580623971e-4, -1.992556667577283637e-4,
              1.506229321800615169e-4,  -2.440251434625353039e-5, -1.122621620572843944e-5,
              5.716234933531065082e-6,  3.030399801130299022e-7,  -8.326588219884263614e-7,
              6.184338508018379188e-8,  1.132594614634634341e-7,  -7.879357393038943003e-9,
              -1.293163959074627310e-8, -1.555949111112464405e-9});
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
  V series = poly(t, {1, 1, 3, 15, 105}, {1, 1, 3, 15, 105, 945, 10395});
  V far = b.CreateFMul(b.CreateFMul(inverse, number(x, 0.5641895835477562869)), series);
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
  static constexpr std::array<float, 8> kG[] = {
      {1.12837923F, 1.03350639F, 0.823294401F, 0.62072742F, 0.476767093F, 0.382518351F,
       0.318832099F, 0.273287117F},
      {-8.34080947e-06F, -0.174922675F, -0.222528055F, -0.174751639F, -0.115630239F, -0.076260075F,
       -0.0531286336F, -0.0390407704F},
      {-0.102585137F, -0.0596873835F, 0.0079075126F, 0.0318879224F, 0.0250143576F, 0.0149191516F,
       0.00883917138F, 0.00557658961F},
      {-0.00163212046F, 0.0242199767F, 0.0164762363F, 0.000848677009F, -0.00374162453F,
       -0.00270300661F, -0.00145608548F, -0.000796073407F},
      {0.0146872122F, 0.0019860738F, -0.00438947231F, -0.00257501611F, -7.93521322e-05F,
       0.000379275036F, 0.000221125636F, 0.000115206443F},
      {-0.0110907061F, -0.00190942723F, -0.000318434206F, 0.000664846506F, 0.000262232119F,
       -8.4905505e-06F, -3.09406496e-05F, -1.59974406e-05F},
      {0.00683406461F, 4.42886521e-05F, 0.000286013412F, -3.1267733e-05F, -8.5950458e-05F,
       -1.68133574e-05F, 2.59698063e-05F, -3.14014005e-06F}};
  constexpr double kScale = 1.9130102396011353, kMagic = 12582912;  // 1.5 * 2^23: no fractions
  V ax = clamp_above(unary(Intrinsic::fabs, x), number(x, 3.92));
  V magic = number(x, kMagic), scale = number(x, kScale);
  V shifted = fma(ax, scale, magic);
  V t = fma(ax, scale, b.CreateFSub(magic, shifted));
  V piece = bits(shifted);  // in the last three bits
  V g = entry_of(kG[6], piece);
  for (int k = 5; k >= 0; --k) g = fma(g, t, entry_of(kG[k], piece));
  return copysign(b.CreateFMul(ax, g), x);
}

/// |x| < 1: x + x P(x^2), 2^-56. Beyond: 1 - erfc(|x|).
V MathEmitter::erf(V x) {
  if (single(x)) return erf_single(x);
  V ax = unary(Intrinsic::fabs, x);
  V p = poly(b.CreateFMul(x, x), {},
             {0.1283791670955125586, -0.3761263890318345959, 0.1128379167094266805,
              -2.686617064293326737e-2, 5.223977604950821516e-3, -8.548325882447309516e-4,
              1.205529236641669961e-4, -1.492469177660154103e-5, 1.644690437186005725e-6,
              -1.620473300064474571e-7, 1.370470581236865947e-8, -7.768631603009701391e-10});
  V small = copysign(fma(ax, p, ax), x);  // keeps -0
  V rest = erfc_positive(clamp_above(ax, number(x, 6)));
  V large = copysign(b.CreateFSub(number(x, 1), rest), x);
  return b.CreateSelect(b.CreateFCmpOLT(ax, number(x, 1)), small, large);
}

MathEmitter::Angle MathEmitter::reduce_angle(V ax) {
  V n = unary(Intrinsic::roundeven, b.CreateFMul(ax, number(ax, kTwoOverPi)));
  V r = fma(n, pick(ax, -1.57079637050628662109375, -1.570796326794896558), ax);
  r = fma(n, pick(ax, 4.371138828673792887e-8, -6.123233995736766036e-17), r);
  r = fma(n, pick(ax, 1.715124510005881873e-15, 1.497384904859169833e-33), r);
  return {near_integer(n), r};
}

/// sin r = r + r^3 P(r^2): 2^-32 and 2^-62. cos r = 1 - r^2/2 + r^4 P(r^2): 2^-32 and 2^-68.
V MathEmitter::sine_or_cosine(Angle a, bool cosine) {
  V r = a.r, z = b.CreateFMul(r, r);
  V sp = poly(z,
              {-0.1666666716337203979, 8.333371020853519440e-3, -1.984946138691157103e-4,
               2.795422233248245902e-6},
              {-0.1666666666666666574, 8.333333333333100765e-3, -1.984126984105715873e-4,
               2.755731912932811412e-6, -2.505208599025586124e-8, 1.605625188011587823e-10,
               -7.485043807300307491e-13});
  V sine = fma(b.CreateFMul(r, z), sp, r);
  V cp = poly(z, {4.166664555668830872e-2, -1.388730015605688095e-3, 2.443051016598474234e-5},
              {4.166666666666666435e-2, -1.388888888888844706e-3, 2.480158730125945577e-5,
               -2.755731910076072625e-7, 2.087673179636246280e-9, -1.146801563471872691e-11,
               4.645512345593046458e-14});
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
