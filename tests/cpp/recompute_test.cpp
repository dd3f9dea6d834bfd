// The search for plans that run tasks again, against its checker, brute force and known bounds.
#include "plan/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

/// A chain of n tasks, and one back through it: back(i) reads value i and what came back so far.
RecomputeProblem chain(std::uint32_t n) {
  RecomputeProblem p;
  p.values.assign(2 * n, {.bytes = 1});
  for (std::uint32_t k = 0; k < 2 * n; ++k) {
    RecomputeProblem::Task t;
    t.writes = {k};
    t.cost = k < n ? 1 : 2;
    if (k > 0) t.reads.push_back(k - 1);
    if (k > n) t.reads.push_back(2 * n - 1 - k);
    p.tasks.push_back(t);
  }
  return p;
}

/// Tasks that read a few values made before; `training`: and a pass back over them.
RecomputeProblem random_problem(std::mt19937& rng, std::uint32_t n, bool training) {
  RecomputeProblem p;
  auto value = [&](std::uint64_t bytes) {
    p.values.push_back({.bytes = bytes});
    return static_cast<std::uint32_t>(p.values.size() - 1);
  };
  std::uint32_t given = value(1 + rng() % 20);
  p.values[given].given = true;
  auto add = [&](std::vector<std::uint32_t> reads, std::uint64_t bytes) {
    RecomputeProblem::Task t;
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    t.reads = std::move(reads);
    t.writes = {value(bytes)};
    if (rng() % 4 == 0) t.writes.push_back(value(rng() % 10));
    t.cost = rng() % 5;
    t.workspace = rng() % 6 == 0 ? rng() % 30 : 0;
    t.repeatable = rng() % 8 != 0;
    if (!t.reads.empty() && rng() % 2)
      t.in_place.emplace_back(0, static_cast<std::uint32_t>(rng() % t.reads.size()));
    p.tasks.push_back(std::move(t));
    return p.tasks.back().writes[0];
  };
  std::vector<std::uint32_t> made;
  for (std::uint32_t k = 0; k < n; ++k) {
    std::vector<std::uint32_t> reads;
    if (k == 0) reads.push_back(given);
    if (k > 0) reads.push_back(made[k - 1]);
    while (k > 2 && rng() % 3 == 0) reads.push_back(made[rng() % k]);
    made.push_back(add(reads, 1 + rng() % 60));
  }
  if (training)
    for (std::uint32_t k = n, back = made.back(); k-- > 0;)
      back = add({made[k], back}, p.values[made[k]].bytes);
  for (auto& v : p.values) {
    if (v.given) continue;
    v.kept = rng() % 15 == 0;
    v.stored = rng() % 15 == 0;
  }
  if (n > 4) {  // the last one writes over what an early one reads
    p.tasks.back().after = {1};
    p.tasks.back().repeatable = false;
  }
  return p;
}

/// Tasks of next to no bytes are left out of the search; what waits may still read their results.
TEST(Recompute, SmallTasksRunBeforeThoseThatWait) {
  constexpr std::uint32_t kLayers = 6;
  RecomputeProblem p = chain(kLayers);
  for (auto& v : p.values) v.bytes = 1'000'000;
  const auto value = [&](RecomputeProblem::Value v) {
    p.values.push_back(v);
    return static_cast<std::uint32_t>(p.values.size() - 1);
  };
  const std::uint32_t rate = value({.bytes = 1});
  p.tasks.push_back({.writes = {rate}, .cost = 0.1});
  p.tasks.push_back({.reads = {2 * kLayers - 1, rate},
                     .writes = {value({.bytes = 1'000'000, .stored = true})},
                     .cost = 1,
                     .repeatable = false,
                     .after = {0}});
  const std::vector<RecomputePlan> plans = find_frontier(p);
  for (const RecomputePlan& plan : plans) EXPECT_EQ(find_fault(p, plan), "");
  EXPECT_LT(plans.back().peak, plain_plan(p).peak * 2 / 3);
}

const RecomputePlan* pick(const std::vector<RecomputePlan>& plans, std::uint64_t budget) {
  for (const RecomputePlan& plan : plans)
    if (plan.peak <= budget) return &plan;
  return nullptr;
}

