// Activations that are kept for the backward part in bfloat16.
#include <gtest/gtest.h>

#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

/// A step of training a network of two layers, whose first one gives most of what is kept.
struct Network {
  Expr x = matrix("x"), y = matrix("y");
  Expr w1 = shared(random_array({16, 256}, 1), "w1"), w2 = shared(random_array({256, 8}, 2), "w2");

  Function function(const FunctionOptions& given, bool update = true) {
    FunctionOptions options = given;
    const Expr loss = mean(sqr(dot(relu(tanh(dot(x, w1))), w2) - y));
    std::vector<Expr> by = grad(loss, std::vector<Expr>{w1, w2});
    if (update) options.updates = {{w1, w1 - 0.01F * by[0]}, {w2, w2 - 0.01F * by[1]}};
    return snug::function(
        {x, y}, update ? std::vector<Expr>{loss} : std::vector{loss, by[0], by[1]}, options);
  }
  static std::vector<Dims> shapes(std::int64_t rows) { return {{rows, 16}, {rows, 8}}; }
  static std::vector<Array> batch(std::int64_t rows) {
    return {random_array({rows, 16}, 3), random_array({rows, 8}, 4)};
  }
};

const FunctionOptions kAlways{.activations = DType::BF16, .always_round = true};

MemoryReport plan_of(FunctionOptions options, std::int64_t rows = 512) {
  options.plan_only = true;
  return Network().function(options).memory(Network::shapes(rows));
}

/// The bytes that only rounding saves: neither recomputation nor slices are allowed.
FunctionOptions within(std::int64_t bytes, DType activations = DType::F32) {
  return {.memory = std::to_string(bytes),
          .micro_batches = 1,
          .recompute = false,
          .activations = activations};
}

void expect_equal(const Array& a, const Array& b) {
  ASSERT_EQ(a.shape, b.shape);
  for (std::int64_t i = 0; i < a.size(); ++i) ASSERT_EQ(a.at_double(i), b.at_double(i)) << i;
}
/// Within `part` of the largest element, and not all equal.
void expect_near(const Array& got, const Array& want, double part) {
  double largest = 0, apart = 0;
  for (std::int64_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::abs(want.at_double(i)));
  for (std::int64_t i = 0; i < want.size(); ++i)
    apart = std::max(apart, std::abs(want.at_double(i) - got.at_double(i)));
  EXPECT_GT(apart, 0);
  EXPECT_LE(apart, part * largest);
}

TEST(RoundActivations, ForwardIsExactAndGradientsAreNear) {
  Network network;
  Function exact = network.function({}, false), rounded = network.function(kAlways, false);
  const std::vector<Array> batch = Network::batch(300), want = exact.call(batch),
                           got = rounded.call(batch);
  expect_equal(got[0], want[0]);
  for (std::size_t k : {1, 2}) expect_near(got[k], want[k], 1.0 / 128);
}

TEST(RoundActivations, TheReportSaysSo) {
  const MemoryReport plain = plan_of({}), rounded = plan_of(kAlways);
  EXPECT_EQ(plain.rounded, 0);
  EXPECT_EQ(plain.describe().find("bfloat16"), std::string::npos);
  EXPECT_GT(rounded.rounded, 0);
  EXPECT_NE(rounded.describe().find("in bfloat16 to save memory: lossy"), std::string::npos);
  Network network;
  EXPECT_NE(network.function(kAlways).explain().find("in bfloat16: lossy"), std::string::npos);
}

TEST(RoundActivations, TheCheckingModeAgrees) {
  FunctionOptions options = kAlways;
  options.mode = Mode::Check;
  Network network;
  Function f = network.function(options);
  EXPECT_NO_THROW(f.call(Network::batch(37)));
}

/// The gradients of twelve layers.
struct Chain {
  Expr x = matrix("x");
  std::vector<Expr> gradients;
  Chain() {
    std::vector<Expr> weights;
    Expr h = x;
    for (std::uint64_t k = 0; k < 12; ++k) {
      weights.push_back(shared(random_array({64, 64}, k, -0.3, 0.3)));
      h = relu(dot(h, weights.back()));
    }
    gradients = grad(mean(sqr(h)), weights);
  }
  Function function(const FunctionOptions& options) const {
    return snug::function({x}, gradients, options);
  }
  MemoryReport plan(const FunctionOptions& options) const {
    return function(options).memory(std::vector<Dims>{{1024, 64}});
  }
};

/// What is restored for one product is gone at the next.
TEST(RoundActivations, KeepsHalfAsMuch) {
  const Chain chain;
  const std::int64_t one = 1024 * 64 * 4;
  EXPECT_GE(chain.plan({}).arena, 12 * one);
  EXPECT_LE(chain.plan(kAlways).arena, 12 * one / 2 + 3 * one);
}

