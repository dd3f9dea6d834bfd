#include <immintrin.h>

#include <cstdint>

namespace snug::native {
namespace {

template <class T>
struct Simd;

/// 32 registers: 24 of them for sums, or fewer.
struct Avx512 {
  static constexpr int kVectors = 3, kFewVectors = 4;
  static constexpr int kRows[] = {16, 12, 8, 6};
};

template <>
struct Simd<float> : Avx512 {
  using V = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;
  static Mask mask(std::int64_t count) { return static_cast<Mask>((1U << count) - 1); }
  static V all(float x) { return _mm512_set1_ps(x); }
  static V load(const float* from) { return _mm512_loadu_ps(from); }
  static V load(const float* from, Mask m) { return _mm512_maskz_loadu_ps(m, from); }
  static void store(float* to, V v) { _mm512_storeu_ps(to, v); }
  static void store(float* to, V v, Mask m) { _mm512_mask_storeu_ps(to, m, v); }
  static V add(V x, V y) { return _mm512_add_ps(x, y); }
  static V fma(V x, V y, V z) { return _mm512_fmadd_ps(x, y, z); }
};

template <>
struct Simd<double> : Avx512 {
  using V = __m512d;
  using Mask = __mmask8;
  static constexpr int kLanes = 8;
  static Mask mask(std::int64_t count) { return static_cast<Mask>((1U << count) - 1); }
  static V all(double x) { return _mm512_set1_pd(x); }
  static V load(const double* from) { return _mm512_loadu_pd(from); }
  static V load(const double* from, Mask m) { return _mm512_maskz_loadu_pd(m, from); }
  static void store(double* to, V v) { _mm512_storeu_pd(to, v); }
  static void store(double* to, V v, Mask m) { _mm512_mask_storeu_pd(to, m, v); }
  static V add(V x, V y) { return _mm512_add_pd(x, y); }
  static V fma(V x, V y, V z) { return _mm512_fmadd_pd(x, y, z); }
};

}  // namespace
}  // namespace snug::native

#include "backend/native/narrow_tiles.h"

namespace snug::native {

void narrow_avx512(const NarrowProduct<float>& p) { in_pieces(p); }
void narrow_avx512(const NarrowProduct<double>& p) { in_pieces(p); }

}  // namespace snug::native
