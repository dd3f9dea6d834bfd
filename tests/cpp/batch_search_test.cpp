// The largest number within a budget: against trying numbers one after the other.
#include "api/batch_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace snug {
namespace {

using Bytes = std::optional<std::int64_t>;

TEST(BatchSearch, FindsTheLargestWhateverTheGrowth) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t start = below(100000), each = 1 + below(1000), budget = below(500000);
    const std::int64_t most = 1 + below(600), piece = 1 + below(64), none_from = 1 + below(900);
    const auto bytes_of = [&](std::int64_t rows) -> Bytes {
      if (rows >= none_from) return std::nullopt;
      const double x = static_cast<double>(rows);
      switch (round % 4) {
        case 0: return start + each * rows;
        case 1: return start + each * piece * ((rows + piece - 1) / piece);
        case 2: return start + static_cast<std::int64_t>(static_cast<double>(each) * x * x);
        default: return start;
      }
    };
    std::int64_t expected = 0;
    while (expected < most && bytes_of(expected + 1) && *bytes_of(expected + 1) <= budget)
      ++expected;
    EXPECT_EQ(largest_within(most, budget, bytes_of), expected) << "round " << round;
  }
}

TEST(BatchSearch, AsksLittleWhereBytesGrowEvenly) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  int asked = 0;
  const auto bytes_of = [&](std::int64_t rows) -> Bytes {
    ++asked;
    return 1000 + 4096 * rows + rows / 7 * 64;
  };
  const std::int64_t found = largest_within(kMost, std::int64_t{1} << 26, bytes_of);
  EXPECT_LE(asked, 8);
  EXPECT_LE(*bytes_of(found), std::int64_t{1} << 26);
  EXPECT_GT(*bytes_of(found + 1), std::int64_t{1} << 26);
}

}  // namespace
}  // namespace snug
