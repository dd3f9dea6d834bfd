#pragma once
// Products in tiles of a few rows and vectors that stay in registers. Included by one file per
// instruction set, which gives Simd<T>; nothing here is seen by the linker, and no other header is
// included, so that no inline function is compiled for a CPU that others do not have.
#include <cstdint>

#include "backend/native/narrow_kernel.h"

namespace snug::native {
namespace {

using Int = std::int64_t;

/// R rows and C vectors of c; of the last vector `last` elements if it is not whole.
template <class T, int R, int C, bool Whole>
[[gnu::noinline]] void tile(const NarrowProduct<T>& p, Int last) {
  using S = Simd<T>;
  const typename S::Mask mask = S::mask(last);
  const auto is_whole = [](int j) { return Whole || j + 1 < C; };
  typename S::V sum[R][C];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) sum[i][j] = S::all(0);
  const T *a = p.a, *b = p.b;
  for (Int k = 0; k < p.k; ++k, a += p.a_col, b += p.b_row) {
    typename S::V row[C];
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j)
      row[j] = is_whole(j) ? S::load(b + j * S::kLanes) : S::load(b + j * S::kLanes, mask);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const typename S::V x = S::all(a[i * p.a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) sum[i][j] = S::fma(x, row[j], sum[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) {
      T* const to = p.c + i * p.c_row + j * S::kLanes;
      if (p.add) sum[i][j] = S::add(is_whole(j) ? S::load(to) : S::load(to, mask), sum[i][j]);
      is_whole(j) ? S::store(to, sum[i][j]) : S::store(to, sum[i][j], mask);
    }
}

constexpr int fewer(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows > 2 ? 2 : 1; }

/// C vectors of all rows: R at a time, then fewer; two equal halves where they are enough.
template <class T, int R, int C>
void strip(NarrowProduct<T> p) {
  const Int last = p.n - (C - 1) * Simd<T>::kLanes;
  const auto in_halves = [](Int m) { return m > R && m <= 2 * fewer(R); };
  for (; p.m >= R && !in_halves(p.m); p.m -= R) {
    last == Simd<T>::kLanes ? tile<T, R, C, true>(p, last) : tile<T, R, C, false>(p, last);
    p.a += R * p.a_row;
    p.c += R * p.c_row;
  }
  if constexpr (R > 1)
    if (p.m > 0) strip<T, fewer(R), C>(p);
}

/// Strips of `p`, all of about the same width, of kVectors vectors at most (of kFewVectors where
/// they are few); strips of one vector have kRows[0] rows at a time, and so on.
template <class T>
void strips(NarrowProduct<T> p) {
  using S = Simd<T>;
  const Int n = p.n, vectors = (n + S::kLanes - 1) / S::kLanes;
  const Int widest = vectors <= 2 * S::kFewVectors ? S::kFewVectors : S::kVectors;
  Int done = 0;
  for (Int left = (vectors + widest - 1) / widest; left > 0; --left) {
    const Int wide = (vectors - done + left - 1) / left;
    NarrowProduct<T> part = p;
    part.b += done * S::kLanes;
    part.c += done * S::kLanes;
    done += wide;
    part.n = (done < vectors ? done * S::kLanes : n) - (part.b - p.b);
    switch (wide) {
      case 1: strip<T, S::kRows[0], 1>(part); break;
      case 2: strip<T, S::kRows[1], 2>(part); break;
      case 3: strip<T, S::kRows[2], 3>(part); break;
      default: strip<T, S::kRows[3], 4>(part);
    }
  }
}

template <class T>
void in_pieces(NarrowProduct<T> p) {
  const Int k = p.k;
  for (Int done = 0; done < k; done += p.depth) {
    p.k = k - done < p.depth ? k - done : p.depth;
    strips(p);
    p.a += p.depth * p.a_col;
    p.b += p.depth * p.b_row;
    p.add = true;
  }
}

}  // namespace
}  // namespace snug::native
