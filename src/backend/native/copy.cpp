#include "backend/native/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/native/nest.h"
#include "backend/native/parallel.h"
#include "base/elements.h"

namespace snug::native {
namespace {

constexpr std::int64_t kTile = 32;

/// The axis that `from` runs along fastest, if that is not the inner axis; else -1.
int transposed_axis(const Nest<2>& nest) {
  int best = -1;
  std::int64_t fastest = std::abs(nest.inner_stride(1));
  for (std::size_t axis = 0; axis + 1 < nest.rank(); ++axis) {
    const std::int64_t stride = std::abs(nest.stride(1, axis));
    if (stride != 0 && stride < fastest && nest.size(axis) >= 4) {
      fastest = stride;
      best = static_cast<int>(axis);
    }
  }
  return nest.inner() >= 4 ? best : -1;
}

/// Copies in square tiles over (axis, inner), so that neither side jumps from line to line.
template <class T>
void copy_transposed(const Nest<2>& nest, int axis, T* to, const T* from, int threads) {
  Dims outer_size, outer_to, outer_from;
  for (std::size_t a = 0; a + 1 < nest.rank(); ++a) {
    if (static_cast<int>(a) == axis) continue;
    outer_size.push_back(nest.size(a));
    outer_to.push_back(nest.stride(0, a));
    outer_from.push_back(nest.stride(1, a));
  }
  // One row of the outer nest is one strip of kTile steps along `axis`.
  const std::int64_t length = nest.size(axis), strips = (length + kTile - 1) / kTile;
  const std::int64_t st = nest.stride(0, axis), sf = nest.stride(1, axis);
  const std::int64_t it = nest.inner_stride(0), jf = nest.inner_stride(1), n = nest.inner();
  const std::int64_t outer = product(outer_size);
  const Position to_position(outer_size, outer_to), from_position(outer_size, outer_from);
  parallel_ranges(outer * strips, nest.elements(), threads, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t s = b; s < e; ++s) {
      const std::int64_t p0 = s % strips * kTile, p1 = std::min(p0 + kTile, length);
      T* const t = to + to_position(s / strips);
      const T* const f = from + from_position(s / strips);
      for (std::int64_t q0 = 0; q0 < n; q0 += kTile) {
        const std::int64_t q1 = std::min(q0 + kTile, n);
        for (std::int64_t p = p0; p < p1; ++p)
          for (std::int64_t q = q0; q < q1; ++q) t[p * st + q * it] = f[p * sf + q * jf];
      }
    }
  });
}

template <class T>
void copy_typed(const Nest<2>& nest, T* to, const T* from, int threads) {
  const std::int64_t n = nest.inner(), st = nest.inner_stride(0), sf = nest.inner_stride(1);
  if (st == 1 && sf == 1 && nest.rows() == 1) {
    copy_bytes(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
               n * static_cast<std::int64_t>(sizeof(T)), threads);
    return;
  }
  if (const int axis = transposed_axis(nest); axis >= 0)
    return copy_transposed(nest, axis, to, from, threads);
  auto run = [&](T* t, const T* f, std::int64_t count) {
    if (st == 1 && sf == 1) {
      if (count * sizeof(T) >= 64)
        std::memcpy(t, f, count * sizeof(T));
      else
        for (std::int64_t i = 0; i < count; ++i) t[i] = f[i];
    } else if (st == 1 && sf == 0) {
      std::fill_n(t, count, *f);
    } else if (st == 1) {
      for (std::int64_t i = 0; i < count; ++i) t[i] = f[i * sf];
    } else {
      for (std::int64_t i = 0; i < count; ++i) t[i * st] = f[i * sf];
    }
  };
  parallel_ranges(nest.elements(), nest.elements(), threads, [&](std::int64_t b, std::int64_t e) {
    nest.each_run(b, e, [&](std::int64_t, const auto& at, std::int64_t count) {
      run(to + at[0], from + at[1], count);
    });
  });
}

}  // namespace

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, int threads) {
  if (bytes == 0) return;
  parallel_ranges(bytes, bytes / 8, threads, [&](std::int64_t b, std::int64_t e) {
    std::memcpy(to + b, from + b, static_cast<std::size_t>(e - b));
  });
}

void copy(const ArgDesc& to, std::byte* to_data, const ArgDesc& from, const std::byte* from_data,
          int threads) {
  SNUG_CHECK(to.dtype == from.dtype && to.shape == from.shape, "copy: {} {} into {} {}",
             name_of(from.dtype), describe_shape(from.shape), name_of(to.dtype),
             describe_shape(to.shape));
  const Nest<2> nest(to.shape, {to.strides, from.strides});
  if (nest.elements() == 0) return;
  visit_bytes(size_of(to.dtype), [&](auto tag) {
    using T = decltype(tag);
    copy_typed(nest, reinterpret_cast<T*>(to_data), reinterpret_cast<const T*>(from_data), threads);
  });
}

}  // namespace snug::native
