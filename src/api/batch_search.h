#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
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

/// The largest number in [1, most] whose `bytes_of`, nothing where there is no plan, are within the
/// budget; 0 if there is none. Bytes grow about as the number does, so few are asked for; where
/// they do not, each second one halves what is left, or doubles as long as all fit.
template <class F>
std::int64_t largest_within(std::int64_t most, std::int64_t budget, F&& bytes_of) {
  struct Known {
    std::int64_t rows;
    std::optional<std::int64_t> bytes;
  };
  Known below{0, std::nullopt}, low = below;  // `low` fits, and so does `below`, which is smaller
  Known high{most + 1, std::nullopt};         // does not
  const auto is_open = [&] { return high.rows > most; };  // all that was asked fits
  const auto ask = [&](std::int64_t rows) {
    const Known asked{rows, bytes_of(rows)};
    if (!asked.bytes || *asked.bytes > budget) return void(high = asked);
    below = low;
    low = asked;
  };
  const auto guess = [&]() -> std::int64_t {
    const Known &from = high.bytes ? low : below, &to = high.bytes ? high : low;
    const double grown = static_cast<double>(*to.bytes - *from.bytes);
    const double more = static_cast<double>(to.rows - from.rows) / std::max(grown, 1.0) *
                        static_cast<double>(budget - *low.bytes);
    const std::int64_t last = std::min(high.rows - 1, is_open() ? 1024 * low.rows : high.rows);
    return std::clamp(low.rows + static_cast<std::int64_t>(std::min(more, 1e15)), low.rows + 1,
                      last);
  };
  for (bool even = true; high.rows - low.rows > 1;) {
    const std::int64_t before = high.rows - low.rows;
    if (low.rows < 2)
      ask(low.rows + 1);
    else if (even)
      ask(guess());
    else
      ask(is_open() ? std::min(2 * low.rows, most) : low.rows + before / 2);
    even = !even || 2 * (high.rows - low.rows) <= before;
  }
  return low.rows;
}

}  // namespace snug
