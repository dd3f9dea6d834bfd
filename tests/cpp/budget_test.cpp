// Budgets: the way that is chosen, what is refused, and the remedies.
#include <gtest/gtest.h>

#include <limits>

#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

/// Training of a network of two layers on a batch of rows.
struct Network {
  Expr x = matrix("x"), y = matrix("y");
  Expr w1 = shared(random_array({64, 256}, 1), "w1"), w2 = shared(random_array({256, 8}, 2), "w2");

  Function function(const FunctionOptions& given) {
    FunctionOptions options = given;
    Expr loss = mean(sqr(dot(tanh(tanh(dot(x, w1))), w2) - y));
    std::vector<Expr> by = grad(loss, std::vector<Expr>{w1, w2});
    options.updates = {{w1, w1 - 0.01F * by[0]}, {w2, w2 - 0.01F * by[1]}};
    return snug::function({x, y}, loss, options);
  }
  static std::vector<Dims> shapes(std::int64_t rows) { return {{rows, 64}, {rows, 8}}; }
};

std::int64_t peak_of(const FunctionOptions& options, std::int64_t rows = 512) {
  return Network().function(options).memory(Network::shapes(rows)).peak;
}

TEST(Budget, RunsInSlicesWhereThatIsTheOnlyWay) {
  const std::int64_t plain = peak_of({});
  Network whole, cut;
  Function a = whole.function({});
  Function b = cut.function({.memory = std::to_string(plain * 2 / 3), .recompute = false});
  const MemoryReport plan = b.memory(Network::shapes(512));
  EXPECT_GT(plan.micro_batches, 1);
  EXPECT_TRUE(plan.recomputed.empty());
  EXPECT_LE(plan.peak, plain * 2 / 3);
  const Array x = random_array({512, 64}, 3), y = random_array({512, 8}, 4);
  for (int step = 0; step < 3; ++step)
    EXPECT_NEAR(a(x, y).at_double(0), b(x, y).at_double(0), 1e-5);
  // A batch that fits as a whole runs as a whole, with the same parameters.
  const Array few = random_array({16, 64}, 5), labels = random_array({16, 8}, 6);
  EXPECT_EQ(b.memory(Network::shapes(16)).micro_batches, 0);
  EXPECT_NEAR(a(few, labels).at_double(0), b(few, labels).at_double(0), 1e-5);
}

TEST(Budget, SlicesReportWhatTheyTakeAndFail) {
  const std::int64_t plain = peak_of({});
  Network network;
  Function f = network.function(
      {.memory = std::to_string(plain * 2 / 3), .recompute = false, .profile = true});
  const Array x = random_array({512, 64}, 3), y = random_array({512, 8}, 4);
  f(x, y);
  EXPECT_GT(f.counter("arena_bytes"), 0);
  EXPECT_EQ(f.profile().calls, 1);
  // A call that fails leaves the function as it was.
  EXPECT_THROW(f(x, random_array({511, 8}, 4)), Error);
  EXPECT_NO_THROW(f(x, y));
  f.free();
  EXPECT_EQ(f.counter("arena_bytes"), 0);
}

TEST(Budget, ThatLeavesTheArenaNothingIsRefused) {
  const std::int64_t variables = (64 * 256 + 256 * 8) * 4, output = 4;
  for (const std::int64_t budget : {variables / 2, variables + output - 1, variables + output}) {
    Network network;
    const Function f = network.function({.memory = std::to_string(budget)});
    EXPECT_THROW(f.memory(Network::shapes(16)), MemoryError) << budget;
    EXPECT_THROW(f(random_array({16, 64}, 3), random_array({16, 8}, 4)), MemoryError) << budget;
  }
}

TEST(Budget, PredictedTimeAndPeakFollowTheBudget) {
  const std::int64_t plain = peak_of({});
  double slower = std::numeric_limits<double>::infinity();
  int plans = 0;
  for (int percent = 30; percent <= 105; percent += 3) {
    Network network;
    const std::int64_t budget = plain * percent / 100;
    Function f = network.function({.memory = std::to_string(budget), .plan_only = true});
    try {
      const MemoryReport r = f.memory(Network::shapes(512));
      EXPECT_LE(r.peak, budget);
      EXPECT_LE(r.seconds, slower * (1 + 1e-12)) << percent;
      slower = r.seconds;
      ++plans;
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::Memory);
      EXPECT_EQ(plans, 0) << "a smaller budget was met: " << e.what();
    }
  }
  EXPECT_GT(plans, 5);
}

