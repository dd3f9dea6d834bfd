#include "data/order.h"

#include <algorithm>
#include <bit>

namespace snug::data {

Permutation::Permutation(std::int64_t size, std::uint64_t key)
    : size_(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1))) {
  const int bits = std::bit_width(size_ - 1);
  half_bits_ = std::max(1, (bits + 1) / 2);
  for (int i = 0; i < kRounds; ++i) {
    const auto words = philox(key, static_cast<std::uint64_t>(i));
    keys_[i] = std::uint64_t{words[1]} << 32 | words[0];
  }
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t key : keys_) {
      // The finisher of splitmix64.
      std::uint64_t mixed = right + key;
      mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
      mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
      mixed ^= mixed >> 31;
      const std::uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

Order::Order(const OrderOptions& options) : options_(options) {
  const std::int64_t block = options.block;
  window_rows_ = block * options.window;
  head_ = std::min(options.phase, options.rows);
  blocks_ = (options.rows - head_) / block;
  if (options.shuffle) {
    // What is left of blocks at both ends comes with the last window.
    const std::int64_t whole = blocks_ / options.window;
    windows_ = whole + (options.rows > whole * window_rows_);
  } else {
    const std::int64_t shift = head_ > 0 ? block - head_ : 0;
    windows_ = (options.rows + shift + window_rows_ - 1) / window_rows_;
  }
}

Permutation Order::rows(std::int64_t epoch) const {
  return Permutation(options_.rows, make_key(options_.seed, Purpose::Order, epoch));
}

std::int64_t Order::window_begin(std::int64_t window) const {
  if (window >= windows_) return options_.rows;
  const std::int64_t shift = !options_.shuffle && head_ > 0 ? options_.block - head_ : 0;
  return std::clamp<std::int64_t>(window * window_rows_ - shift, 0, options_.rows);
}

std::int64_t Order::window_of(std::int64_t position) const {
  const std::int64_t shift = !options_.shuffle && head_ > 0 ? options_.block - head_ : 0;
  return std::min((position + shift) / window_rows_, windows_ - 1);
}

std::int64_t Order::largest_window() const {
  std::int64_t last = options_.rows - window_begin(windows_ - 1);
  return windows_ > 1 ? std::max(last, window_rows_) : last;
}

std::vector<RowRange> Order::reads(std::int64_t epoch, std::int64_t window) const {
  const std::int64_t begin = window_begin(window), end = window_end(window);
  if (!options_.shuffle) return {{begin, end - begin}};
  std::vector<RowRange> out;
  const Permutation blocks(blocks_, make_key(options_.seed, Purpose::Order, epoch));
  const std::int64_t first = window * options_.window;
  const std::int64_t last = std::min(first + options_.window, blocks_);
  for (std::int64_t i = first; i < last; ++i)
    out.push_back({head_ + blocks(i) * options_.block, options_.block});
  if (window == windows_ - 1) {
    const std::int64_t tail = head_ + blocks_ * options_.block;
    if (head_ > 0) out.push_back({0, head_});
    if (tail < options_.rows) out.push_back({tail, options_.rows - tail});
  }
  return out;
}

Permutation Order::inside(std::int64_t epoch, std::int64_t window) const {
  return Permutation(window_end(window) - window_begin(window),
                     make_key(options_.seed, Purpose::Window, epoch, window));
}

}  // namespace snug::data
