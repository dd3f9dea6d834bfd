#include "backend/native/convert.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/native/parallel.h"
#include "base/elements.h"

namespace snug::native {
namespace {

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) std::int64_t widen_f16c(const Half* from, float* to,
                                                            std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  return i;
}
__attribute__((target("avx,f16c"))) std::int64_t narrow_f16c(const float* from, Half* to,
                                                             std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
const bool has_f16c = __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx");
std::int64_t widen_fast(const Half* from, float* to, std::int64_t count) {
  return has_f16c ? widen_f16c(from, to, count) : 0;
}
std::int64_t narrow_fast(const float* from, Half* to, std::int64_t count) {
  return has_f16c ? narrow_f16c(from, to, count) : 0;
}
#else
std::int64_t widen_fast(const Half*, float*, std::int64_t) { return 0; }
std::int64_t narrow_fast(const float*, Half*, std::int64_t) { return 0; }
#endif

void widen_range(const Half* from, float* to, std::int64_t count) {
  for (std::int64_t i = widen_fast(from, to, count); i < count; ++i)
    to[i] = Element<Half>::load(from[i]);
}
void narrow_range(const float* from, Half* to, std::int64_t count) {
  for (std::int64_t i = narrow_fast(from, to, count); i < count; ++i)
    to[i] = Element<Half>::store(from[i]);
}
void widen_range(const BFloat* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Element<BFloat>::load(from[i]);
}
void narrow_range(const float* from, BFloat* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Element<BFloat>::store(from[i]);
}

template <class F>
void with_type(DType dtype, F&& f) {
  SNUG_CHECK(dtype == DType::F16 || dtype == DType::BF16, "no 16-bit float: {}", name_of(dtype));
  if (dtype == DType::F16)
    f(Half{});
  else
    f(BFloat{});
}

}  // namespace

void widen(DType dtype, const std::byte* from, float* to, std::int64_t count, int threads) {
  with_type(dtype, [&](auto tag) {
    const auto* source = reinterpret_cast<const decltype(tag)*>(from);
    parallel_ranges(count, count, threads, [&](std::int64_t b, std::int64_t e) {
      widen_range(source + b, to + b, e - b);
    });
  });
}

void narrow(DType dtype, const float* from, std::byte* to, std::int64_t count, int threads) {
  with_type(dtype, [&](auto tag) {
    auto* target = reinterpret_cast<decltype(tag)*>(to);
    parallel_ranges(count, count, threads, [&](std::int64_t b, std::int64_t e) {
      narrow_range(from + b, target + b, e - b);
    });
  });
}

}  // namespace snug::native
