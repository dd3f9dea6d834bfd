// The C++ loops beside which benchmarks/core.py measures, compiled by it for this machine.
// 2 threads each, with the parts that the pool of Snug makes.
#include <immintrin.h>
#include <omp.h>

#include <cstdint>
#include <cstring>
#include <limits>

namespace {

constexpr int kThreads = 2;

/// Calls body(begin, end) on each thread; parts begin at multiples of 256.
template <class Body>
void in_parts(int64_t n, const Body& body) {
  int64_t units = (n + 255) / 256;
#pragma omp parallel for num_threads(kThreads) schedule(static, 1)
  for (int t = 0; t < kThreads; ++t) {
    int64_t begin = units * t / kThreads * 256, end = units * (t + 1) / kThreads * 256;
    body(begin, end < n ? end : n);
  }
}

// The polynomials of src/backend/cpu/emit_functions.cpp, by hand: minimax coefficients, the same
// order of roundings, the same care for NaN, infinities, zeros and subnormal numbers.
#ifdef __AVX512F__
constexpr const char* kVectors = "AVX-512";
constexpr int kLanes = 16;
using F = __m512;
using I = __m512i;
using Mask = __mmask16;

F all(float v) { return _mm512_set1_ps(v); }
I all_int(int v) { return _mm512_set1_epi32(v); }
F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
F mul(F a, F b) { return _mm512_mul_ps(a, b); }
F add(F a, F b) { return _mm512_add_ps(a, b); }
F sub(F a, F b) { return _mm512_sub_ps(a, b); }
F div(F a, F b) { return _mm512_div_ps(a, b); }
F at_most(F limit, F x) { return _mm512_min_ps(limit, x); }  // NaN stays
F at_least(F limit, F x) { return _mm512_max_ps(limit, x); }
F round_even(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT); }
F magnitude(F x) { return _mm512_abs_ps(x); }
I bits(F x) { return _mm512_castps_si512(x); }
F from_bits(I x) { return _mm512_castsi512_ps(x); }
F with_sign(F x, F sign) {
  return from_bits(_mm512_ternarylogic_epi32(all_int(0x7fffffff), bits(x), bits(sign), 0xca));
}
F scale(F y, F n) { return _mm512_scalef_ps(y, n); }
/// What log gives where r does not hold: by class of x, 4 bits each.
F mend_log(F x, F r) { return _mm512_fixupimm_ps(r, x, all_int(0x03530411), 0); }
/// x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
void split(F x, F& m, F& e) {
  m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  e = _mm512_getexp_ps(x);
  Mask large = _mm512_cmp_ps_mask(m, all(1.41421354f), _CMP_GE_OQ);
  m = _mm512_mask_mul_ps(m, large, m, all(0.5f));
  e = _mm512_mask_add_ps(e, large, e, all(1));
}
F load(const float* p) { return _mm512_loadu_ps(p); }
F load_first(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<Mask>((1u << count) - 1), p);
}
void store(float* p, F x) { _mm512_storeu_ps(p, x); }
void store_first(float* p, int64_t count, F x) {
  _mm512_mask_storeu_ps(p, static_cast<Mask>((1u << count) - 1), x);
}
#elif defined(__AVX2__) && defined(__FMA__)
constexpr const char* kVectors = "AVX2";
constexpr int kLanes = 8;
using F = __m256;
using I = __m256i;
using Mask = __m256;