TEST(Budget, EveryRemedyHolds) {
  const std::int64_t plain = peak_of({}), budget = plain * 3 / 4;
  Network network;
  Function f = network.function({.memory = std::to_string(budget),
                                 .micro_batches = 1,
                                 .recompute = false,
                                 .plan_only = true});
  const std::vector<Remedy> ways =
      f.remedies(Network::shapes(512), static_cast<std::uint64_t>(budget));
  bool batch = false, slices = false, memory = false;
  for (const Remedy& r : ways) {
    switch (r.kind) {
      case Remedy::Kind::Batch:
        batch = true;
        EXPECT_EQ(peak_of({}, r.count), r.peak);
        EXPECT_GT(peak_of({}, r.count + 1), budget);
        break;
      case Remedy::Kind::MicroBatches:
        slices = true;
        EXPECT_EQ(peak_of({.micro_batches = r.count}), r.peak);
        break;
      case Remedy::Kind::Offload:
        EXPECT_EQ(peak_of({.memory = std::to_string(budget),
                           .micro_batches = 1,
                           .recompute = false,
                           .offload = "."}),
                  r.peak);
        break;
      case Remedy::Kind::Memory:
        memory = true;
        EXPECT_EQ(r.peak, plain);
        continue;
      case Remedy::Kind::Activations:
        EXPECT_EQ(peak_of({.memory = std::to_string(budget),
                           .micro_batches = 1,
                           .recompute = false,
                           .activations = DType::BF16}),
                  r.peak);
        break;
      case Remedy::Kind::Recompute:
        EXPECT_EQ(peak_of({.memory = std::to_string(budget), .micro_batches = 1}), r.peak);
        break;
    }
    EXPECT_LE(r.peak, budget);
  }
  EXPECT_TRUE(batch && slices && memory);
}

TEST(Budget, ARefusalSaysWhatFits) {
  Network network;
  Function f = network.function({.memory = "200KiB", .micro_batches = 1});
  try {
    f(random_array({512, 64}, 3), random_array({512, 8}, 4));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Memory);
    const std::string text = e.what();
    for (const char* part : {"the budget is 200.00 KiB", "parameters", "peak", "what fits",
                             "a batch of", ".memory = \""})
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  // Nothing is left half made.
  EXPECT_EQ(f.counter("arena_bytes"), 0);
  EXPECT_NO_THROW(f(random_array({2, 64}, 3), random_array({2, 8}, 4)));
}

TEST(Budget, MaxBatchIsTheLargest) {
  Network network;
  Function f = network.function({.micro_batches = 1, .recompute = false, .plan_only = true});
  const MaxBatch found = f.max_batch(Network::shapes(1), "1MiB");
  const auto& [rows, plan] = std::tie(found.rows, found.plan);
  ASSERT_GT(rows, 1);
  EXPECT_EQ(plan.peak, peak_of({}, rows));
  EXPECT_LE(plan.peak, 1 << 20);
  EXPECT_GT(peak_of({}, rows + 1), 1 << 20);
  EXPECT_EQ(f.max_batch(Network::shapes(1), "1KiB").rows, 0);
  EXPECT_THROW(f.max_batch(Network::shapes(1)), Error);  // no budget
}

TEST(Budget, PlanningLeavesNoTrace) {
  Network network;
  Function f = network.function({});
  f.memory(Network::shapes(4096));
  EXPECT_EQ(f.counter("plans"), 0);
  const std::int64_t small = f.memory(Network::shapes(8)).arena;
  f(random_array({8, 64}, 3), random_array({8, 8}, 4));
  EXPECT_LT(f.counter("arena_bytes"), small + (1 << 21));
}

TEST(Budget, AFrontierIsBuiltOnce) {
  constexpr std::int64_t kRows = 521;  // of no other test
  const std::int64_t plain = peak_of({}, kRows);
  Network network, other;
  Function f = network.function({.memory = std::to_string(plain * 9 / 10)});
  const MemoryReport first = f.memory(Network::shapes(kRows));
  const std::int64_t searches = f.counter("frontiers");
  EXPECT_GT(searches, 0);
  EXPECT_EQ(f.memory(Network::shapes(kRows)).peak, first.peak);
  f(random_array({kRows, 64}, 3), random_array({kRows, 8}, 4));
  EXPECT_EQ(f.counter("frontiers"), searches);
  // Another function of the same program, with a budget for which the same ways are looked at.
  Function g = other.function({.memory = std::to_string(plain * 9 / 10 + 100)});
  EXPECT_EQ(g.memory(Network::shapes(kRows)).seconds, first.seconds);
  EXPECT_EQ(g.counter("frontiers"), 0);
  g.free();  // the last one that used them
  EXPECT_EQ(f.memory(Network::shapes(kRows)).peak, first.peak);
  EXPECT_GT(f.counter("frontiers"), searches);
}

TEST(Budget, AFunctionToPlanWithIsNotCalled) {
  Network network;
  Function f = network.function({.plan_only = true});
  EXPECT_THROW(f(random_array({8, 64}, 3), random_array({8, 8}, 4)), Error);
  EXPECT_EQ(f.counter("kernels_compiled"), 0);
}

}  // namespace
}  // namespace snug