/// Whether an element is the largest must not depend on rounding, and neither must an index.
TEST(RoundActivations, DecisionsAreExact) {
  Expr x = matrix("x"), w = shared(random_array({16, 64}, 1), "w");
  Expr h = tanh(dot(x, w));
  Expr loss = sum(max(h, {1})) + sum(sqr(subtensor(w, {0, cast(abs(h) * 9.0F, DType::I64)})));
  std::vector<Expr> results = {loss, grad(sum(max(h, {1})), w)};
  const Array in = random_array({200, 16}, 2);
  const std::vector<Array> want = function({x}, results).call({in}),
                           got = function({x}, results, kAlways).call({in});
  expect_equal(got[0], want[0]);
  // The mask is exact; the derivative of tanh is made of what is kept.
  for (std::int64_t i = 0; i < want[1].size(); ++i)
    ASSERT_NEAR(got[1].at_double(i), want[1].at_double(i), 0.05);
}

TEST(RoundActivations, OnlyWhereNoExactWayFits) {
  const std::int64_t plain = plan_of({}).peak, rounded = plan_of(kAlways).peak;
  ASSERT_LT(rounded, plain);
  const auto allowed = [&](std::int64_t budget, bool recompute = true, std::int64_t slices = 0) {
    FunctionOptions options = within(budget, DType::BF16);
    options.recompute = recompute;
    options.micro_batches = slices;
    return plan_of(options);
  };
  EXPECT_EQ(plan_of({.activations = DType::BF16}).rounded, 0);  // no budget
  EXPECT_EQ(allowed(plain, false, 1).rounded, 0);
  EXPECT_EQ(allowed(rounded).rounded, 0);  // slices do it
  const MemoryReport only = allowed(rounded, false, 1);
  EXPECT_GT(only.rounded, 0);
  EXPECT_EQ(only.peak, rounded);
  EXPECT_EQ(allowed(plain * 2 / 3, false, 2).rounded, 0);
}

TEST(RoundActivations, RefusedWhereItIsNotAllowed) {
  const std::int64_t budget = plan_of(kAlways).peak;
  const std::vector<Array> batch = Network::batch(512);
  Network network, other;
  Function refused = network.function(within(budget));
  try {
    refused.call(batch);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Memory);
    EXPECT_NE(std::string(e.what()).find(".activations = DType::BF16"), std::string::npos)
        << e.what();
  }
  Function allowed = other.function(within(budget, DType::BF16));
  const Array loss = allowed.call(batch)[0];
  EXPECT_GT(allowed.counter("arena_bytes"), 0);
  expect_equal(loss, Network().function({}).call(batch)[0]);
  // A batch that fits as it is runs as it is.
  EXPECT_EQ(allowed.memory(Network::shapes(8)).rounded, 0);
  EXPECT_NO_THROW(allowed.call(Network::batch(8)));
  allowed.free();
  EXPECT_EQ(allowed.counter("arena_bytes"), 0);
}

TEST(RoundActivations, TheRemedyHolds) {
  const std::int64_t plain = plan_of({}).peak, rounded = plan_of(kAlways).peak,
                     budget = (plain + rounded) / 2;
  Network network;
  FunctionOptions options = within(budget);
  options.plan_only = true;
  Function f = network.function(options);
  bool found = false;
  for (const Remedy& r : f.remedies(Network::shapes(512), static_cast<std::uint64_t>(budget))) {
    if (r.kind != Remedy::Kind::Activations) continue;
    found = true;
    EXPECT_EQ(r.peak, plan_of(within(budget, DType::BF16)).peak);
    EXPECT_EQ(r.flag(), "--precision bfloat16-activations");
    EXPECT_GT(r.time_ratio, 0.5);
  }
  EXPECT_TRUE(found);
}

/// With slices and with tasks that run again.
TEST(RoundActivations, GoesTogetherWithExactWays) {
  FunctionOptions both = kAlways;
  both.micro_batches = 2;
  const MemoryReport sliced = plan_of(both);
  EXPECT_GT(sliced.rounded, 0);
  Network whole, cut;
  const std::vector<Array> batch = Network::batch(300);
  const std::vector<Array> want = whole.function({}, false).call(batch),
                           got = cut.function(both, false).call(batch);
  EXPECT_NEAR(got[0].at_double(0), want[0].at_double(0), 1e-5);
  for (std::size_t k : {1, 2}) expect_near(got[k], want[k], 1.0 / 100);

  // What a loop over slices makes is told apart: the loss depends on a sum outside it.
  Expr x = matrix("x"), w = shared(random_array({16, 64}, 1), "w");
  Expr loss = mean(sqr(tanh(dot(x, w)))) + 0.1F * sum(sqr(w));
  FunctionOptions exact;
  exact.micro_batches = 2;
  const auto loss_by = [&](const FunctionOptions& options) {
    return function({x}, {loss, grad(loss, w)}, options).call({batch[0]})[0];
  };
  expect_equal(loss_by(both), loss_by(exact));

  // Recomputation keeps the bits of the rounded program.
  const Chain chain;
  FunctionOptions tight = kAlways;
  tight.micro_batches = 1;
  tight.memory = std::to_string(chain.plan(kAlways).peak * 3 / 4);
  EXPECT_FALSE(chain.plan(tight).recomputed.empty());
  const std::vector<Array> rows = {random_array({1024, 64}, 5)};
  const std::vector<Array> a = chain.function(tight).call(rows),
                           b = chain.function(kAlways).call(rows);
  for (std::size_t k = 0; k < a.size(); ++k) expect_equal(a[k], b[k]);
}

}  // namespace
}  // namespace snug
