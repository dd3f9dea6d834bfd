#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/order.h"

namespace snug::data {
namespace {

TEST(Permutation, HasEveryNumberOnce) {
  for (std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    const Permutation permutation(size, make_key(1, Purpose::Order, 2));
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), size);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permutation, AllOrdersAreEquallyLikely) {
  std::map<std::vector<std::int64_t>, int> counts;
  constexpr int kEpochs = 24000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(4, make_key(7, Purpose::Order, epoch));
    ++counts[{permutation(0), permutation(1), permutation(2), permutation(3)}];
  }
  ASSERT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, kEpochs / 24, 5 * 32);
}

/// All rows of an epoch, in order, by way of the windows.
std::vector<std::int64_t> rows_of(const Order& order, std::int64_t epoch, std::int64_t rows) {
  std::vector<std::int64_t> out;
  for (std::int64_t w = 0; w < order.windows(); ++w) {
    std::vector<std::int64_t> read;
    for (const RowRange& range : order.reads(epoch, w))
      for (std::int64_t i = 0; i < range.count; ++i) read.push_back(range.begin + i);
    const std::int64_t begin = order.window_begin(w), end = order.window_end(w);
    EXPECT_EQ(static_cast<std::int64_t>(read.size()), end - begin);
    EXPECT_LE(end - begin, order.largest_window());
    const Permutation inside = order.inside(epoch, w);
    for (std::int64_t p = begin; p < end; ++p) {
      EXPECT_EQ(order.window_of(p), w);
      out.push_back(read[order.shuffled() ? inside(p - begin) : p - begin]);
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(out.size()), rows);
  return out;
}

TEST(Order, WindowsHoldEveryRowOnce) {
  for (std::int64_t rows : {1, 7, 64, 100, 101})
    for (std::int64_t block : {2, 5, 8})
      for (std::int64_t phase : {0, 1, 4})
        for (std::int64_t window : {1, 2, 3, 50})
          for (bool shuffle : {false, true}) {
            if (phase >= block) continue;
            SCOPED_TRACE(fmt::format("{} rows, blocks of {}, phase {}, {} a window, {}", rows,
                                     block, phase, window, shuffle));
            const Order order({rows, block, phase, window, shuffle, 3});
            EXPECT_LE(order.largest_window(), (window + (phase > 0)) * block);
            std::vector<std::int64_t> found = rows_of(order, 5, rows);
            if (shuffle) std::sort(found.begin(), found.end());
            for (std::int64_t i = 0; i < rows; ++i) ASSERT_EQ(found[i], i);
          }
}

TEST(Order, ReadsWholeBlocks) {
  const Order order({100, 8, 3, 2, true, 3});
  for (std::int64_t w = 0; w + 1 < order.windows(); ++w)
    for (const RowRange& range : order.reads(0, w)) {
      EXPECT_EQ(range.begin % 8, 3);
      EXPECT_EQ(range.count, 8);
    }
}

}  // namespace
}  // namespace snug::data
