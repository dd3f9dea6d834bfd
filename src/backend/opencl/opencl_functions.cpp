// The functions of backend/cpu/emit_functions.cpp, and those that the CPU has from its C library.
#include "backend/opencl/opencl_functions.h"

#include "kernel/math_constants.h"

namespace snug {
namespace {

using namespace math;

constexpr OpenClHelper kFunctions[] = {
    {"exp", R"(static $T exp_$T($T x) {
  x = x > $(89.0, 710.0) ? $(89.0, 710.0) : x < $(-104.0, -746.0) ? $(-104.0, -746.0) : x;
  const $T shifted = fma(x, $log2_e, $no_fraction), n = shifted - $no_fraction;
  const $T r = fma(n, -$ln2_low, fma(n, -$ln2_high, x));
  const $T y = fma(fma($P(exp_tail, r), r, $(1.0)), r, $(1.0));
  const $T first = x < 0 ? $(0x1p64, 0x1p512) : $(0x1p-64, 0x1p-512);
  const $T second = x < 0 ? $(0x1p-64, 0x1p-512) : $(0x1p64, 0x1p512);
  return y * as_$T((as_$U(shifted) << $(23, 52)) + as_$U(first)) * second;
}
)"},
    // y 2^n, n in the last bits of `shifted`.
    {"scale", R"(static $T scale_$T($T y, $T shifted) {
  const $I n = as_$I(shifted) - as_$I($no_fraction), part = n >> 1;
  return y * as_$T(($U)(part + $(127, 1023)) << $(23, 52)) *
         as_$T(($U)(n - part + $(127, 1023)) << $(23, 52));
}
)"},
    {"exp2", R"(static $T exp2_$T($T x) {
  x = x > $(129.0, 1025.0) ? $(129.0, 1025.0) : x < $(-151.0, -1076.0) ? $(-151.0, -1076.0) : x;
  const $T shifted = x + $no_fraction, r = (x - (shifted - $no_fraction)) * $ln2;
  return $scale(fma(r * r, $P(exp_tail, r), r) + 1, shifted);
}
)"},
    // For x from -30 (-50) to 89 (710); halved, so that 2^n does not overflow before the result.
    {"expm1_within", R"(static $T expm1_within_$T($T x) {
  const $T shifted = fma(x, $log2_e, $no_fraction), n = shifted - $no_fraction;
  const $T r = fma(n, -$ln2_low, fma(n, -$ln2_high, x)), q = fma(r * r, $P(exp_tail, r), r);
  const $T power = as_$T((as_$U(shifted) << $(23, 52)) + as_$U($(0.5)));
  const $T y = fma(power, q, power - $(0.5));
  return y + y;
}
)"},
    {"expm1", R"(static $T expm1_$T($T x) {
  if (x == 0) return x;
  return $expm1_within(x > $(89.0, 710.0) ? $(89.0, 710.0) : x < $(-30.0, -50.0) ? $(-30.0, -50.0) : x);
}
)"},
    // x = m 2^e, m from sqrt(1/2) to sqrt(2); gives m.
    {"split", R"(static $T split_$T($T x, $T* e) {
  const int tiny = x < $(0x1p-126, 0x1p-1022);
  const $I bits = as_$I(tiny ? x * $(0x1p24, 0x1p54) : x);
  const $I k = (bits - $(0x3f3504f3, 0x3fe6a09e667f3bcd)) >> $(23, 52);
  *e = ($T)k - (tiny ? $(24.0, 54.0) : $(0.0));
  return as_$T(($U)bits - (($U)k << $(23, 52)));
}
)"},
    // e ln 2 + log(1 + f)
    {"log_reduced", R"(static $T log_reduced_$T($T f, $T e) {
  const $T ff = f * f;
  const $T y = fma(ff, $(-0.5), fma(e, $ln2_low, ff * f * $P(log_tail, f)));
  return fma(e, $ln2_high, f + y);
}
)",
     R"(static $T log_reduced_$T($T f, $T e) {
  const $T s = f / (f + 2), z = s * s, half_square = f * f * $(0.5);
  const $T y = fma(e, $ln2_low, s * fma(z, $P(log_tail, z), half_square));
  return fma(e, $ln2_high, f - (half_square - y));
}
)"},
    {"log_special", R"(static $T log_special_$T($T x, $T result) {
  return x == 0 ? -INFINITY : x < 0 ? NAN : x < INFINITY ? result : x;
}
)"},
    {"log", R"(static $T log_$T($T x) {
  $T e;
  const $T m = $split(x, &e);
  return $log_special(x, $log_reduced(m - 1, e));
}
)"},
    {"log2", R"(static $T log2_$T($T x) {
  $T e;
  const $T m = $split(x, &e);
  return $log_special(x, fma($log_reduced(m - 1, 0), $log2_e, e));
}
)"},
    {"log10", R"(static $T log10_$T($T x) {
  $T e;
  const $T m = $split(x, &e);
  const $T r = fma(e, $log10_of_2_low, $log_reduced(m - 1, 0) * $log10_e);
  return $log_special(x, fma(e, $log10_of_2_high, r));
}
)"},
    // 1 + x rounds to u; what u lost goes into the reduced argument.
    {"log1p_finite", R"(static $T log1p_finite_$T($T x) {
  const $T u = x + 1, lost = x - (u - 1);
  const $I k = (as_$I(u) - $(0x3f3504f3, 0x3fe6a09e667f3bcd)) >> $(23, 52);
  const $T m = as_$T(as_$U(u) - (($U)k << $(23, 52)));
  const $I few = k < 100 ? k : 100;
  const $T down = as_$T(($U)($(127, 1023) - few) << $(23, 52));
  return $log_reduced(fma(lost, down, m - 1), ($T)k);
}
)"},
    {"log1p", R"(static $T log1p_$T($T x) {
  if (x == 0 || !(x < INFINITY)) return x;
  return x > -1 ? $log1p_finite(x) : x == -1 ? -INFINITY : NAN;
}
)"},
    {"tanh", R"(static $T tanh_$T($T x) {
  const $T ax = fabs(x) > $(10.0, 22.0) ? $(10.0, 22.0) : fabs(x);
  const $T t = $expm1_within(ax + ax);
  return copysign(t / (t + 2), x);
}
)"},
    {"sigmoid", R"(static $T sigmoid_$T($T x) {
  const $T e = $exp(-fabs(x));
  return (x >= 0 ? 1 : e) / (e + 1);
}
)"},
    // A tiny e is its own logarithm.
    {"softplus", R"(static $T softplus_$T($T x) {
  const $T e = $exp(-fabs(x));
  return (x < 0 ? 0 : x) + (e < $(1e-9, 1e-18) ? e : $log1p_finite(e));
}
)"},
    // The residual (x - k) - q (x + k) mends the rounding of the quotient.
    {"erfcx_near", R"(static $T erfcx_near_$T($T x) {
  const $T k = $erfcx_centre, inverse = 1 / (x + k), rough = (x - k) * inverse;
  const $T left = fma(rough + 1, -k, x), q = fma(fma(-rough, x, left), inverse, rough);
  return $P(erfcx, q) / fma(x, $(2.0), $(1.0));
}
)"},
    // For x >= 0.
    {"erfc_positive", R"(static $T erfc_positive_$T($T x) {
  const $T h = x * x, low = fma(x, x, -h), r = $exp(-h) * $erfcx_near(x);
  return fma(-low, r, r);
}
)"},
    {"erfc", R"(static $T erfc_$T($T x) {
  const $T r = $erfc_positive(fabs(x) > $(10.6, 28.0) ? $(10.6, 28.0) : fabs(x));
  return x < 0 ? 2 - r : r;
}
)"},
    {"erfcx", R"(static $T erfcx_$T($T x) {
  const $T ax = fabs(x), h = x * x;
  $T y;
  if (ax > $(10.5, 28.0)) {
    const $T inverse = 1 / ax, t = inverse * inverse * $(-0.5);
    y = inverse * $one_over_root_pi * $P(erfcx_series, t);
  } else {
    y = $erfcx_near(ax);
  }
  if (!(x < 0)) return y;
  const $T e = $exp(h);
  if (!(e < INFINITY)) return e;
  const $T mended = fma(e, fma(x, x, -h), e);
  return mended + mended - y;
}
)"},
    {"erf", R"(__constant float erf_of_piece[7][8] = {$ERF_OF_PIECE};
static $T erf_$T($T x) {
  const $T ax = fabs(x) > $(3.92) ? $(3.92) : fabs(x);
  const $T shifted = fma(ax, $erf_pieces, $no_fraction);
  const $T t = fma(ax, $erf_pieces, $no_fraction - shifted);
  const int piece = as_$I(shifted) & 7;
  $T g = erf_of_piece[6][piece];
  for (int k = 5; k >= 0; --k) g = fma(g, t, erf_of_piece[k][piece]);
  return copysign(ax * g, x);
}
)",
     R"(static $T erf_$T($T x) {
  const $T ax = fabs(x), z = x * x;
  if (ax < 1) return fma(x, $P(erf, z), x);
  return copysign(1 - $erfc_positive(ax > 6 ? 6 : ax), x);
}
)"},
    // Of an angle far from 0: the bits of 2 / pi that decide the last quadrants, times the whole
    // number that its digits are.
    {"reduce_far", R"(__constant uint two_over_pi_$T[8] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1,
    0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
static $T reduce_far_$T($T ax, int* quadrant) {
  const uint bits = as_uint(ax);
  const int from = (int)(bits >> 23) - 120, word = from >> 5, shift = from & 31;
  const ulong digits = (bits & 0x7fffff) | 0x800000;
  ulong part[3];
  for (int k = 0; k < 3; ++k)
    part[k] = (((ulong)two_over_pi_$T[word + k] << 32 | two_over_pi_$T[word + k + 1]) << shift) >> 32;
  const ulong middle = digits * part[1] + (digits * part[2] >> 32);
  const ulong turns = (digits * part[0] + (middle >> 32)) << 32 | (middle & 0xffffffff);
  *quadrant = (int)((turns >> 62) + (turns >> 61 & 1));
  const int negative = turns >> 61 & 1;
  const ulong rest = negative ? -(turns << 2) : turns << 2;
  const $T high = (rest >> 40 << 40), low = (rest & 0xffffffffff);
  const $T r = fma(high, $(8.515304187176306e-20), fma(high, $(-2.3695991071419347e-27),
                                                      low * $(8.515304187176306e-20)));
  return negative ? -r : r;
}
)",
     R"(__constant ulong two_over_pi_$T[20] = {0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
    0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c,
    0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab};
