#pragma once
#include "base/array.h"

namespace snug {

/// The lines of an array in C order along one of its first `ndim` axes; the axes behind those
/// belong to its elements. Places count elements.
struct Lines {
  std::int64_t length, inner = 1, count = 0;
  Lines(const Dims& shape, std::size_t axis, std::size_t ndim) : length(shape[axis]) {
    for (std::size_t k = axis + 1; k < ndim; ++k) inner *= shape[k];
    if (length == 0) return;
    count = inner;
    for (std::size_t k = 0; k < axis; ++k) count *= shape[k];
  }
  Lines(const Dims& shape, std::size_t axis) : Lines(shape, axis, shape.size()) {}

  /// The first element of a line; the others are `inner` apart.
  std::int64_t start(std::int64_t line) const {
    return line / inner * inner * length + line % inner;
  }
  std::int64_t at(std::int64_t line, std::int64_t place) const {
    return start(line) + place * inner;
  }
};

}  // namespace snug