TEST(Recompute, RandomProblemsAreValidMonotoneAndTheSameAgain) {
  std::mt19937 rng(5);
  for (int round = 0; round < 40; ++round) {
    RecomputeProblem p = random_problem(rng, 3 + rng() % 30, round % 2 == 0);
    RecomputeLimits limits{.runs = 60'000, .targets = 12};
    std::vector<RecomputePlan> plans = find_frontier(p, limits), again = find_frontier(p, limits);
    ASSERT_EQ(plans.size(), again.size());
    RecomputePlan plain = plain_plan(p);
    EXPECT_EQ(find_fault(p, plain), "");
    EXPECT_LE(plans[0].cost, plain.cost);
    for (std::size_t k = 0; k < plans.size(); ++k) {
      EXPECT_EQ(plans[k].runs, again[k].runs);
      EXPECT_EQ(find_fault(p, plans[k]), "") << "round " << round << " plan " << k;
      EXPECT_GE(plans[k].peak, peak_bound(p));
      if (k == 0) continue;
      EXPECT_LT(plans[k].peak, plans[k - 1].peak);
      EXPECT_GT(plans[k].cost, plans[k - 1].cost);
    }
    double slowest = HUGE_VAL;
    for (std::uint64_t b = 0; b < 200; ++b) {
      const RecomputePlan* plan = pick(plans, plain.peak * b / 199);
      double cost = plan ? plan->cost : HUGE_VAL;
      EXPECT_LE(cost, slowest);
      slowest = cost;
    }
  }
}

TEST(Recompute, TheCheckerFindsFaults) {
  RecomputeProblem p = chain(4);
  RecomputePlan plan = plain_plan(p);
  EXPECT_EQ(find_fault(p, plan), "");
  RecomputePlan wrong = plan;
  wrong.peak -= 1;
  EXPECT_NE(find_fault(p, wrong), "");
  wrong = plan;
  wrong.runs.pop_back();
  EXPECT_NE(find_fault(p, wrong), "");
  wrong = plan;
  std::swap(wrong.runs[1], wrong.runs[2]);
  EXPECT_NE(find_fault(p, wrong), "");
  wrong = plan;
  p.tasks[0].repeatable = false;
  wrong.runs.push_back(0);
  EXPECT_NE(find_fault(p, wrong), "");
}

/// The cheapest sequences that keep the plain order, whatever they drop and make again before each
/// task.
std::map<std::uint64_t, double> brute_force(const RecomputeProblem& p, std::size_t max_runs) {
  std::map<std::uint64_t, double> best;  // peak -> cost
  Runs runs;
  std::function<void(std::uint32_t)> extend = [&](std::uint32_t next) {
    if (next == p.tasks.size()) {
      double cost = 0;
      for (std::uint32_t t : runs) cost += p.tasks[t].cost;
      // The checker names the peak where it is not the one given.
      std::string text = find_fault(p, {runs, 0, cost});
      std::uint64_t peak = std::stoull(text.substr(std::string("the peak is ").size()));
      auto [it, fresh] = best.try_emplace(peak, cost);
      if (!fresh) it->second = std::min(it->second, cost);
      return;
    }
    for (std::uint32_t t = 0; t <= next; ++t) {
      if (runs.size() >= max_runs && t < next) continue;
      runs.push_back(t);
      extend(next + (t == next));
      runs.pop_back();
    }
  };
  extend(0);
  return best;
}

TEST(Recompute, AsGoodAsBruteForceOnSmallChains) {
  std::mt19937 rng(8);
  for (int round = 0; round < 4; ++round) {
    RecomputeProblem p = chain(3);
    for (auto& v : p.values) v.bytes = 1 + rng() % 9;
    std::vector<RecomputePlan> plans = find_frontier(p);
    for (auto [peak, cost] : brute_force(p, 9)) {
      const RecomputePlan* plan = pick(plans, peak);
      ASSERT_TRUE(plan) << peak;
      EXPECT_LE(plan->cost, cost) << "round " << round << " peak " << peak;
    }
  }
}

TEST(Recompute, LongChains) {
  const std::uint32_t n = 256;
  RecomputeProblem p = chain(n);
  std::vector<RecomputePlan> plans = find_frontier(p, {.runs = 3'000'000, .targets = 24});
  const double once = plain_plan(p).cost;
  EXPECT_EQ(plain_plan(p).peak, n + 1);
  // About 2 sqrt(n) with one more forward pass, and a few times log2(n) at the end.
  const RecomputePlan* root = pick(plans, 2 * 16 + 4);
  ASSERT_TRUE(root);
  EXPECT_LE(root->cost, once + n);
  EXPECT_LE(plans.back().peak, 12u);
  for (const RecomputePlan& plan : plans) EXPECT_EQ(find_fault(p, plan), "");
}

TEST(Recompute, SkipConnections) {
  // Every fourth value is read again far behind, as in a U-Net.
  const std::uint32_t n = 64;
  RecomputeProblem p = chain(n);
  for (std::uint32_t k = 0; k < n / 2; k += 4) p.tasks[n - 1 - k].reads.push_back(k);
  std::vector<RecomputePlan> plans = find_frontier(p, {.runs = 2'000'000, .targets = 24});
  const double once = plain_plan(p).cost;
  const RecomputePlan* half = pick(plans, (n + 1) / 2);
  ASSERT_TRUE(half);
  EXPECT_LE(half->cost, once + n);
  for (const RecomputePlan& plan : plans) EXPECT_EQ(find_fault(p, plan), "");
}

/// A training step under every budget that can be planned gives the bits it gives without one.
void expect_same_bits(const std::function<Function(const std::string& memory)>& make,
                      const std::vector<Array>& arguments, const std::vector<Dims>& shapes) {
  const std::vector<Array> want = make("").call(arguments);
  const std::int64_t peak = make("").memory(shapes).peak;
  int fitted = 0;
  for (int part = 95; part > 0; part -= 15) {
    Function f = make(std::to_string(peak * part / 100));
    MemoryReport r;
    try {
      r = f.memory(shapes);
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::Memory);
      break;
    }
    EXPECT_LE(r.peak, peak * part / 100);
    std::vector<Array> got = f.call(arguments);
    for (std::size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(same_bits(got[k], want[k])) << part;
    fitted += !r.recomputed.empty();
  }
  EXPECT_GT(fitted, 0);
}

/// Outputs, and parameters updated on the way.
Function training(const nn::LayerPtr& model, const Expr& x, const Expr& y,
                  const std::string& memory) {
  nn::Pass pass{.training = true};
  Expr loss = nn::cross_entropy((*model)(x, pass), y);
  std::vector<Expr> outputs = grad(loss, model->trainable());
  outputs.push_back(loss);
  return function({x, y}, outputs,
                  {.updates = optim::adam(loss, model->trainable()).pairs,
                   .memory = memory,
                   .micro_batches = 1});
}

Array classes(std::int64_t count) {
  Array y = Array::empty(DType::I32, {count});
  for (std::int64_t k = 0; k < count; ++k) y.set_int(k, k % 3);
  return y;
}

TEST(Recompute, AConvnetGivesTheSameBitsUnderBudgets) {
  auto make = [](const std::string& memory) {
    nn::LayerPtr m = nn::sequential(
        {nn::conv2d(8, {3}, {.border = "half"}), nn::batch_norm(), nn::activation("relu"),
         nn::residual(nn::conv2d(8, {3}, {.border = "half", .activation = "relu"})),
         nn::max_pool({2}), nn::conv2d(8, {3}, {.border = "half", .activation = "relu"}),
         nn::flatten(), nn::dense(3)});
    m->build({-1, 3, 16, 16});
    return training(m, tensor4("x"), ivector("y"), memory);
  };
  expect_same_bits(make, {random_array({32, 3, 16, 16}, 1), classes(32)}, {{32, 3, 16, 16}, {32}});
}

TEST(Recompute, AnMlpGivesTheSameBitsUnderBudgets) {
  auto make = [](const std::string& memory) {
    std::vector<nn::Named> layers;
    for (int k = 0; k < 8; ++k) layers.emplace_back(nn::dense(24, {.activation = "tanh"}));
    layers.emplace_back(nn::dropout(0.2));
    layers.emplace_back(nn::dense(3));
    nn::LayerPtr m = nn::sequential(std::move(layers));
    m->build({-1, 20});
    return training(m, matrix("x"), ivector("y"), memory);
  };
  expect_same_bits(make, {random_array({600, 20}, 1), classes(600)}, {{600, 20}, {600}});
}

}  // namespace
}  // namespace snug