static $T reduce_far_$T($T ax, int* quadrant) {
  const ulong bits = as_ulong(ax);
  const int from = (int)(bits >> 52) - 1013, word = from >> 6, shift = from & 63;
  const ulong digits = (bits & 0xfffffffffffff) | 0x10000000000000;
  ulong part[3];
  for (int k = 0; k < 3; ++k)
    part[k] = two_over_pi_$T[word + k] << shift |
              (shift ? two_over_pi_$T[word + k + 1] >> (64 - shift) : 0);
  const ulong carried = mul_hi(digits, part[2]);
  ulong below = digits * part[1] + carried;
  ulong turns = digits * part[0] + mul_hi(digits, part[1]) + (below < carried);
  *quadrant = (int)((turns >> 62) + (turns >> 61 & 1));
  const int negative = turns >> 61 & 1;
  if (negative) below = -below, turns = ~turns + (below == 0);
  const ulong rest = turns << 2;
  const $T high = (rest & ~0x7ffUL), low = fma(($T)(rest & 0x7ff), $(0x1p62), ($T)below);
  const $T r = fma(high, $(8.515303950216386e-20), fma(high, $(3.319411800407449e-36),
                                                      low * $(1.8464622084398007e-38)));
  return negative ? -r : r;
}
)"},
    // |x| = quadrant pi / 2 + r
    {"reduce_angle", R"(static $T reduce_angle_$T($T x, int* quadrant) {
  const $T ax = fabs(x);
  *quadrant = 0;
  if (!(ax < INFINITY)) return NAN;
  if (ax > $(1e5, 1e9)) return $reduce_far(ax, quadrant);
  const $T shifted = fma(ax, $two_over_pi, $no_fraction), n = shifted - $no_fraction;
  *quadrant = (int)(as_$U(shifted) & 3);
  return fma(n, -$half_pi_low, fma(n, -$half_pi_middle, fma(n, -$half_pi_high, ax)));
}
)"},
    {"sine", R"(static $T sine_$T(int quadrant, $T r) {
  const $T z = r * r;
  const $T y = quadrant & 1 ? fma(z * z, $P(cosine, z), fma(z, $(-0.5), $(1.0)))
                            : fma(r * z, $P(sine, z), r);
  return quadrant & 2 ? -y : y;
}
)"},
    {"sin", R"(static $T sin_$T($T x) {
  int quadrant;
  const $T r = $reduce_angle(x, &quadrant);
  return $sine(quadrant, r) * copysign($(1.0), x);
}
)"},
    {"cos", R"(static $T cos_$T($T x) {
  int quadrant;
  const $T r = $reduce_angle(x, &quadrant);
  return $sine(quadrant + 1, r);
}
)"},
    {"tan", R"(static $T tan_$T($T x) {
  int quadrant;
  const $T r = $reduce_angle(x, &quadrant);
  return $sine(quadrant, r) / $sine(quadrant + 1, r) * copysign($(1.0), x);
}
)"},
    // atan(a / b) of numbers that are not negative, and not both 0 or infinite; a + b is finite.
    {"arctangent", R"(static $T arctangent_$T($T a, $T b) {
  const int steep = a > b * $(2.4142135623730950488), middle = a > b * $(0.41421356237309504880);
  const $T t = (steep ? -b : middle ? a - b : a) / (steep ? a : middle ? a + b : b), z = t * t;
  const $T r = fma(t * z, $P(arctangent, z), t);
  return !middle ? r : $half_pi_high * (steep ? 1 : $(0.5)) +
                       fma($half_pi_middle, steep ? 1 : $(0.5), r);
}
)"},
    {"atan", R"(static $T atan_$T($T x) {
  return copysign($arctangent(fabs(x), 1), x);
}
)"},
    {"atan2", R"(static $T atan2_$T($T y, $T x) {
  if (isnan(x) || isnan(y)) return x + y;
  $T a = fabs(y), b = fabs(x);
  if (isinf(a) && isinf(b)) a = b = 1;
  if (a > $(0x1p125, 0x1p1021) || b > $(0x1p125, 0x1p1021)) a *= $(0.25), b *= $(0.25);
  $T r = a == 0 ? 0 : $arctangent(a, b);
  if (signbit(x)) r = 2 * $half_pi_high - (r - 2 * $half_pi_middle);
  return copysign(r, y);
}
)"},
    // asin(|x|) up to 1/2, beyond that of sqrt((1 - |x|) / 2).
    {"arcsine", R"(static $T arcsine_$T($T ax) {
  const $T z = ax > $(0.5) ? fma(ax, $(-0.5), $(0.5)) : ax * ax, s = ax > $(0.5) ? sqrt(z) : ax;
  return fma(s * z, $P(arcsine, z), s);
}
)"},
    {"asin", R"(static $T asin_$T($T x) {
  const $T ax = fabs(x), r = $arcsine(ax);
  return copysign(ax > $(0.5) ? $half_pi_high - fma($(2.0), r, -$half_pi_middle) : r, x);
}
)"},
    {"acos", R"(static $T acos_$T($T x) {
  const $T r = $arcsine(fabs(x));
  if (x > $(0.5)) return r + r;
  if (x < $(-0.5)) return 2 * $half_pi_high - 2 * (r - $half_pi_middle);
  return $half_pi_high - (copysign(r, x) - $half_pi_middle);
}
)"},
    {"sinh", R"(static $T sinh_$T($T x) {
  const $T ax = fabs(x), e = ax > $(88.0, 709.0) ? $exp($(0.5) * ax) : $expm1(ax);
  return copysign(ax > $(88.0, 709.0) ? $(0.5) * e * e : $(0.5) * (e + e / (e + 1)), x);
}
)"},
    {"cosh", R"(static $T cosh_$T($T x) {
  const $T ax = fabs(x), e = $exp(ax > $(88.0, 709.0) ? $(0.5) * ax : ax);
  return ax > $(88.0, 709.0) ? $(0.5) * e * e : fma($(0.5), e, $(0.5) / e);
}
)"},
    {"asinh", R"(static $T asinh_$T($T x) {
  const $T ax = fabs(x), xx = x * x;
  const $T y = ax > $(1e9, 1e17) ? $log(ax) + $ln2
                                 : $log1p(ax + xx / (1 + sqrt(xx + 1)));
  return copysign(y, x);
}
)"},
    {"acosh", R"(static $T acosh_$T($T x) {
  if (x < 1) return NAN;
  const $T t = x - 1;
  return x > $(1e9, 1e17) ? $log(x) + $ln2 : $log1p(t + sqrt(fma(t, t, t + t)));
}
)"},
    {"atanh", R"(static $T atanh_$T($T x) {
  const $T ax = fabs(x);
  return copysign($(0.5) * $log1p(2 * ax / (1 - ax)), x);
}
)"},
    // (h + l) (z + zl) + (c + cl), a sum whose first term is the larger one.
    {"pair_step", R"(static $T pair_step_$T($T h, $T* l, $T z, $T zl, $T c, $T cl) {
  const $T p = h * z, pl = fma(h, z, -p) + fma(h, zl, *l * z), r = c + p;
  *l = p - (r - c) + (pl + cl);
  return r;
}
)"},
    // log2(x) of a positive number, in two parts.
    {"log2_pair", R"(static $T log2_pair_$T($T x, $T* low) {
  $T e;
  const $T m = $split(x, &e), f = m - 1, d = f + 2, s = f / d;
  const $T sl = (fma(-s, d, f) - s * (f - (d - 2))) / d;
  const $T z = s * s, zl = fma(s, s, -z) + 2 * s * sl;
  $T l = 0, h = $P(log2_tail, z);
  h = $pair_step(h, &l, z, zl, $log2_term_2, $log2_term_2_low);
  h = $pair_step(h, &l, z, zl, $log2_term_1, $log2_term_1_low);
  h = $pair_step(h, &l, z, zl, $log2_term_0, $log2_term_0_low);
  *low = l;
  return $pair_step(h, low, s, sl, e, 0);
}
)"},
    {"pow", R"(static $T pow_$T($T x, $T y) {
  const $T ax = fabs(x);
  if (y == 0 || x == 1 || (ax == 1 && isinf(y))) return 1;
  $T l, p, r;
  const $T h = $log2_pair(ax, &l);
  p = y * (ax == 0 ? -INFINITY : ax < INFINITY ? h : ax);
  l = fabs(p) < $(200.0, 2000.0) ? fma(y, h, -p) + y * l : 0;
  p = p > $(129.0, 1025.0) ? $(129.0, 1025.0) : p < $(-151.0, -1076.0) ? $(-151.0, -1076.0) : p;
  const $T shifted = p + $no_fraction;
  r = ((p - (shifted - $no_fraction)) + l) * $ln2;
  r = $scale(fma(r * r, $P(exp_tail, r), r) + 1, shifted);
  const $T part = y * $(0.5);
  if (floor(y) == y) return floor(part) != part ? copysign(r, x) : r;
  return x < 0 && ax < INFINITY ? NAN : r;
}
)"},
    // Where the quotient is small, exact by one step; else digit by digit.
    {"fmod", R"(static $T fmod_$T($T x, $T y) {
  const $T ax = fabs(x), ay = fabs(y);
  if (!(ax < INFINITY) || !(ay > 0)) return NAN;
  if (ax < ay) return x;
  const $T q = trunc(ax / ay);
  $T r;
  if (q < $(4194304.0, 2251799813685248.0)) {
    r = fma(-q, ay, ax);
    if (r < 0) r += ay;
    if (r >= ay) r = fma(-(q + 1), ay, ax);
  } else {
    r = $fmod_far(ax, ay);
  }
  return copysign(r, x);
}
)"},
    {"fmod_far", R"(static $T fmod_far_$T($T x, $T y) {
  int ex = (int)(as_$U(x) >> $(23, 52)), ey = (int)(as_$U(y) >> $(23, 52));
  const ulong of_one = $(0x800000, 0x10000000000000);
  ulong mx = as_$U(x) & (of_one - 1), my = as_$U(y) & (of_one - 1);
  if (ex) mx |= of_one; else ex = 1;
  if (ey) my |= of_one; else ey = 1;
  for (mx %= my; ex > ey && mx;) {
    const int step = ex - ey < $(40, 11) ? ex - ey : $(40, 11);
    mx = (mx << step) % my;
    ex -= step;
  }
  if (!mx) return 0;
  for (; mx < of_one && ey > 1; --ey) mx <<= 1;
  return as_$T(($U)(mx < of_one ? mx : (ulong)ey << $(23, 52) | (mx & (of_one - 1))));
}
)"},
};

