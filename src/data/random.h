#pragma once
#include <cstdint>

#include "base/philox.h"

namespace snug::data {

/// What a stream of random numbers is for; each has its own.
enum class Purpose : std::uint64_t { Order = 1, Window = 2, Rows = 3, Split = 4 };

/// A key for philox that stands for all of its arguments.
constexpr std::uint64_t make_key(std::uint64_t seed, Purpose purpose, std::uint64_t epoch,
                                 std::uint64_t part = 0) {
  auto word = [](std::uint64_t key, std::uint64_t counter) {
    const auto words = philox(key, counter);
    return std::uint64_t{words[1]} << 32 | words[0];
  };
  return word(word(word(seed, static_cast<std::uint64_t>(purpose)), epoch), part);
}

/// The random numbers of one row for one transform: they depend on nothing else.
class RowRandom {
 public:
  RowRandom(std::uint64_t key, std::int64_t row, std::size_t transform)
      : key_(key), counter_(static_cast<std::uint64_t>(row) << 24 | transform << 8) {}
  /// In [0, 1).
  double uniform() { return philox(key_, counter_++)[0] * 0x1p-32; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, count).
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(uniform() * static_cast<double>(count));
  }

 private:
  std::uint64_t key_, counter_;
};

/// A random permutation of [0, size) without a table: a Feistel network whose values outside are
/// walked on until they are inside.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t key);
  std::int64_t operator()(std::int64_t i) const;

 private:
  static constexpr int kRounds = 8;
  std::uint64_t size_;
  int half_bits_ = 1;
  std::uint64_t keys_[kRounds];
};

}  // namespace snug::data
