#include <immintrin.h>

#include <cstdint>

namespace snug::native {
namespace {

template <class T>
struct Simd;

/// 16 registers: 12 of them for sums, or fewer.
struct Avx2 {
  static constexpr int kVectors = 3, kFewVectors = 3;
  static constexpr int kRows[] = {10, 6, 4, 1};
};

template <>
struct Simd<float> : Avx2 {
  using V = __m256;
  using Mask = __m256i;
  static constexpr int kLanes = 8;
  static Mask mask(std::int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static V all(float x) { return _mm256_set1_ps(x); }
  static V load(const float* from) { return _mm256_loadu_ps(from); }
  static V load(const float* from, Mask m) { return _mm256_maskload_ps(from, m); }
  static void store(float* to, V v) { _mm256_storeu_ps(to, v); }
  static void store(float* to, V v, Mask m) { _mm256_maskstore_ps(to, m, v); }
  static V add(V x, V y) { return _mm256_add_ps(x, y); }
  static V fma(V x, V y, V z) { return _mm256_fmadd_ps(x, y, z); }
};

template <>
struct Simd<double> : Avx2 {
  using V = __m256d;
  using Mask = __m256i;
  static constexpr int kLanes = 4;
  static Mask mask(std::int64_t count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static V all(double x) { return _mm256_set1_pd(x); }
  static V load(const double* from) { return _mm256_loadu_pd(from); }
  static V load(const double* from, Mask m) { return _mm256_maskload_pd(from, m); }
  static void store(double* to, V v) { _mm256_storeu_pd(to, v); }
  static void store(double* to, V v, Mask m) { _mm256_maskstore_pd(to, m, v); }
  static V add(V x, V y) { return _mm256_add_pd(x, y); }
  static V fma(V x, V y, V z) { return _mm256_fmadd_pd(x, y, z); }
};

}  // namespace
}  // namespace snug::native

#include "backend/native/narrow_tiles.h"

namespace snug::native {

void narrow_avx2(const NarrowProduct<float>& p) { in_pieces(p); }
void narrow_avx2(const NarrowProduct<double>& p) { in_pieces(p); }

}  // namespace snug::native
