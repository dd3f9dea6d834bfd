// The exact search for an order of tasks, against all orders.
#include "schedule/exact_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace snug {
namespace {

OrderProblem random_problem(std::mt19937& rng, std::uint32_t n) {
  OrderProblem p;
  auto value = [&](std::uint64_t bytes) {
    p.values.push_back({bytes});
    return static_cast<std::uint32_t>(p.values.size() - 1);
  };
  std::vector<std::int32_t> maker{-1};
  p.values[value(rng() % 9)].given = true;
  for (std::uint32_t k = 0; k < n; ++k) {
    OrderProblem::Task t;
    for (std::uint32_t v = 0; v < p.values.size(); ++v)
      if (rng() % (p.values.size() + 1) < 2) {
        t.reads.push_back(v);
        if (maker[v] >= 0) t.before.push_back(static_cast<std::uint32_t>(maker[v]));
      }
    if (k > 0 && rng() % 5 == 0) t.before.push_back(static_cast<std::uint32_t>(rng() % k));
    for (std::uint32_t w = 0; w < 1 + rng() % 2; ++w) {
      t.writes.push_back(value(rng() % 30));
      p.values.back().kept = rng() % 6 == 0;
      maker.push_back(static_cast<std::int32_t>(k));
      for (std::uint32_t r = 0; r < t.reads.size(); ++r)
        if (rng() % 2) t.in_place.emplace_back(w, r);
    }
    if (rng() % 4 == 0) t.workspace = rng() % 20;
    p.tasks.push_back(std::move(t));
  }
  return p;
}

/// The lowest peak of all orders, one step after the other.
std::uint64_t lowest_peak(const OrderProblem& p) {
  std::uint64_t lowest = UINT64_MAX;
  std::vector<std::uint32_t> order;
  std::vector<bool> done(p.tasks.size(), false);
  const std::function<void()> extend = [&] {
    if (order.size() == p.tasks.size()) lowest = std::min(lowest, peak_of_order(p, order));
    for (std::uint32_t t = 0; t < p.tasks.size(); ++t) {
      const auto& before = p.tasks[t].before;
      if (done[t] || !std::all_of(before.begin(), before.end(), [&](auto b) { return done[b]; }))
        continue;
      done[t] = true;
      order.push_back(t);
      extend();
      order.pop_back();
      done[t] = false;
    }
  };
  extend();
  return lowest;
}

/// Live bytes by lifetimes instead of by sets.
std::uint64_t peak_by_lives(const OrderProblem& p, const std::vector<std::uint32_t>& order) {
  const std::size_t n = order.size();
  std::vector<std::size_t> first(p.values.size(), 0), last(p.values.size(), 0);
  for (std::size_t at = 0; at < n; ++at) {
    for (std::uint32_t v : p.tasks[order[at]].writes) first[v] = last[v] = at;
    for (std::uint32_t v : p.tasks[order[at]].reads) last[v] = at;
  }
  std::vector<bool> read(p.values.size(), false);
  for (const auto& t : p.tasks)
    for (std::uint32_t v : t.reads) read[v] = true;
  for (std::size_t v = 0; v < p.values.size(); ++v)
    if (p.values[v].kept || (p.values[v].given && !read[v])) last[v] = n;
  std::vector<bool> taken(p.values.size(), false);
  std::vector<std::uint64_t> live(n + 1, 0);
  for (std::size_t at = 0; at < n; ++at) {
    const auto& t = p.tasks[order[at]];
    live[at] += t.workspace;
    for (auto [w, r] : t.in_place) {
      const std::uint32_t to = t.writes[w], from = t.reads[r];
      if (first[to] != at || last[from] != at || taken[from] ||
          p.values[to].bytes > p.values[from].bytes)
        continue;
      taken[from] = true;
      ++first[to];
    }
  }
  for (std::size_t v = 0; v < p.values.size(); ++v)
    for (std::size_t at = first[v]; at <= std::min(last[v], n); ++at) live[at] += p.values[v].bytes;
  return *std::max_element(live.begin(), live.end());
}

TEST(ExactOrder, IsTheBestOfAllOrders) {
  std::mt19937 rng(5);
  for (int round = 0; round < 300; ++round) {
    const OrderProblem p = random_problem(rng, 2 + rng() % 6);
    const auto found = exact_order(p, 100'000);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->tasks.size(), p.tasks.size());
    EXPECT_EQ(found->peak, lowest_peak(p)) << "round " << round;
    EXPECT_EQ(found->peak, peak_of_order(p, found->tasks));
    EXPECT_EQ(found->peak, peak_by_lives(p, found->tasks)) << "round " << round;
  }
}

TEST(ExactOrder, GivesUpWhereThereIsTooMuchToLookAt) {
  OrderProblem p;
  for (std::uint32_t k = 0; k < 40; ++k) {  // nothing decides between them
    p.values.push_back({.bytes = 1 + k, .kept = true});
    p.tasks.push_back({.writes = {k}, .workspace = 40 - k});
  }
  EXPECT_FALSE(exact_order(p, 500));
  p.tasks.resize(4);
  EXPECT_TRUE(exact_order(p, 500));
  p.tasks.resize(kMaxExactTasks + 1);
  EXPECT_FALSE(exact_order(p, 500));
}

}  // namespace
}  // namespace snug
