// Products in tiles of our own: against sums in long double, and the same bits however they are
// cut.
#include "backend/native/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/host_cpu.h"
#include "backend/native/narrow_kernel.h"

namespace snug::native {
namespace {

template <class T>
std::vector<T> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> number(-1, 1);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& x : numbers) x = number(random);
  return numbers;
}

struct Sizes {
  std::int64_t m, n, k;
};

/// Operands with gaps between rows, where nothing may be written.
template <class T>
struct Case {
  static constexpr std::int64_t kGap = 3;
  Sizes size;
  bool a_turned;
  std::vector<T> a, b, c;

  Case(Sizes s, bool turned)
      : size(s),
        a_turned(turned),
        a(random_numbers<T>(s.m * s.k, 1)),
        b(random_numbers<T>(s.k * (s.n + kGap), 2)),
        c(random_numbers<T>(s.m * (s.n + kGap), 3)) {}

  Gemm gemm() {
    Gemm g;
    g.dtype = sizeof(T) == 4 ? DType::F32 : DType::F64;
    g.m = size.m, g.n = size.n, g.k = size.k;
    g.a = reinterpret_cast<std::byte*>(a.data());
    g.b = reinterpret_cast<std::byte*>(b.data());
    g.c = reinterpret_cast<std::byte*>(c.data());
    g.a_row = a_turned ? 1 : size.k, g.a_col = a_turned ? size.m : 1;
    g.b_row = g.c_row = size.n + kGap;
    g.b_col = g.c_col = 1;
    return g;
  }
  NarrowProduct<T> product(bool add) {
    const Gemm g = gemm();
    return {a.data(), b.data(), c.data(), g.m, g.n, g.k, g.a_row, g.a_col, g.b_row, g.c_row, add};
  }

  /// What c has to be within rounding, given what it was.
  void check(const std::vector<T>& before, bool add) const {
    const std::int64_t row = size.n + kGap;
    for (std::int64_t i = 0; i < size.m; ++i)
      for (std::int64_t j = 0; j < row; ++j) {
        const auto at = static_cast<std::size_t>(i * row + j);
        if (j >= size.n) {
          ASSERT_EQ(c[at], before[at]) << "written behind row " << i;
          continue;
        }
        long double sum = add ? before[at] : 0, of_sizes = std::fabs(sum);
        for (std::int64_t k = 0; k < size.k; ++k) {
          const long double x =
              a[static_cast<std::size_t>(a_turned ? k * size.m + i : i * size.k + k)];
          const long double y = b[static_cast<std::size_t>(k * row + j)];
          sum += x * y;
          of_sizes += std::fabs(x * y);
        }
        // Pieces of 64 terms or 256, and their sum.
        const long double terms = std::min<long double>(size.k, 256) + size.k / 64 + 2;
        ASSERT_LE(std::fabs(c[at] - sum), terms * std::numeric_limits<T>::epsilon() * of_sizes)
            << size.m << " x " << size.k << " x " << size.n << " at " << i << ", " << j;
      }
  }
};

template <class T>
using Kernel = void (*)(const NarrowProduct<T>&);

template <class T>
std::vector<Kernel<T>> kernels_of_this_cpu() {
  std::vector<Kernel<T>> found;
  const int bits = HostCpu::detect().vector_bits;
  if (bits >= 256) found.push_back(narrow_avx2);
  if (bits >= 512) found.push_back(narrow_avx512);
  return found;
}

template <class T>
class Narrow : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Narrow, Types);

TYPED_TEST(Narrow, AgreesWithExactSums) {
  using T = TypeParam;
  for (const Kernel<T> kernel : kernels_of_this_cpu<T>())
    for (std::int64_t m : {1, 3, 7, 16, 29})
      for (std::int64_t n : {1, 4, 15, 33, 64, 131})
        for (std::int64_t k : {1, 64, 150})
          for (const bool turned : {false, true}) {
            Case<T> x({m, n, k}, turned);
            const std::vector<T> before = x.c;
            const bool add = (m + n + k) % 2 == 1;
            kernel(x.product(add));
            x.check(before, add);
          }
}

TYPED_TEST(Narrow, HasTheSameBitsHoweverItIsCut) {
  using T = TypeParam;
  for (const Sizes size : {Sizes{300, 40, 70}, Sizes{20, 400, 70}, Sizes{7, 9, 20000},
                           Sizes{33, 20, 9000}, Sizes{200, 100, 280}}) {
    Case<T> x(size, false);
    const Gemm g = x.gemm();
    if (!narrow_takes(g)) continue;  // too many rows for the vectors of this CPU, or no AVX2
    const std::vector<T> before = x.c;
    for (const bool add : {false, true}) {
      x.c = before;
      narrow_gemm(g, 1, add, nullptr);
      const std::vector<T> alone = x.c;
      x.check(before, add);
      std::vector<std::byte> room(narrow_workspace(g));
      for (const int threads : {1, 2, 3}) {
        x.c = before;
        narrow_gemm(g, threads, add, room.empty() ? nullptr : room.data());
        EXPECT_EQ(x.c, alone) << threads << " threads";
      }
    }
  }
}

TEST(NarrowProducts, ThoseWithFewRowsOrColumnsAreTaken) {
  if (HostCpu::detect().vector_bits < 256) GTEST_SKIP() << "this CPU has no AVX2";
  const auto takes = [](Sizes size) { return narrow_takes(Case<float>(size, false).gemm()); };
  EXPECT_TRUE(takes({10000, 10, 32}));
  EXPECT_TRUE(takes({16, 1024, 256}));
  EXPECT_TRUE(takes({300, 128, 128}));
  EXPECT_FALSE(takes({300, 1000, 300}));
  EXPECT_FALSE(takes({1000, 1, 300})) << "a vector";
  Case<float> x({20, 30, 40}, false);
  Gemm turned = x.gemm();
  turned.b_row = 1, turned.b_col = 40;
  EXPECT_FALSE(narrow_takes(turned)) << "rows of the second operand are not packed";
}

}  // namespace
}  // namespace snug::native
