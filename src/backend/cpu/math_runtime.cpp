#include "backend/cpu/math_runtime.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/special.h"

namespace snug {

namespace {

template <class T>
using Unary = T (*)(T);
template <class T>
using Binary = T (*)(T, T);

template <class T, Unary<T> F>
void map1(T* out, const T* a, std::uint64_t mask, std::int32_t lanes) {
  for (std::int32_t i = 0; i < lanes; ++i)
    if (mask >> i & 1) out[i] = F(a[i]);
}

template <class T, Binary<T> F>
void map2(T* out, const T* a, const T* b, std::uint64_t mask, std::int32_t lanes) {
  for (std::int32_t i = 0; i < lanes; ++i)
    if (mask >> i & 1) out[i] = F(a[i], b[i]);
}

// The extended format of x86 has 11 more bits, so rounding its results once gives float64 to
// barely more than half an ULP.
using Wide = long double;
template <Wide (*F)(Wide)>
double narrow1(double x) {
  return static_cast<double>(F(x));
}
template <Wide (*F)(Wide, Wide)>
double narrow2(double x, double y) {
  return static_cast<double>(F(x, y));
}

Wide sigmoidl(Wide x) {
  Wide e = expl(-fabsl(x));
  return x >= 0 ? 1 / (1 + e) : x < 0 ? e / (1 + e) : x;
}
Wide softplusl(Wide x) { return x != x ? x : fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }

/// The special functions on float32, rounded once.
template <Unary<double> F>
float in_double1(float x) {
  return static_cast<float>(F(x));
}
template <Binary<double> F>
float in_double2(float x, float y) {
  return static_cast<float>(F(x, y));
}

/// The C library's float32 form is accurate but for negative arguments.
float gammaln_single(float x) {
  int sign;
  return x > 0 ? ::lgammaf_r(x, &sign) : static_cast<float>(special::gammaln(x));
}

template <class F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

// A function of the C library under its three names; the float32 and float64 forms back up the
// vector code for arguments it does not cover.
#define SNUG_UNARY(name)                                             \
  {"snug_f32_" #name, address_of(map1<float, name##f>)},             \
      {"snug_f64_" #name, address_of(map1<double, name>)}, {         \
    "snug_strict_" #name, address_of(map1<double, narrow1<name##l>>) \
  }
#define SNUG_BINARY(name)                                            \
  {"snug_f32_" #name, address_of(map2<float, name##f>)},             \
      {"snug_f64_" #name, address_of(map2<double, name>)}, {         \
    "snug_strict_" #name, address_of(map2<double, narrow2<name##l>>) \
  }
#define SNUG_SPECIAL(name, map, in_double)                                 \
  {"snug_f32_" #name, address_of(map<float, in_double<special::name>>)}, { \
    "snug_f64_" #name, address_of(map<double, special::name>)              \
  }

}  // namespace

std::span<const RuntimeSymbol> runtime_symbols() {
  static const std::vector<RuntimeSymbol> symbols = {
      SNUG_UNARY(exp),
      SNUG_UNARY(expm1),
      SNUG_UNARY(exp2),
      SNUG_UNARY(log),
      SNUG_UNARY(log1p),
      SNUG_UNARY(log2),
      SNUG_UNARY(log10),
      SNUG_UNARY(tanh),
      SNUG_UNARY(erf),
      SNUG_UNARY(erfc),
      SNUG_UNARY(sin),
      SNUG_UNARY(cos),
      SNUG_UNARY(tan),
      SNUG_UNARY(asin),
      SNUG_UNARY(acos),
      SNUG_UNARY(atan),
      SNUG_UNARY(sinh),
      SNUG_UNARY(cosh),
      SNUG_UNARY(asinh),
      SNUG_UNARY(acosh),
      SNUG_UNARY(atanh),
      SNUG_BINARY(pow),
      SNUG_BINARY(atan2),
      SNUG_BINARY(fmod),
      SNUG_SPECIAL(gamma, map1, in_double1),
      {"snug_f32_gammaln", address_of(map1<float, gammaln_single>)},
      {"snug_f64_gammaln", address_of(map1<double, special::gammaln>)},
      SNUG_SPECIAL(digamma, map1, in_double1),
      SNUG_SPECIAL(trigamma, map1, in_double1),
      SNUG_SPECIAL(erfinv, map1, in_double1),
      SNUG_SPECIAL(erfcinv, map1, in_double1),
      SNUG_SPECIAL(j0, map1, in_double1),
      SNUG_SPECIAL(j1, map1, in_double1),
      SNUG_SPECIAL(i0, map1, in_double1),
      SNUG_SPECIAL(i1, map1, in_double1),
      SNUG_SPECIAL(polygamma, map2, in_double2),
      SNUG_SPECIAL(gammainc, map2, in_double2),
      SNUG_SPECIAL(gammaincc, map2, in_double2),
      SNUG_SPECIAL(jv, map2, in_double2),
      SNUG_SPECIAL(iv, map2, in_double2),
      SNUG_SPECIAL(betaln, map2, in_double2),
      {"snug_strict_erfcx", address_of(map1<double, special::erfcx>)},
      {"snug_strict_sigmoid", address_of(map1<double, narrow1<sigmoidl>>)},
      {"snug_strict_softplus", address_of(map1<double, narrow1<softplusl>>)},
  };
  return symbols;
}

}  // namespace snug
