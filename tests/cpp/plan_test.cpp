// The packer and its checker against a check of all pairs.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "plan/memory_plan.h"

namespace snug {
namespace {

/// Steps in which each reads what a few before it wrote; some writes take over what dies.
Schedule random_schedule(std::mt19937& rng, std::uint32_t steps) {
  Schedule s;
  s.steps.resize(steps);
  for (std::uint32_t at = 0; at < steps; ++at) {
    Buffer b;
    b.value = {at, 0};
    b.bytes = rng() % 8 == 0 ? 0 : 1 + rng() % 500;
    b.first = at;
    b.last =
        std::min(steps - 1, at + static_cast<std::uint32_t>(rng() % 6 ? rng() % 3 : rng() % steps));
    for (std::uint32_t k = 0; k < at && rng() % 2; ++k) {
      bool taken = s.buffers[k].last != at || s.buffers[k].bytes < b.bytes;
      for (const Buffer& other : s.buffers) taken |= other.in_place_of == static_cast<int>(k);
      if (taken) continue;
      b.in_place_of = static_cast<std::int32_t>(k);
      break;
    }
    s.buffers.push_back(b);
  }
  return s;
}

bool pair_is_wrong(const Schedule& s, const MemoryPlan& p, std::size_t i, std::size_t j) {
  const Buffer &a = s.buffers[i], &b = s.buffers[j];
  if (a.bytes == 0 || b.bytes == 0 || a.last < b.first || b.last < a.first) return false;
  if (b.in_place_of == static_cast<int>(i) && a.last == b.first) return false;
  return p.offsets[i] < p.offsets[j] + b.bytes && p.offsets[j] < p.offsets[i] + a.bytes;
}

bool any_pair_is_wrong(const Schedule& s, const MemoryPlan& p) {
  for (std::size_t j = 0; j < s.buffers.size(); ++j)
    for (std::size_t i = 0; i < j; ++i)
      if (pair_is_wrong(s, p, i, j)) return true;
  return false;
}

TEST(Plan, PackerAndCheckerAgreeWithAllPairs) {
  std::mt19937 rng(3);
  int wrong = 0;
  for (int round = 0; round < 300; ++round) {
    Schedule s = random_schedule(rng, 1 + rng() % 40);
    MemoryPlan plan = pack(s);
    EXPECT_FALSE(any_pair_is_wrong(s, plan));
    EXPECT_GE(plan.host().bytes, plan.host().load);
    for (int change = 0; change < 5; ++change) {
      MemoryPlan moved = plan;
      moved.arenas[0].bytes += 1024;
      moved.offsets[rng() % moved.offsets.size()] = rng() % (plan.host().bytes / 64 + 1) * 64;
      bool found = false;
      try {
        verify(s, moved);
      } catch (const Error&) {
        found = true;
      }
      EXPECT_EQ(found, any_pair_is_wrong(s, moved));
      wrong += found;
    }
  }
  EXPECT_GT(wrong, 100);
}

TEST(Plan, LongChainsAreQuick) {
  Schedule s;
  s.steps.resize(200'000);
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    Buffer b;
    b.bytes = 64;
    b.first = at;
    b.last = std::min<std::uint32_t>(at + 1, 199'999);
    s.buffers.push_back(b);
  }
  EXPECT_EQ(pack(s).host().bytes, 128u);  // all pairs would take minutes
}

}  // namespace
}  // namespace snug