struct NamedPair {
  std::string_view name;
  Pair value;
};
constexpr NamedPair kPairs[] = {
    {"log2_e", kLog2E},
    {"log10_e", kLog10E},
    {"ln2", kLn2},
    {"ln2_high", kLn2High},
    {"ln2_low", kLn2Low},
    {"log10_of_2_high", kLog10Of2High},
    {"log10_of_2_low", kLog10Of2Low},
    {"two_over_pi", kTwoOverPi},
    {"half_pi_high", kHalfPiHigh},
    {"half_pi_middle", kHalfPiMiddle},
    {"half_pi_low", kHalfPiLow},
    {"one_over_root_pi", kOneOverRootPi},
    {"no_fraction", kNoFraction},
    {"erfcx_centre", kErfcxCentre},
    {"erf_pieces", {kErfPieces, kErfPieces}},
    {"log2_term_0", kLog2Term[0]},
    {"log2_term_1", kLog2Term[1]},
    {"log2_term_2", kLog2Term[2]},
    {"log2_term_0_low", kLog2TermLow[0]},
    {"log2_term_1_low", kLog2TermLow[1]},
    {"log2_term_2_low", kLog2TermLow[2]},
};

struct NamedPolynomial {
  std::string_view name;
  const Polynomial* value;
};
constexpr NamedPolynomial kPolynomials[] = {
    {"exp_tail", &kExpTail},
    {"log_tail", &kLogTail},
    {"erfcx", &kErfcx},
    {"erfcx_series", &kErfcxSeries},
    {"erf", &kErf},
    {"sine", &kSine},
    {"cosine", &kCosine},
    {"arcsine", &kArcsine},
    {"arctangent", &kArctangent},
    {"log2_tail", &kLog2Tail},
};

template <class Row>
const Row* find(std::span<const Row> rows, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

const OpenClHelper* find_opencl_function(std::string_view name) {
  const OpenClHelper* found = find<OpenClHelper>(kFunctions, name);
  return found ? found : find(special_opencl_functions(), name);
}
const math::Pair* find_math_constant(std::string_view name) {
  const NamedPair* found = find<NamedPair>(kPairs, name);
  return found ? &found->value : nullptr;
}
const math::Polynomial* find_math_polynomial(std::string_view name) {
  const NamedPolynomial* found = find<NamedPolynomial>(kPolynomials, name);
  return found ? found->value : nullptr;
}

}  // namespace snug
