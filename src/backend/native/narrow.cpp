#include "backend/native/narrow.h"

#include <algorithm>

#include "backend/cpu/host_cpu.h"
#include "backend/native/narrow_kernel.h"
#include "backend/native/parallel.h"

namespace snug::native {
namespace {

constexpr std::int64_t kPerElement = 16;  // multiply-adds in the time of an element
constexpr std::int64_t kFewColumns = 64;
constexpr std::int64_t kRowUnit = 48, kColumnUnit = 192;  // whole tiles of all kinds

int vector_bits() {
  static const int bits = HostCpu::detect().vector_bits;
  return bits;
}

std::int64_t few_rows(const Gemm& g) { return 4 * vector_bits() / 8 / size_of(g.dtype); }

/// Pieces of columns of the first operand, or of rows of a wide second one, have to stay in the
/// first cache; else long ones read and write the results less often.
std::int64_t depth_of(const Gemm& g) {
  return g.n > kFewColumns && g.m > few_rows(g) && g.a_col == 1 ? 256 : 64;
}

/// Parts of sums: results so few that threads would have nothing else to share.
constexpr std::int64_t kFewResults = 4096, kPartTerms = 4096, kMostParts = 8;
std::int64_t part_count(const Gemm& g) {
  return g.m * g.n > kFewResults ? 1 : std::clamp<std::int64_t>(g.k / kPartTerms, 1, kMostParts);
}

template <class T>
NarrowProduct<T> product_of(const Gemm& g, bool add) {
  return {reinterpret_cast<const T*>(g.a),
          reinterpret_cast<const T*>(g.b),
          reinterpret_cast<T*>(g.c),
          g.m,
          g.n,
          g.k,
          g.a_row,
          g.a_col,
          g.b_row,
          g.c_row,
          add,
          depth_of(g)};
}

template <class T>
void on_this_thread(const NarrowProduct<T>& p) {
  vector_bits() >= 512 ? narrow_avx512(p) : narrow_avx2(p);
}

/// By rows, or by columns where they are more.
template <class T>
void share_results(const NarrowProduct<T>& p, int threads) {
  const bool by_rows = p.m >= p.n;
  const auto part = [&](int, std::int64_t begin, std::int64_t end) {
    NarrowProduct<T> each = p;
    (by_rows ? each.m : each.n) = end - begin;
    (by_rows ? each.a : each.b) += begin * (by_rows ? p.a_row : 1);
    each.c += begin * (by_rows ? p.c_row : 1);
    on_this_thread(each);
  };
  parallel_slots(by_rows ? p.m : p.n, p.m * p.n * p.k / kPerElement, threads, part,
                 by_rows ? kRowUnit : kColumnUnit);
}

template <class T>
void add_rows(const NarrowProduct<T>& p, const T* sums) {
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) p.c[i * p.c_row + j] += sums[i * p.n + j];
}

/// The first part goes to c, the others beside it, before they are added.
template <class T>
void share_terms(const NarrowProduct<T>& p, std::int64_t parts, int threads, T* room) {
  const std::int64_t results = p.m * p.n;
  const auto part = [&](std::int64_t number, T* sums) {
    const std::int64_t begin = p.k * number / parts, end = p.k * (number + 1) / parts;
    NarrowProduct<T> each = p;
    each.a += begin * p.a_col;
    each.b += begin * p.b_row;
    each.k = end - begin;
    if (number > 0) each.c = sums, each.c_row = p.n, each.add = false;
    on_this_thread(each);
  };
  if (!room) {
    T sums[kFewResults];
    for (std::int64_t number = 0; number < parts; ++number) {
      part(number, sums);
      if (number > 0) add_rows(p, sums);
    }
    return;
  }
  parallel_ranges(parts, results * p.k / kPerElement, threads, [&](auto begin, auto end) {
    for (; begin < end; ++begin) part(begin, room + (begin - 1) * results);
  });
  for (std::int64_t number = 1; number < parts; ++number)
    add_rows(p, room + (number - 1) * results);
}

template <class T>
void narrow_typed(const Gemm& g, int threads, bool accumulate, std::byte* workspace) {
  const NarrowProduct<T> p = product_of<T>(g, accumulate);
  const std::int64_t parts = part_count(g);
  if (parts == 1) return share_results(p, threads);
  share_terms(p, parts, threads, reinterpret_cast<T*>(workspace));
}

}  // namespace

bool narrow_takes(const Gemm& g) {
  if ((g.dtype != DType::F32 && g.dtype != DType::F64) || vector_bits() < 256) return false;
  if (g.b_col != 1 || (g.c_col != 1 && g.n > 1) || g.m < 2 || g.n < 4 || g.k < 1) return false;
  // Each group of rows reads the second operand again: from caches, if it or its strips are small.
  constexpr std::int64_t kSmall = 1 << 16;
  return g.n <= kFewColumns || g.m <= few_rows(g) || g.k * g.n <= kSmall;
}

std::uint64_t narrow_workspace(const Gemm& g) {
  return static_cast<std::uint64_t>((part_count(g) - 1) * g.m * g.n * size_of(g.dtype));
}

void narrow_gemm(const Gemm& g, int threads, bool accumulate, std::byte* workspace) {
  if (g.dtype == DType::F32)
    narrow_typed<float>(g, threads, accumulate, workspace);
  else
    narrow_typed<double>(g, threads, accumulate, workspace);
}

}  // namespace snug::native
