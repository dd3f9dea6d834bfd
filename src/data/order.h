#pragma once
#include <vector>

#include "data/random.h"

namespace snug::data {

/// Consecutive rows of a source.
struct RowRange {
  std::int64_t begin = 0, count = 0;
};

struct OrderOptions {
  std::int64_t rows = 0;
  std::int64_t block = 1, phase = 0;  // of the source
  std::int64_t window = 1;            // blocks that are in memory at the same time
  bool shuffle = true;
  std::uint64_t seed = 0;
};

/// The order of the rows in every epoch. A source without blocks is shuffled row by row. One with
/// blocks is read in windows: as many whole blocks as fit in memory, chosen at random, whose rows
/// are then shuffled. Any place of any epoch is found without a walk through what comes before it.
class Order {
 public:
  Order() = default;
  explicit Order(const OrderOptions& options);

  bool windowed() const { return options_.block > 1; }
  bool shuffled() const { return options_.shuffle; }
  /// Shuffled, without blocks: which row comes at a position of the epoch.
  Permutation rows(std::int64_t epoch) const;

  std::int64_t windows() const { return windows_; }
  std::int64_t window_of(std::int64_t position) const;
  std::int64_t window_begin(std::int64_t window) const;  // its first position
  std::int64_t window_end(std::int64_t window) const { return window_begin(window + 1); }
  std::int64_t largest_window() const;  // in rows
  /// What to read for a window, one after the other.
  std::vector<RowRange> reads(std::int64_t epoch, std::int64_t window) const;
  /// Shuffled: which row of what was read comes at a position of the window.
  Permutation inside(std::int64_t epoch, std::int64_t window) const;

 private:
  OrderOptions options_;
  std::int64_t windows_ = 0, window_rows_ = 1;
  std::int64_t head_ = 0, blocks_ = 0;  // rows before the first whole block; whole blocks
};

}  // namespace snug::data
