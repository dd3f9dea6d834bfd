#pragma once
#include <algorithm>
#include <utility>

#include "backend/native/conv_loops.h"

namespace snug::native {

/// The output columns [first, last) whose window offset kx lies inside the image.
inline std::pair<std::int64_t, std::int64_t> inside(std::int64_t offset, std::int64_t stride,
                                                    std::int64_t size, std::int64_t count) {
  const std::int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const std::int64_t last = offset >= size ? 0 : (size - 1 - offset) / stride + 1;
  return {std::min(first, count), std::clamp(last, std::min(first, count), count)};
}

/// Where a tap of the window lies, from the first element that the window of output 0 would have.
struct Offset {
  std::int64_t z, y, x;
  Offset(const ConvShape& s, std::int64_t tap)
      : z(tap / s.kw / s.kh * s.dd - s.front),
        y(tap / s.kw % s.kh * s.dh - s.top),
        x(tap % s.kw * s.dw - s.left) {}
  /// The first element of x that row `row` of y meets; less than 0 if it lies outside.
  std::int64_t line(const ConvShape& s, std::int64_t row) const {
    const std::int64_t iz = row / s.oh * s.sd + z, iy = row % s.oh * s.sh + y;
    if (iz < 0 || iz >= s.d || iy < 0 || iy >= s.h) return -1;
    return (iz * s.h + iy) * s.w;
  }
};

/// columns (group_in * taps, elements of the lines of y): per stored tap, the elements of x that
/// lines [from, to) of y meet there.
template <class T>
void unfold(const ConvShape& s, const T* x, T* columns, std::int64_t from, std::int64_t to,
            int threads) {
  const std::int64_t rows = s.group_in() * s.taps(), part = (to - from) * s.ow;
  parallel_ranges(rows, rows * part, threads, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const Offset tap(s, stored_tap(s, row % s.taps()));
      const T* const image = x + row / s.taps() * s.image();
      const auto [first, last] = inside(tap.x, s.sw, s.w, s.ow);
      for (std::int64_t oy = from; oy < to; ++oy) {
        T* const out = columns + row * part + (oy - from) * s.ow;
        const std::int64_t line = tap.line(s, oy);
        if (line < 0) {
          std::fill_n(out, s.ow, T{});
          continue;
        }
        const T* const in = image + line + tap.x;
        std::fill_n(out, first, T{});
        for (std::int64_t ox = first; ox < last; ++ox) out[ox] = in[ox * s.sw];
        std::fill_n(out + last, s.ow - last, T{});
      }
    }
  });
}

/// Adds columns back onto the places of x they came from.
template <class T>
void fold(const ConvShape& s, const T* columns, T* x, int threads) {
  const std::int64_t plane = s.plane();
  const std::int64_t work = s.group_in() * s.taps() * plane;
  parallel_ranges(s.group_in(), work, threads, [&](std::int64_t c, std::int64_t end) {
    for (; c < end; ++c) {
      T* const image = x + c * s.image();
      std::fill_n(image, s.image(), T{});
      for (std::int64_t k = 0; k < s.taps(); ++k) {
        const Offset tap(s, stored_tap(s, k));
        const auto [first, last] = inside(tap.x, s.sw, s.w, s.ow);
        for (std::int64_t oy = 0; oy < s.od * s.oh; ++oy) {
          const std::int64_t line = tap.line(s, oy);
          if (line < 0) continue;
          const T* const in = columns + (c * s.taps() + k) * plane + oy * s.ow;
          T* const out = image + line + tap.x;
          for (std::int64_t ox = first; ox < last; ++ox) out[ox * s.sw] += in[ox];
        }
      }
    }
  });
}

}  // namespace snug::native
