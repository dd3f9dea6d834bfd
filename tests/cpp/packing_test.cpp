// Offsets of items with lifetimes: against all orders of first fit, and against cut rectangles.
#include "plan/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"
#include "plan/pack_seams.h"
#include "plan/pack_search.h"

namespace snug {
namespace {

using Items = std::vector<PackItem>;

/// Naive: all pairs.
bool any_overlap(const Items& items, const Packing& p) {
  for (std::size_t i = 0; i < items.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (items[i].lower < items[j].upper && items[j].lower < items[i].upper &&
          p.offsets[i] < p.offsets[j] + items[j].bytes &&
          p.offsets[j] < p.offsets[i] + items[i].bytes)
        return true;
  return false;
}

void expect_valid(const Items& items, const Packing& p) {
  EXPECT_EQ(find_fault(items, p.offsets, p.height), "");
  EXPECT_GE(p.height, p.bound);
  EXPECT_GE(p.bound, p.load);
}

Packing thorough(const Items& items, const PackLimits& limits = {.work = 50'000'000}) {
  Packing p = pack_thoroughly(items, limits);
  expect_valid(items, p);
  return p;
}

Packing quick(const Items& items) {
  Packing p = pack_quickly(items);
  expect_valid(items, p);
  return p;
}

Items random_items(std::mt19937& rng, int count, int times, int bytes) {
  Items items;
  for (int k = 0; k < count; ++k) {
    const std::int64_t lower = rng() % times, length = 1 + rng() % (times - lower);
    items.push_back({lower, lower + length, 1 + rng() % bytes});
  }
  return items;
}

/// Whether the items that are left fit above those placed, which are all tried in the order of
/// their offsets, each as low as it goes.
bool fits(const Items& items, std::vector<std::int64_t>& offsets, std::int64_t last,
          std::int64_t height, int times) {
  for (int t = 0; t < times; ++t) {
    std::int64_t top = 0, left = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (t < items[i].lower || t >= items[i].upper) continue;
      const auto bytes = static_cast<std::int64_t>(items[i].bytes);
      if (offsets[i] < 0) left += bytes;
      if (offsets[i] >= 0) top = std::max(top, offsets[i] + bytes);
    }
    if (top + left > height) return false;
  }
  bool all = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (offsets[i] >= 0) continue;
    all = false;
    std::int64_t at = 0;
    for (std::size_t j = 0; j < items.size(); ++j)
      if (offsets[j] >= 0 && items[i].lower < items[j].upper && items[j].lower < items[i].upper)
        at = std::max(at, offsets[j] + static_cast<std::int64_t>(items[j].bytes));
    if (at < last) continue;
    offsets[i] = at;
    if (fits(items, offsets, at, height, times)) return true;
    offsets[i] = -1;
  }
  return all;
}

/// At every time the same sum of bytes: what ends is replaced by other sizes, so that the load is
/// often out of reach.
Items full_load(std::mt19937& rng, int times, std::uint64_t load, std::size_t most) {
  Items items;
  std::uint64_t free = load;
  for (int t = 0; t < times && items.size() < most; ++t) {
    while (free > 0) {
      const std::uint64_t bytes = items.size() + 1 >= most ? free : 1 + rng() % free;
      items.push_back({t, times, bytes});
      free -= bytes;
    }
    for (PackItem& item : items)
      if (item.upper == times && t + 1 < times && rng() % 3 == 0) {
        item.upper = t + 1;
        free += item.bytes;
      }
  }
  return items;
}

TEST(Packing, SearchFindsAndProvesTheLowestHeight) {
  std::mt19937 rng(5);
  constexpr int kTimes = 8;
  int above_load = 0;
  for (int round = 0; round < 4000; ++round) {
    const Items items = full_load(rng, kTimes, 7, 10 + rng() % 3);
    const Packing p = thorough(items);
    EXPECT_TRUE(p.proved());
    std::vector<std::int64_t> offsets(items.size(), -1);
    if (p.height == p.load) continue;  // it fits: its offsets say so
    ++above_load;
    EXPECT_FALSE(fits(items, offsets, 0, static_cast<std::int64_t>(p.height) - 1, kTimes));
  }
  EXPECT_GT(above_load, 0);
}

/// A rectangle cut in two or into pinwheels, with few sizes.
Items small_cut(std::mt19937& rng, std::size_t pieces, std::int64_t times, std::int64_t height) {
  struct Piece {
    std::int64_t lower, upper, bottom, top;
  };
  auto between = [&](std::int64_t low, std::int64_t high) {
    return low + 1 + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(high - low - 1));
  };
  std::vector<Piece> all = {{0, times, 0, height}};
  for (int tries = 0; all.size() < pieces && tries < 200; ++tries) {
    const std::size_t at = rng() % all.size();
    const auto [a, b, low, high] = all[at];
    const auto kind = rng() % 3;
    if (kind == 0 && b - a > 1) {
      const std::int64_t t = between(a, b);
      all[at].upper = t;
      all.push_back({t, b, low, high});
    } else if (kind == 1 && high - low > 1) {
      const std::int64_t y = between(low, high);
      all[at].top = y;
      all.push_back({a, b, y, high});
    } else if (kind == 2 && b - a > 2 && high - low > 2) {
      const std::int64_t c = between(a, b - 1), d = between(c, b);
      const std::int64_t y = between(low, high - 1), z = between(y, high);
      all[at] = {c, d, y, z};
      for (const Piece& p : {Piece{a, d, low, y}, {d, b, low, z}, {c, b, z, high}, {a, c, y, high}})
        all.push_back(p);
    }
  }
  Items items;
  for (const Piece& p : all)
    items.push_back({p.lower, p.upper, static_cast<std::uint64_t>(p.top - p.bottom)});
  std::shuffle(items.begin(), items.end(), rng);
  return items;
}

