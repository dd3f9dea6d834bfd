#pragma once
#include <array>
#include <cstdint>

#include "base/inline_vec.h"

namespace snug::native {

/// A loop nest over N strided operands of one shape: axes of size 1 dropped, axes merged where all
/// operands allow it. The last axis is the inner loop; the others together are counted as rows.
template <std::size_t N>
class Nest {
 public:
  Nest(const Dims& shape, const std::array<Dims, N>& strides) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::int64_t n = shape[axis];
      if (n == 1) continue;
      bool merge = !size_.empty();
      for (std::size_t i = 0; merge && i < N; ++i)
        merge = stride_[i].back() == strides[i][axis] * n;
      if (merge) {
        size_.back() *= n;
        for (std::size_t i = 0; i < N; ++i) stride_[i].back() = strides[i][axis];
      } else {
        size_.push_back(n);
        for (std::size_t i = 0; i < N; ++i) stride_[i].push_back(strides[i][axis]);
      }
    }
    if (size_.empty()) {
      size_.push_back(1);
      for (std::size_t i = 0; i < N; ++i) stride_[i].push_back(1);
    }
  }

  std::size_t rank() const { return size_.size(); }
  std::int64_t size(std::size_t axis) const { return size_[axis]; }
  std::int64_t stride(std::size_t operand, std::size_t axis) const {
    return stride_[operand][axis];
  }
  std::int64_t inner() const { return size_.back(); }
  std::int64_t inner_stride(std::size_t operand) const { return stride_[operand].back(); }
  std::int64_t rows() const { return product(size_) == 0 ? 0 : product(size_) / inner(); }
  std::int64_t elements() const { return product(size_); }

  /// Calls f(row, offsets) for the rows in [begin, end), offsets in elements per operand.
  template <class F>
  void each_row(std::int64_t begin, std::int64_t end, F&& f) const {
    if (begin >= end) return;
    const std::size_t outer = rank() - 1;
    Dims at(outer, 0);
    std::array<std::int64_t, N> offset{};
    std::int64_t rest = begin;
    for (std::size_t axis = outer; axis-- > 0;) {
      at[axis] = rest % size_[axis];
      rest /= size_[axis];
      for (std::size_t i = 0; i < N; ++i) offset[i] += at[axis] * stride_[i][axis];
    }
    for (std::int64_t row = begin;;) {
      f(row, static_cast<const std::array<std::int64_t, N>&>(offset));
      if (++row == end) return;
      for (std::size_t axis = outer; axis-- > 0;) {
        for (std::size_t i = 0; i < N; ++i) offset[i] += stride_[i][axis];
        if (++at[axis] < size_[axis]) break;
        at[axis] = 0;
        for (std::size_t i = 0; i < N; ++i) offset[i] -= stride_[i][axis] * size_[axis];
      }
    }
  }

  /// Calls f(element, offsets, count) for the elements in [begin, end) in C order, cut where the
  /// inner axis ends: `count` elements from number `element` on, at the inner strides.
  template <class F>
  void each_run(std::int64_t begin, std::int64_t end, F&& f) const {
    if (begin >= end) return;
    const std::int64_t n = inner();
    each_row(begin / n, (end + n - 1) / n, [&](std::int64_t row, std::array<std::int64_t, N> at) {
      const std::int64_t first = begin > row * n ? begin - row * n : 0;
      const std::int64_t last = end < (row + 1) * n ? end - row * n : n;
      for (std::size_t i = 0; i < N; ++i) at[i] += first * inner_stride(i);
      f(row * n + first, static_cast<const std::array<std::int64_t, N>&>(at), last - first);
    });
  }

 private:
  Dims size_;
  std::array<Dims, N> stride_;
};

/// The offset of element `flat` (in C order) of a strided array.
class Position {
 public:
  Position(const Dims& shape, const Dims& strides) : nest_(shape, {strides}) {}
  std::int64_t operator()(std::int64_t flat) const {
    if (nest_.rank() == 1) return flat * nest_.inner_stride(0);
    std::int64_t offset = 0;
    for (std::size_t axis = nest_.rank(); axis-- > 0;) {
      offset += flat % nest_.size(axis) * nest_.stride(0, axis);
      flat /= nest_.size(axis);
    }
    return offset;
  }

 private:
  Nest<1> nest_;
};

}  // namespace snug::native
