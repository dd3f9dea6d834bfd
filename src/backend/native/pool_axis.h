#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "expr/attrs.h"

namespace snug::native {

/// Of max_pool without its second output.
struct NoIndex {
  NoIndex() = default;
  explicit NoIndex(std::int64_t) {}
};

enum class PoolKind : std::uint8_t { Max, Unpool, Take, Average, AverageGrad };
enum class Divide : std::uint8_t { No, ByInside, ByPadded };

/// One axis: its size, the number of windows, and what a window is.
struct PoolAxis {
  std::int64_t size = 1, windows = 1, window = 1, stride = 1, low = 0, high = 0;

  /// The first cell of window k, as a place of the axis.
  std::int64_t start(std::int64_t k) const { return k * stride - low; }
  /// The cells of window k that lie inside: [first, last).
  std::int64_t first(std::int64_t k) const { return std::max<std::int64_t>(0, -start(k)); }
  std::int64_t last(std::int64_t k) const { return std::min(window, size - start(k)); }
  std::int64_t count(std::int64_t k, Divide divide) const {
    if (divide == Divide::No) return 1;
    if (divide == Divide::ByInside) return last(k) - first(k);
    return std::min(window, size + high - start(k));
  }
  /// Every place lies in exactly one window.
  bool tiles() const {
    return window == stride && low == 0 && high == 0 && windows * window == size;
  }
  /// The windows whose cell `cell` lies inside: [first, second).
  std::pair<std::int64_t, std::int64_t> meeting(std::int64_t cell) const {
    const std::int64_t offset = cell - low;
    const std::int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const std::int64_t end = offset >= size ? 0 : (size - 1 - offset) / stride + 1;
    return {std::min(begin, windows), std::clamp(end, std::min(begin, windows), windows)};
  }
};

inline Divide divide_of(const Attrs& attrs) {
  const std::string& mode = attrs.text("mode");
  return mode == "sum"               ? Divide::No
         : mode == "average_inc_pad" ? Divide::ByPadded
                                     : Divide::ByInside;
}

}  // namespace snug::native