std::uint64_t load_of(const Items& items) { return pack_quickly(items).load; }

std::vector<SectionItem> sections_of(const Items& items) {
  std::vector<SectionItem> sections;
  for (const PackItem& i : items)
    sections.push_back({static_cast<std::uint32_t>(i.lower), static_cast<std::uint32_t>(i.upper),
                        static_cast<std::int64_t>(i.bytes)});
  return sections;
}

/// Items 1 to 3 fail where a floor was raised for the sake of others; they do have a packing, of
/// which the search must not forget that it may lie on something.
TEST(Packing, SearchRemembersOnlyWhatHasNoPacking) {
  const std::vector<SectionItem> items = {
      {0, 1, 8}, {0, 2, 1},  {1, 3, 1},  {2, 6, 7},   {6, 10, 4},  {6, 7, 5}, {7, 8, 1}, {7, 11, 3},
      {7, 8, 1}, {8, 10, 1}, {9, 10, 3}, {10, 12, 6}, {10, 12, 1}, {4, 9, 1}, {1, 2, 8}};
  PackSearch search(items);
  EXPECT_EQ(search.run(11, 0, 1'000'000'000), PackSearch::Outcome::Impossible);
  std::vector<std::uint32_t> all(items.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_TRUE(search.remembers(all, std::vector<std::int64_t>(items.size(), 0), 11));
  // At 10, 9 and 2.
  const std::vector<std::uint32_t> some = {1, 2, 3};
  const std::vector<std::int64_t> lowest = {9, 8, 2};
  EXPECT_FALSE(search.remembers(some, lowest, 11));
}

/// What the search remembers of one capacity holds for others; it is told capacities up and down.
void expect_right_answers(const Items& items, int times) {
  const std::vector<SectionItem> sections = sections_of(items);
  PackSearch search(sections);
  const auto load = static_cast<std::int64_t>(load_of(items));
  for (std::int64_t capacity : {load, load + 2, load + 1, load}) {
    const PackSearch::Outcome outcome = search.run(capacity, 0, 1'000'000'000);
    std::vector<std::int64_t> offsets(items.size(), -1);
    const bool expected = fits(items, offsets, 0, capacity, times);
    ASSERT_EQ(outcome, expected ? PackSearch::Outcome::Found : PackSearch::Outcome::Impossible);
    if (!expected) continue;
    const std::vector<std::uint64_t> found(search.offsets().begin(), search.offsets().end());
    EXPECT_EQ(find_fault(items, found, static_cast<std::uint64_t>(capacity)), "");
  }
}

/// Cut rectangles with some pieces taken out, others grown or shrunk: nearly full, and often with
/// parts that fail one without the other.
TEST(Packing, SearchAgreesWithAllOrders) {
  std::mt19937 rng(9);
  constexpr int kTimes = 20;
  for (int round = 0; round < 3000; ++round) {
    const auto times = 3 + static_cast<std::int64_t>(rng() % 14);
    Items items = small_cut(rng, 6 + rng() % 5, times, 4 + static_cast<std::int64_t>(rng() % 9));
    for (auto changes = rng() % 4; changes > 0; --changes) {
      const std::size_t at = rng() % items.size();
      PackItem& item = items[at];
      const auto kind = rng() % 4;
      if (kind == 0 && items.size() > 3) items.erase(items.begin() + static_cast<long>(at));
      if (kind == 1) ++item.bytes;
      if (kind == 2 && item.bytes > 1) --item.bytes;
      if (kind == 3 && item.upper < kTimes) ++item.upper;
    }
    expect_right_answers(items, kTimes);
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

/// Up to the first time that is not as full as those before, where all end.
Items full_part(Items items, int times) {
  const std::uint64_t load = load_of(items);
  int end = 0;
  for (bool full = true; full && end < times; end += full) {
    std::uint64_t sum = 0;
    for (const PackItem& item : items)
      sum += item.lower <= end && end < item.upper ? item.bytes : 0;
    full = sum == load;
  }
  std::erase_if(items, [&](const PackItem& item) { return item.lower >= end; });
  for (PackItem& item : items) item.upper = std::min<std::int64_t>(item.upper, end);
  return items;
}

TEST(PackSeams, AgreeWithAllOrders) {
  std::mt19937 rng(6);
  constexpr int kTimes = 8;
  int impossible = 0;
  for (int round = 0; round < 4000; ++round) {
    const Items items = round % 4 == 0
                            ? small_cut(rng, 6 + rng() % 7, kTimes, 7)
                            : full_part(full_load(rng, kTimes, 7, 10 + rng() % 3), kTimes);
    const SeamPacking found = pack_seams(sections_of(items), 1'000'000'000);
    std::vector<std::int64_t> offsets(items.size(), -1);
    const std::uint64_t load = load_of(items);
    if (found.offsets.empty()) {
      ++impossible;
      ASSERT_FALSE(fits(items, offsets, 0, static_cast<std::int64_t>(load), kTimes)) << round;
    } else {
      const std::vector<std::uint64_t> seen(found.offsets.begin(), found.offsets.end());
      ASSERT_EQ(find_fault(items, seen, load), "") << round;
    }
  }
  EXPECT_GT(impossible, 0);
}

TEST(PackSeams, LargeCuts) {
  std::mt19937 rng(8);
  for (std::size_t pieces : {50, 200, 400}) {
    const Items items = small_cut(rng, pieces, 2000, 1 << 20);
    const SeamPacking found = pack_seams(sections_of(items), 1'000'000'000);
    const std::vector<std::uint64_t> offsets(found.offsets.begin(), found.offsets.end());
    EXPECT_EQ(find_fault(items, offsets, 1 << 20), "") << pieces;
    EXPECT_TRUE(pack_seams(sections_of(items), 10).offsets.empty());  // ends at the limit
    const SeamPacking again = pack_seams(sections_of(items), 1'000'000'000);
    EXPECT_EQ(again.offsets, found.offsets);
    EXPECT_EQ(again.work, found.work);
  }
}

/// The lowest height by putting items one after the other onto what is below them, in all orders
/// of their offsets.
std::uint64_t lowest_aligned(const Items& items, std::vector<std::int64_t>& offsets,
                             std::int64_t last, std::uint64_t height, std::uint64_t best) {
  bool all = true;
  for (std::size_t i = 0; i < items.size() && height < best; ++i) {
    if (offsets[i] >= 0) continue;
    all = false;
    std::uint64_t at = 0;
    for (std::size_t j = 0; j < items.size(); ++j)
      if (offsets[j] >= 0 && items[i].lower < items[j].upper && items[j].lower < items[i].upper)
        at = std::max(at, static_cast<std::uint64_t>(offsets[j]) + items[j].bytes);
    at = (at + items[i].alignment - 1) / items[i].alignment * items[i].alignment;
    if (static_cast<std::int64_t>(at) < last) continue;
    offsets[i] = static_cast<std::int64_t>(at);
    best = lowest_aligned(items, offsets, offsets[i], std::max(height, at + items[i].bytes), best);
    offsets[i] = -1;
  }
  return all ? std::min(best, height) : best;
}

TEST(Packing, AlignedItemsReachTheLowestHeight) {
  EXPECT_EQ(thorough({{0, 3, 10, 8}, {0, 3, 7, 8}}).height, 18U);
  EXPECT_EQ(thorough({{0, 3, 7, 8}, {0, 3, 10, 8}}, {.capacity = 18}).height, 18U);
  std::mt19937 rng(11);
  for (int round = 0; round < 3000; ++round) {
    Items items = random_items(rng, 2 + static_cast<int>(rng() % 5), 6, 40);
    // All of one alignment, of powers of two, of any.
    const std::uint64_t common = 1 + rng() % 16;
    for (PackItem& item : items)
      item.alignment = round % 3 == 0   ? common
                       : round % 3 == 1 ? std::uint64_t{1} << rng() % 5
                                        : 1 + rng() % 16;
    const Packing p = thorough(items);
    std::vector<std::int64_t> offsets(items.size(), -1);
    const std::uint64_t lowest = lowest_aligned(items, offsets, 0, 0, UINT64_MAX);
    ASSERT_EQ(p.height, lowest) << "round " << round;
    EXPECT_TRUE(p.proved());
    EXPECT_EQ(thorough(items, {.capacity = lowest}).height, lowest);
    EXPECT_GT(thorough(items, {.capacity = lowest - 1}).bound, lowest - 1);
  }
}

TEST(Packing, ManyAlignedItems) {
  std::mt19937 rng(12);
  for (bool mixed : {false, true}) {
    Items items = random_items(rng, 3000, 2000, 100000);
    for (PackItem& item : items) item.alignment = mixed ? std::uint64_t{1} << rng() % 7 : 64;
    const Packing p = quick(items);
    EXPECT_LT(p.height, p.bound + p.bound / 8);
  }
}

/// A rectangle cut in two again and again, across or along time.
Items guillotine(std::mt19937& rng, std::size_t pieces, std::int64_t times, std::uint64_t height) {
  Items items = {{0, times, height}};
  while (items.size() < pieces) {
    PackItem& item = items[rng() % items.size()];
    PackItem other = item;
    if (rng() % 2 && item.upper - item.lower > 1) {
      const auto length = static_cast<std::uint64_t>(item.upper - item.lower);
      item.upper = other.lower = item.lower + 1 + static_cast<std::int64_t>(rng() % (length - 1));
    } else if (item.bytes > 1) {
      item.bytes = 1 + rng() % (item.bytes - 1);
      other.bytes -= item.bytes;
    } else {
      continue;
    }
    items.push_back(other);
  }
  std::shuffle(items.begin(), items.end(), rng);
  return items;
}

TEST(Packing, CutRectanglesArePutTogetherAgain) {
  std::mt19937 rng(11);
  for (std::size_t pieces : {2, 5, 20, 60, 150, 300}) {
    const Items items = guillotine(rng, pieces, 1000, 1 << 20);
    const Packing p = thorough(items, {.work = 1'000'000'000});
    EXPECT_EQ(p.load, 1u << 20);
    EXPECT_EQ(p.height, 1u << 20) << pieces;
    EXPECT_TRUE(p.proved());
  }
}

/// Five pieces around a core: no cut goes through, at any scale.
TEST(Packing, PinwheelsArePutTogetherAgain) {
  Items items;
  for (std::int64_t k = 0; k < 6; ++k) {
    const std::int64_t t = 30 * k;
    const std::uint64_t unit = 1 + static_cast<std::uint64_t>(k % 3);
    const std::uint64_t rest = 30 - 3 * 3 * unit;
    for (const PackItem& item : Items{{t, t + 20, 3 * unit},
                                      {t + 20, t + 30, 6 * unit},
                                      {t + 10, t + 30, 3 * unit},
                                      {t, t + 10, 6 * unit},
                                      {t + 10, t + 20, 3 * unit},
                                      {t, t + 30, rest}})
      items.push_back(item);
  }
  const Packing p = thorough(items);
  EXPECT_EQ(p.load, 30u);
  EXPECT_EQ(p.height, 30u);
}

TEST(Packing, CheckerAgreesWithAllPairs) {
  std::mt19937 rng(7);
  int wrong = 0;
  for (int round = 0; round < 300; ++round) {
    const Items items = random_items(rng, 12, 20, 30);
    Packing p = quick(items);
    EXPECT_FALSE(any_overlap(items, p));
    p.offsets[rng() % items.size()] = rng() % p.height;
    const std::string fault = find_fault(items, p.offsets, UINT64_MAX);
    EXPECT_EQ(!fault.empty(), any_overlap(items, p)) << fault;
    wrong += !fault.empty();
    EXPECT_NE(find_fault(items, p.offsets, p.height / 2), "");
  }
  EXPECT_GT(wrong, 50);
  EXPECT_NE(find_fault(Items{{0, 1, 1}}, std::vector<std::uint64_t>{}, 5), "");
}

TEST(Packing, RandomItemsOfAllKinds) {
  std::mt19937 rng(13);
  for (int round = 0; round < 60; ++round) {
    const Items items = random_items(rng, 1 + static_cast<int>(rng() % 200),
                                     2 + static_cast<int>(rng() % 100), 1 << (rng() % 20));
    const Packing greedy = quick(items), best = thorough(items, {.work = 2'000'000});
    EXPECT_FALSE(any_overlap(items, best));
    EXPECT_LE(best.height, greedy.height);
    EXPECT_EQ(best.load, greedy.load);
    const Packing again = pack_thoroughly(items, {.work = 2'000'000});
    EXPECT_EQ(best.offsets, again.offsets);
    EXPECT_EQ(best.nodes, again.nodes);
  }
}

TEST(Packing, MoreWorkIsNeverHigher) {
  std::mt19937 rng(17);
  for (int round = 0; round < 10; ++round) {
    const Items items = guillotine(rng, 80, 100, 4096);
    std::uint64_t height = quick(items).height;
    for (std::uint64_t work : {0, 1'000, 100'000, 10'000'000, 100'000'000}) {
      const Packing p = thorough(items, {.work = work});
      EXPECT_LE(p.height, quick(items).height);
      if (work == 100'000'000) {
        EXPECT_LE(p.height, height);
      }
      height = std::min(height, p.height);
    }
  }
}

TEST(Packing, StopsAtTheCapacity) {
  std::mt19937 rng(19);
  const Items items = guillotine(rng, 200, 200, 10'000);
  const std::uint64_t greedy = quick(items).height;
  ASSERT_GT(greedy, 10'050u);
  const Packing roomy = thorough(items, {.capacity = greedy});
  EXPECT_EQ(roomy.nodes, 0u);
  const Packing tight = thorough(items, {.capacity = 10'000});
  EXPECT_EQ(tight.height, 10'000u);
  const Packing between = thorough(items, {.capacity = 10'040});
  EXPECT_LE(between.height, 10'040u);
  const Packing never = thorough(items, {.capacity = 9'999});
  EXPECT_GT(never.bound, 9'999u);
  EXPECT_EQ(never.nodes, 0u);
}

TEST(Packing, DegenerateItems) {
  EXPECT_EQ(thorough({}).height, 0u);
  EXPECT_TRUE(thorough({}).proved());
  EXPECT_EQ(thorough({{0, 5, 0}, {3, 3, 8}}).height, 0u);  // no bytes; never alive
  EXPECT_EQ(thorough({{-9, -3, 7}}).height, 7u);
  const Packing together = thorough(Items(50, PackItem{4, 5, 3}));
  EXPECT_EQ(together.height, 150u);
  EXPECT_EQ(together.load_at, 4);
  EXPECT_EQ(thorough({{0, 2, 5}, {2, 4, 5}, {4, 6, 9}}).height, 9u);  // one after the other
  EXPECT_EQ(thorough({{INT64_MIN, INT64_MAX, 5}, {0, 1, 5}}).height, 10u);
}

TEST(Packing, HugeSizes) {
  const std::uint64_t most = INT64_MAX;
  EXPECT_EQ(thorough({{0, 2, most}, {2, 3, most}}).height, most);
  EXPECT_EQ(thorough({{0, 2, most - 1}, {1, 3, 1}, {2, 3, most - 1}}).height, most);
  EXPECT_THROW(pack_quickly(Items{{0, 2, most}, {1, 3, 1}}), Error);
  EXPECT_THROW(pack_quickly(Items{{0, 2, most + 1}}), Error);
  EXPECT_THROW(pack_quickly(Items(5, PackItem{0, 1, most / 2})), Error);
  const std::uint64_t quarter = most / 4;
  const Packing p = thorough({{0, 2, quarter}, {1, 4, quarter}, {3, 5, quarter}, {0, 1, quarter}});
  EXPECT_EQ(p.height, 2 * quarter);
}

TEST(Packing, ManyItems) {
  Items chain;
  for (std::int64_t t = 0; t < 100'000; ++t) chain.push_back({t, t + 2, 64});
  EXPECT_EQ(quick(chain).height, 128u);
  std::mt19937 rng(23);
  Items step;  // a training step: some are kept for their gradient
  constexpr std::int64_t kSteps = 5000;
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const std::uint64_t bytes = 64 * (1 + rng() % 1000);
    if (t % 20 == 0 && t < kSteps / 2)
      step.push_back({t, kSteps - t, 100 * bytes});
    else
      step.push_back({t, t + 1 + static_cast<std::int64_t>(rng() % 10), bytes});
  }
  const Packing p = thorough(step);
  EXPECT_LE(static_cast<double>(p.height), 1.01 * static_cast<double>(p.load));
}

/// From 1 to about 2^bits, all orders of magnitude alike.
std::int64_t any_magnitude(std::mt19937& rng, int bits) {
  const std::int64_t least = std::int64_t{1} << (rng() % bits);
  return least + rng() % least;
}

/// More items than are searched, made one by one.
template <class F>
Items many_items(unsigned seed, F&& make) {
  constexpr int kMany = 6000;
  std::mt19937 rng(seed);
  Items items;
  for (int k = 0; k < kMany; ++k) items.push_back(make(rng, k, kMany));
  return items;
}

/// They are of a kind that first fit packs 2 to 10 % above the load.
void expect_near_the_load(const Items& items, double most = 1.01) {
  const Packing p = quick(items);
  EXPECT_LE(static_cast<double>(p.height), most * static_cast<double>(p.load));
  EXPECT_EQ(quick(items).offsets, p.offsets);
}

TEST(ManyItems, EvenlySpread) {
  for (int longest : {200, 2000})
    expect_near_the_load(many_items(29, [&](auto& rng, int, int many) -> PackItem {
      const std::int64_t lower = rng() % many, length = 1 + rng() % longest;
      return {lower, lower + length, 64 * (1 + rng() % 10'000)};
    }));
}

TEST(ManyItems, LivesOfAllMagnitudes) {
  expect_near_the_load(many_items(31, [](auto& rng, int, int many) -> PackItem {
    const std::int64_t lower = rng() % many;
    return {lower, lower + any_magnitude(rng, 12), 64 * (1 + rng() % 10'000)};
  }));
}

TEST(ManyItems, PowersOfTwo) {
  expect_near_the_load(many_items(37, [](auto& rng, int, int many) -> PackItem {
    const std::int64_t lower = rng() % many;
    return {lower, lower + any_magnitude(rng, 12), std::uint64_t{64} << (rng() % 12)};
  }));
}

/// Kept until their gradient, the last first, and temporaries.
TEST(ManyItems, NestedLives) {
  expect_near_the_load(many_items(41, [](auto& rng, int k, int many) -> PackItem {
    const bool kept = k % 4 == 0;
    const std::int64_t lower = rng() % (kept ? many / 2 : many);
    const std::int64_t upper = kept ? many - lower : lower + 1 + rng() % 40;
    return {lower, upper, static_cast<std::uint64_t>(64 * any_magnitude(rng, 18))};
  }));
}

/// Nine of ten are short; the long ones are placed by first fit, and small ones above all others.
TEST(ManyItems, ShortAndLong) {
  expect_near_the_load(
      many_items(
          43,
          [](auto& rng, int k, int many) -> PackItem {
            const std::int64_t lower = rng() % many, length = 1 + rng() % (k % 10 ? 10 : many / 2);
            return {lower, lower + length, static_cast<std::uint64_t>(64 * any_magnitude(rng, 20))};
          }),
      1.03);
}

}  // namespace
}  // namespace snug