F all(float v) { return _mm256_set1_ps(v); }
I all_int(int v) { return _mm256_set1_epi32(v); }
F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
F mul(F a, F b) { return _mm256_mul_ps(a, b); }
F add(F a, F b) { return _mm256_add_ps(a, b); }
F sub(F a, F b) { return _mm256_sub_ps(a, b); }
F div(F a, F b) { return _mm256_div_ps(a, b); }
F at_most(F limit, F x) { return _mm256_min_ps(limit, x); }  // NaN stays
F at_least(F limit, F x) { return _mm256_max_ps(limit, x); }
F round_even(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
I bits(F x) { return _mm256_castps_si256(x); }
F from_bits(I x) { return _mm256_castsi256_ps(x); }
F magnitude(F x) { return from_bits(_mm256_and_si256(bits(x), all_int(0x7fffffff))); }
I to_int(F x) { return _mm256_cvtps_epi32(x); }
I add(I a, I b) { return _mm256_add_epi32(a, b); }
template <int by>
I shift_left(I a) {
  return _mm256_slli_epi32(a, by);
}
F with_sign(F x, F sign) {
  return _mm256_blendv_ps(magnitude(x),
                          from_bits(_mm256_or_si256(bits(magnitude(x)), all_int(1 << 31))), sign);
}
Mask less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
F select(Mask m, F yes, F no) { return _mm256_blendv_ps(no, yes, m); }
F power_of_two(I n) { return from_bits(shift_left<23>(add(n, all_int(127)))); }
F scale(F y, F n) {  // in two steps, for subnormal results
  I i = to_int(n), half = _mm256_srai_epi32(i, 1);
  return mul(mul(y, power_of_two(half)), power_of_two(_mm256_sub_epi32(i, half)));
}
void split(F x, F& m, F& e) {
  Mask tiny = less(x, all(1.1754943508222875e-38f));
  I i = bits(select(tiny, mul(x, all(16777216.0f)), x));
  I exponent = _mm256_srai_epi32(_mm256_sub_epi32(i, all_int(0x3f3504f3)), 23);
  m = from_bits(_mm256_sub_epi32(i, shift_left<23>(exponent)));
  e = _mm256_cvtepi32_ps(exponent);
  e = select(tiny, sub(e, all(24)), e);
}
F mend_log(F x, F r) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  r = select(less(x, all(inf)), r, x);
  r = select(less(x, all(0)), all(std::numeric_limits<float>::quiet_NaN()), r);
  return select(_mm256_cmp_ps(x, all(0), _CMP_EQ_OQ), all(-inf), r);
}
I first(int64_t count) {
  return _mm256_cmpgt_epi32(all_int(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
F load(const float* p) { return _mm256_loadu_ps(p); }
F load_first(const float* p, int64_t count) { return _mm256_maskload_ps(p, first(count)); }
void store(float* p, F x) { _mm256_storeu_ps(p, x); }
void store_first(float* p, int64_t count, F x) { _mm256_maskstore_ps(p, first(count), x); }
#else
#define NO_VECTORS
constexpr const char* kVectors = "";
#endif

#ifndef NO_VECTORS
/// e^r - 1 for |r| <= ln(2) / 2
F expm1_reduced(F r) {
  F p = all(1.386548508889973164e-3f);
  p = fma(p, r, all(8.366725407540798187e-3f));
  p = fma(p, r, all(4.166749492287635803e-2f));
  p = fma(p, r, all(0.1666654199361801147f));
  p = fma(p, r, all(0.4999999701976776123f));
  return fma(mul(r, r), p, r);
}

/// x = n ln 2 + r
F reduce(F x, F& n) {
  n = round_even(mul(x, all(1.442695040888963387f)));
  F r = fma(n, all(-0.693147182464599609375f), x);
  return fma(n, all(1.904654212125933554e-9f), r);
}

F exp(F x) {
  F n, r = reduce(at_least(all(-104), at_most(all(89), x)), n);
  return scale(add(expm1_reduced(r), all(1)), n);
}

F log(F x) {
  F m, e;
  split(x, m, e);
  F f = sub(m, all(1)), ff = mul(f, f);
  F p = all(-8.114866912364959717e-2f);
  p = fma(p, f, all(0.1303231716156005859f));
  p = fma(p, f, all(-0.1308874189853668213f));
  p = fma(p, f, all(0.1415046155452728271f));
  p = fma(p, f, all(-0.1662626713514328003f));
  p = fma(p, f, all(0.2000431120395660400f));
  p = fma(p, f, all(-0.2500079572200775146f));
  p = fma(p, f, all(0.3333327472209930420f));
  F y = mul(mul(ff, f), p);
  y = fma(e, all(-1.904654212125933554e-9f), y);
  y = fma(ff, all(-0.5f), y);
  F r = fma(e, all(0.693147182464599609375f), add(f, y));
  return mend_log(x, r);
}

/// For 0 <= x <= 20 or NaN.
F expm1(F x) {
  F n, q = expm1_reduced(reduce(x, n));
  F half = scale(all(0.5f), n);
  F r = fma(half, q, sub(half, all(0.5f)));
  return add(r, r);
}

F tanh(F x) {
  F ax = at_most(all(10), magnitude(x));
  F t = expm1(add(ax, ax));
  return with_sign(div(t, add(t, all(2))), x);
}

inline __attribute__((always_inline)) F chain(F x, F y) {
  return tanh(fma(exp(x), all(0.5f), log(y)));
}
#endif

}  // namespace

extern "C" {

const char* vectors() { return kVectors; }

void copy(float* out, const float* a, int64_t n) {  // reads n, writes n
  in_parts(n, [=](int64_t begin, int64_t end) {
    memcpy(out + begin, a + begin, sizeof(float) * (end - begin));
  });
}

void times_row3(float* out, const float* a, const float* row, int64_t n) {
  in_parts(n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int j = 0; j < 3; ++j) out[i * 3 + j] = a[i * 3 + j] * row[j];
  });
}

void row_sums10(float* out, const float* a, int64_t n) {
  in_parts(n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double s = 0;
      for (int j = 0; j < 10; ++j) s += a[i * 10 + j];
      out[i] = static_cast<float>(s);
    }
  });
}

/// tanh(exp(x) * 0.5 + log(y))
void exp_log_tanh([[maybe_unused]] float* out, [[maybe_unused]] const float* x,
                  [[maybe_unused]] const float* y, [[maybe_unused]] int64_t n) {
#ifndef NO_VECTORS
  in_parts(n, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) store(out + i, chain(load(x + i), load(y + i)));
    if (i < end)
      store_first(out + i, end - i, chain(load_first(x + i, end - i), load_first(y + i, end - i)));
  });
#endif
}

/// table[index[i]] += rows[i], on one thread, as NumPy's add.at and Snug do for so few rows.
void add_rows100(float* table, const int32_t* index, const float* rows, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int j = 0; j < 100; ++j) table[index[i] * int64_t{100} + j] += rows[i * 100 + j];
}
}
