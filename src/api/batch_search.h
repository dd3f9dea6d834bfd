#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/array.h"

namespace snug {

/// The inputs whose `axis` is the batch: those that have the size of the first one there.
inline std::vector<std::size_t> batched_inputs(std::span<const Dims> shapes, std::size_t axis) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i].size() > axis &&
        (found.empty() || shapes[i][axis] == shapes[found.front()][axis]))
      found.push_back(i);
  return found;
}

/// The largest number in [1, most] for which `fits` holds, which holds for all smaller ones; 0 if
/// there is none. `low` is known to fit.
template <class F>
std::int64_t largest(std::int64_t most, F&& fits, std::int64_t low = 0) {
  std::int64_t high = std::min(most, std::max<std::int64_t>(1, 2 * low));  // not known to fit
  while (low < most && fits(high)) {
    low = high;
    high = high > most / 2 ? most : 2 * high;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace snug
