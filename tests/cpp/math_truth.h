#pragma once
// What the math functions of all devices are compared with, and where.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "expr/scalar.h"

namespace snug::test {

using Wide = long double;

struct Function {
  Prim prim;
  Wide (*exact)(Wide);
};

inline Wide sigmoid(Wide x) {
  Wide e = expl(-fabsl(x));
  return x >= 0 ? 1 / (1 + e) : x < 0 ? e / (1 + e) : x;
}
inline Wide erfcx(Wide x) {
  if (x < -200) return HUGE_VALL;
  if (x < 100) return expl(x * x) * erfcl(x) * (1 + fmal(x, x, -x * x));
  Wide t = 1 / (2 * x * x);
  return 1 / (x * sqrtl(M_PIl)) * (1 - t * (1 - 3 * t * (1 - 5 * t * (1 - 7 * t))));
}
inline Wide softplus(Wide x) { return x != x ? x : fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }

inline const Function kFunctions[] = {
    {Prim::Exp, expl},          {Prim::Expm1, expm1l}, {Prim::Exp2, exp2l},
    {Prim::Log, logl},          {Prim::Log1p, log1pl}, {Prim::Log2, log2l},
    {Prim::Log10, log10l},      {Prim::Tanh, tanhl},   {Prim::Sigmoid, sigmoid},
    {Prim::Softplus, softplus}, {Prim::Erf, erfl},     {Prim::Erfc, erfcl},
    {Prim::Sin, sinl},          {Prim::Cos, cosl},     {Prim::Tan, tanl},
    {Prim::Asin, asinl},        {Prim::Acos, acosl},   {Prim::Atan, atanl},
    {Prim::Sinh, sinhl},        {Prim::Cosh, coshl},   {Prim::Asinh, asinhl},
    {Prim::Acosh, acoshl},      {Prim::Atanh, atanhl}, {Prim::Sqrt, sqrtl},
    {Prim::Erfcx, erfcx},
};

/// The distance of a result from the exact value, in ULPs of T at that value.
template <class T>
double ulps(T got, Wide exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : 1e9;
  constexpr int digits = std::numeric_limits<T>::digits;
  constexpr int least = std::numeric_limits<T>::min_exponent - digits;
  if (std::isinf(exact)) return got == static_cast<T>(exact) ? 0 : 1e9;
  int exponent = exact == 0 ? -100000 : static_cast<int>(ilogbl(exact)) + 1 - digits;
  Wide unit = ldexpl(1, std::max(exponent, least));
  // Infinity stands for the number after the largest.
  Wide value = std::isinf(got) ? copysignl(ldexpl(1, std::numeric_limits<T>::max_exponent), got)
                               : static_cast<Wide>(got);
  Wide bound = ldexpl(1, std::numeric_limits<T>::max_exponent);
  if (fabsl(exact) > bound) exact = copysignl(bound, exact);
  return static_cast<double>(fabsl(value - exact) / unit);
}

template <class T>
std::vector<T> samples() {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<T> x;
  // All exponents, both signs.
  Bits step = sizeof(T) == 4 ? Bits{30011} : static_cast<Bits>(0x0000b504f333f9deULL) * 4;
  for (Bits b = 0, previous = 0; b >= previous; previous = b, b += step)
    x.push_back(std::bit_cast<T>(b));
  // Where most arguments are, and near the zeros and limits of the functions.
  std::mt19937_64 rng(3);
  for (double width : {1.0, 10.0, 100.0, 800.0}) {
    std::uniform_real_distribution<double> real(-width, width);
    for (int i = 0; i < 30000; ++i) x.push_back(static_cast<T>(real(rng)));
  }
  for (double center : {1.0, -1.0, 0.5, 1.5707963267948966, 3.141592653589793, 88.7228, -87.3365,
                        -103.97, 709.78, -745.13, 0.9, 4.0, 9.2, 27.2, 1e5, 1e9}) {
    T v = static_cast<T>(center), low = v, high = v;
    for (int i = 0; i < 300; ++i) {
      x.push_back(low = std::nextafter(low, static_cast<T>(-HUGE_VAL)));
      x.push_back(high = std::nextafter(high, static_cast<T>(HUGE_VAL)));
    }
    x.push_back(v);
  }
  using L = std::numeric_limits<T>;
  for (T v : {T(0), -T(0), L::infinity(), -L::infinity(), L::quiet_NaN(), L::max(), L::lowest(),
              L::min(), L::denorm_min(), -L::denorm_min()})
    x.push_back(v);
  return x;
}

template <class T>
std::pair<std::vector<T>, std::vector<T>> binary_samples() {
  std::vector<T> specials, x, y;
  using L = std::numeric_limits<T>;
  for (T v : {T(0), T(1), T(2), T(3), T(0.5), T(1e10), T(7.25), L::infinity(), L::max(), L::min(),
              L::denorm_min(), T(16777217), T(4503599627370497)}) {
    specials.push_back(v);
    specials.push_back(-v);
  }
  specials.push_back(L::quiet_NaN());
  for (T a : specials)
    for (T c : specials) x.push_back(a), y.push_back(c);
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> base(0, 4), exponent(-60, 60), plain(-50, 50);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(static_cast<T>(i % 2 ? base(rng) : plain(rng)));
    y.push_back(static_cast<T>(i % 3 ? exponent(rng) : std::round(exponent(rng))));
  }
  return {x, y};
}

/// NumPy's remainder, in the type itself: exact before the sign is mended.
template <class T>
Wide remainder_of(Wide a, Wide b) {
  T x = static_cast<T>(a), y = static_cast<T>(b);
  T r = std::fmod(x, y);
  if (r == 0) return std::copysign(T(0), y);
  return (r < 0) != (y < 0) ? static_cast<T>(r + y) : r;
}

}  // namespace snug::test
