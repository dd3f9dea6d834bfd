// The one program that runs through all stages: each line of it stays a test.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

void expect_near(const Array& a, const Array& b, double tolerance) {
  ASSERT_EQ(a.shape, b.shape);
  for (std::int64_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a.at_double(i), b.at_double(i), tolerance * (1 + std::abs(b.at_double(i))))
        << "element " << i;
}

/// The training program of the thread: a dataset in a shared variable, batches by givens, dropout,
/// softmax and cross-entropy by index, SGD, and an embedding whose rows alone are updated.
struct Net {
  static constexpr std::int64_t kRows = 70, kFeatures = 20, kHidden = 16, kClasses = 10,
                                kBatch = 16;
  Expr data = shared(random_array({kRows, kFeatures}, 1), "data");
  Expr labels = shared(random_integers({kRows}, 2, kClasses - 1), "labels");
  Expr words = shared(random_integers({kRows}, 3, 999), "words");
  Expr W1 = shared(random_array({kFeatures, kHidden}, 4, -0.3, 0.3), "W1");
  Expr b1 = shared(zeros({kHidden}), "b1");
  Expr W2 = shared(random_array({kHidden, kClasses}, 5, -0.3, 0.3), "W2");
  Expr b2 = shared(zeros({kClasses}), "b2");
  Expr E = shared(random_array({1000, kHidden}, 6, -0.1, 0.1), "E");
  RandomStream stream{7};
  Expr x = matrix("x"), y = ivector("y"), idx = ivector("idx"), i = lscalar("i");

  Function make(FunctionOptions options = {}) {
    Expr rows = subtensor(E, {idx});
    Expr h = dropout(tanh(dot(x, W1) + b1 + rows), 0.25, stream);
    Expr p = softmax(dot(h, W2) + b2);
    Expr n = shape_i(y, 0);
    Expr loss = mean(-log(subtensor(p, {arange(n), y})));
    auto g = grad(loss, std::vector<Expr>{W1, b1, W2, b2, rows});
    options.updates = {{W1, W1 - 0.5f * g[0]},
                       {b1, b1 - 0.5f * g[1]},
                       {W2, W2 - 0.5f * g[2]},
                       {b2, b2 - 0.5f * g[3]},
                       {E, inc_subtensor(E, {idx}, -0.5f * g[4])}};
    auto batch = [&](const Expr& v) {
      return subtensor(v, {IndexItem::range(i * kBatch, (i + 1) * kBatch)});
    };
    options.givens = {{x, batch(data)}, {y, batch(labels)}, {idx, batch(words)}};
    return function({i}, loss, options);
  }
  std::vector<Array> values() {
    std::vector<Array> out;
    for (const Expr& v : {W1, b1, W2, b2, E}) out.push_back(as_shared(v)->get_value());
    return out;
  }
};

TEST(Thread, TrainsBatchesOfASharedDatasetAndAgreesWithTheReference) {
  Net compiled, reference;
  Function f = compiled.make();
  Function r = reference.make({.mode = Mode::Reference});
  std::int64_t batches = (Net::kRows + Net::kBatch - 1) / Net::kBatch;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < batches; ++i) {
      Array a = f(Array::scalar(i)), b = r(Array::scalar(i));
      ASSERT_NEAR(a.item<double>(), b.item<double>(), 1e-4) << "batch " << i;
    }
  auto a = compiled.values(), b = reference.values();
  for (std::size_t k = 0; k < a.size(); ++k) expect_near(a[k], b[k], 1e-3);
}

TEST(Thread, RaggedBatchMakesNoCodeAndNoPlan) {
  Net net;
  Function f = net.make();
  f(Array::scalar(std::int64_t{0}));
  std::int64_t plans = f.counter("plans"), compiled = f.counter("kernels_compiled"),
               programs = f.counter("programs");
  for (std::int64_t i = 0; i < 5; ++i) f(Array::scalar(i));  // batch 4 has 6 rows
  EXPECT_EQ(f.counter("plans"), plans);
  EXPECT_EQ(f.counter("programs"), programs);
  EXPECT_EQ(f.counter("kernels_compiled"), compiled);
  EXPECT_EQ(f.counter("instances"), 2);
}

TEST(Thread, AnEmptyBatchRuns) {
  Net net;
  Function f = net.make();
  auto before = net.values();
  Array loss = f(Array::scalar(std::int64_t{100}));
  EXPECT_TRUE(std::isnan(loss.item<double>()));
}

TEST(Thread, LabelOutOfRangeLeavesSharedVariablesAsTheyWere) {
  Net net;
  Function f = net.make();
  Array bad = as_shared(net.labels)->get_value();
  bad.set_int(3, 10);
  as_shared(net.labels)->set_value(bad);
  auto before = net.values();
  try {
    f(Array::scalar(std::int64_t{0}));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Index);
    EXPECT_NE(std::string(e.what()).find("thread_test.cpp"), std::string::npos) << e.what();
    EXPECT_NE(e.message().find("10"), std::string::npos) << e.what();
  }
  auto after = net.values();
  for (std::size_t k = 0; k < before.size(); ++k) EXPECT_TRUE(same_bits(before[k], after[k])) << k;
}

TEST(Thread, FailingCholeskyLeavesSharedVariablesAsTheyWere) {
  Expr a = matrix("a");
  Expr s = shared(zeros({3}), "s"), count = shared(zeros({}), "count");
  Expr L = cholesky(a);
  Function f = function({a}, sum(L), {.updates = {{s, s + 1.0f}, {count, count + sum(L)}}});
  Array good = Array::zeros(DType::F32, {3, 3});
  for (int k = 0; k < 3; ++k) good.set_double(k * 4, 4.0);
  EXPECT_NEAR(f(good).item<double>(), 6.0, 1e-5);
  EXPECT_NEAR(as_shared(count)->get_value().item<double>(), 6.0, 1e-5);
  Array bad = good.contiguous_copy();
  bad.set_double(8, -1.0);
  EXPECT_THROW(f(bad), Error);
  EXPECT_NEAR(as_shared(count)->get_value().item<double>(), 6.0, 1e-5);
  EXPECT_EQ(as_shared(s)->get_value().at_double(0), 1.0);
}

TEST(Thread, ConvolutionWithAReorderedWeight) {
  Expr x = tensor4("x");
  Expr W = shared(random_array({8, 3, 3, 3}, 8), "W");
  Expr out = conv2d(x, W);
  Expr loss = sum(sqr(out));
  Expr g = grad(loss, W);
  Array images = random_array({4, 3, 12, 12}, 9);
  auto fast = function({x}, {out, g}).call({images});
  auto slow = function({x}, {out, g}, {.mode = Mode::Reference}).call({images});
  expect_near(fast[0], slow[0], 1e-4);
  expect_near(fast[1], slow[1], 1e-3);
}

TEST(Thread, MemoryOfRecipesPlansWithoutAllocating) {
  Recipe recipe;
  recipe.shape = {100000, 50000};  // 20 GB
  Expr W = shared(recipe, "W");
  Expr x = matrix("x");
  std::int64_t before = live_storage_bytes();
  Function f = function({x}, sum(dot(x, W)));
  MemoryReport r = f.memory(std::vector<Dims>{{64, 100000}});
  EXPECT_EQ(r.parameters, 4ll * 100000 * 50000);
  EXPECT_GE(r.arena, 4ll * 64 * 50000);
  EXPECT_LT(live_storage_bytes() - before, 1 << 20);
  EXPECT_FALSE(as_shared(W)->materialised());
}

TEST(Thread, BudgetForcesRecomputationThroughDropoutEqualToTheBit) {
  auto build = [](const std::string& memory, std::vector<Array>& grads) {
    RandomStream stream(11);
    Expr x = matrix("x");
    Expr W = shared(random_array({256, 256}, 12, -0.1, 0.1), "W");
    Expr h = x;
    for (int layer = 0; layer < 4; ++layer) h = dropout(tanh(dot(h, W)), 0.3, stream);
    Expr loss = sum(sqr(h));
    Function f = function({x}, {loss, grad(loss, W)}, {.memory = memory, .micro_batches = 1});
    Dims shape{512, 256};
    MemoryReport r = f.memory(std::vector<Dims>{shape});
    grads = f.call({random_array(shape, 13)});
    return r;
  };
  std::vector<Array> plain, tight;
  MemoryReport free = build("", plain);
  EXPECT_TRUE(free.recomputed.empty());
  MemoryReport fitted = build(std::to_string(free.peak - 600000), tight);
  EXPECT_FALSE(fitted.recomputed.empty());
  EXPECT_LE(fitted.peak, free.peak - 600000);
  for (std::size_t k = 0; k < plain.size(); ++k) EXPECT_TRUE(same_bits(plain[k], tight[k])) << k;
}

TEST(Thread, TheSameInTwoMicroBatches) {
  Net whole, halves;
  Function f = whole.make(), h = halves.make({.micro_batches = 2});
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < 5; ++i)  // batch 4 has 6 rows
      ASSERT_NEAR(h(Array::scalar(i)).item<double>(), f(Array::scalar(i)).item<double>(), 1e-5);
  EXPECT_TRUE(std::isnan(h(Array::scalar(std::int64_t{100})).item<double>()));  // an empty batch
  f(Array::scalar(std::int64_t{100}));
  auto a = halves.values(), b = whole.values();
  for (std::size_t k = 0; k < a.size(); ++k) expect_near(a[k], b[k], 1e-5);
  EXPECT_EQ(h.counter("plans"), 1);  // the ragged batch fits the first plan
}

TEST(Thread, ImpossibleBudgetIsRefusedBeforeRunning) {
  Expr x = matrix("x");
  Expr W = shared(zeros({256, 256}), "W");
  Function f = function({x}, sum(tanh(dot(x, W))), {.memory = "262200"});
  try {
    f(random_array({512, 256}, 1));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Memory);
  }
}

TEST(Thread, MaskedSelectionWithItsGradientAtABound) {
  Expr x = vector("x");
  Expr mask = gt(x, 0.0f);
  Expr chosen = subtensor(x, {mask});
  Expr loss = sum(sqr(chosen));
  Function f = function({x}, {chosen, grad(loss, x)});
  Array a = random_array({100}, 14);
  auto out = f.call({a});
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    double v = a.at_double(i);
    EXPECT_FLOAT_EQ(static_cast<float>(out[1].at_double(i)), static_cast<float>(v > 0 ? 2 * v : 0));
    if (v > 0) {
      EXPECT_EQ(out[0].at_double(n++), v);
    }
  }
  EXPECT_EQ(out[0].shape, (Dims{n}));
}

TEST(Thread, MasksOfDifferentCountsAreAnErrorBeforeAnythingIsUpdated) {
  Expr x = vector("x"), y = vector("y");
  Expr s = shared(zeros({}), "s");
  Expr both = subtensor(x, {gt(x, 0.0f)}) + subtensor(y, {gt(y, 0.0f)});
  Function f = function({x, y}, sum(both), {.updates = {{s, s + 1.0f}}});
  Array a = Array::from<float>({1, 2, -1}, {3}), b = Array::from<float>({3, -1, 4}, {3});
  EXPECT_FLOAT_EQ(f(a, b).item<float>(), 10);
  Array c = Array::from<float>({3, -1, -4}, {3});
  EXPECT_THROW(f(a, c), Error);
  EXPECT_EQ(as_shared(s)->get_value().item<double>(), 1);
}

TEST(Thread, SizesThatDependOnComputedValuesMakeAStage) {
  Expr x = lvector("x");
  Function f = function({x}, arange(sum(x)) * 2);
  Array out = f(Array::from<std::int64_t>({1, 2, 3}, {3}));
  ASSERT_EQ(out.shape, (Dims{6}));
  EXPECT_EQ(out.at_int(5), 10);
  EXPECT_NE(f.memory(std::vector<Dims>{{3}}).note.find("not known before running"),
            std::string::npos);
}

TEST(Thread, BothStagesSeeTheSameValues) {
  Expr n = shared(Array::from<std::int64_t>({1}, {1}), "n");
  Function read = function({}, {arange(sum(n)), n});
  Function step = function({}, std::vector<Expr>{}, {.updates = {{n, mod(n, 9) + 1}}});
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) step.call({});
  });
  for (int k = 0; k < 2000; ++k) {
    auto out = read.call({});
    std::int64_t value = out[1].item<std::int64_t>();
    ASSERT_EQ(out[0].size(), value);
  }
  stop = true;
  writer.join();
}

TEST(Thread, LoopsCarryStatesAndStackOutputs) {
  Expr xs = matrix("xs"), W = shared(random_array({4, 4}, 20), "W");
  auto step = [&](const Expr&, const std::vector<Expr>& in, const std::vector<Expr>& state) {
    Expr h = tanh(dot(in[0], W) + state[0]);
    return LoopStep{{h}, {sqr(h)}};
  };
  LoopResult r = loop(step, {xs}, {Expr(zeros({4}))});
  Expr loss = sum(r.outputs[0]) + sum(r.states[0]);
  std::vector<Expr> outputs{r.states[0], r.outputs[0], grad(loss, W)};
  Array in = random_array({6, 4}, 21);
  auto fast = function({xs}, outputs).call({in});
  auto slow = function({xs}, outputs, {.mode = Mode::Reference}).call({in});
  for (std::size_t k = 0; k < fast.size(); ++k) expect_near(fast[k], slow[k], 1e-4);
}

TEST(Thread, StepsOfEitherSign) {
  Expr x = vector("x"), s = lscalar("s");
  Function f = function({x, s}, subtensor(x, {IndexItem::range({}, {}, s)}) * 2.0f);
  Array a = random_array({7}, 15);
  for (std::int64_t step : {1, 2, -1, -3}) {
    Array out = f(a, Array::scalar(step));
    std::int64_t k = 0;
    for (std::int64_t i = step > 0 ? 0 : 6; i >= 0 && i < 7; i += step, ++k)
      EXPECT_FLOAT_EQ(out.at_double(k), 2 * static_cast<float>(a.at_double(i)));
    EXPECT_EQ(out.size(), k);
  }
  EXPECT_EQ(f.counter("programs"), 1);
}

TEST(Thread, UpdatesReadOldValuesAndMayChangeShapes) {
  Expr a = shared(Array::from<float>({1, 2}, {2}), "a"),
       b = shared(Array::from<float>({3, 4}, {2}), "b");
  Expr W = shared(random_array({3, 2}, 16), "W");
  Array w0 = as_shared(W)->get_value();
  Function swap =
      function({}, std::vector<Expr>{}, {.updates = {{a, b}, {b, a}, {W, transpose(W)}}});
  swap.call({});
  EXPECT_EQ(as_shared(a)->get_value().at_double(0), 3);
  EXPECT_EQ(as_shared(b)->get_value().at_double(1), 2);
  Array w1 = as_shared(W)->get_value();
  EXPECT_EQ(w1.shape, (Dims{2, 3}));
  EXPECT_EQ(w1.at_double(1), w0.at_double(2));
  swap.call({});
  EXPECT_TRUE(same_bits(as_shared(W)->get_value(), w0));

  Expr V = matrix("V");
  Function grow = function({V}, sum(W), {.updates = {{W, V}}});
  grow(random_array({10, 10}, 17));
  EXPECT_EQ(as_shared(W)->shape(), (Dims{10, 10}));
}

TEST(Thread, TheSameOutputTwiceIsTwoArrays) {
  Expr x = vector("x");
  Expr y = x * 2.0f;
  auto out = function({x}, {y, y}).call({random_array({5}, 18)});
  EXPECT_NE(out[0].data, out[1].data);
  EXPECT_TRUE(same_bits(out[0], out[1]));
}

TEST(Thread, TwoTrainTwoPredictAtOnce) {
  Expr x = matrix("x");
  Expr W = shared(zeros({64, 8}), "W"), steps = shared(zeros({}), "steps");
  Function train =
      function({x}, std::vector<Expr>{}, {.updates = {{W, W + mean(x)}, {steps, steps + 1.0f}}});
  Function predict = function({x}, {dot(x, W), steps}, {.contexts = 2});
  Array ones_in = ones({32, 64});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) train.call({ones_in});
    });
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        auto out = predict.call({ones_in});
        // All of W has the same version as the counter.
        double expected = 64 * out[1].item<double>();
        for (std::int64_t i = 0; i < out[0].size(); i += 37)
          if (out[0].at_double(i) != expected) ++wrong;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(as_shared(steps)->get_value().item<double>(), 400);
}

TEST(Thread, OutputsAndExportsOutliveCalls) {
  Expr x = vector("x");
  Expr W = shared(zeros({4}), "W");
  Function f = function({x}, W + x, {.updates = {{W, W + x}}});
  Array first = f(ones({4}));
  Array exported = as_shared(W)->get_value(true);
  Array second = f(ones({4}));
  EXPECT_EQ(first.at_double(0), 1);
  EXPECT_EQ(second.at_double(0), 2);
  EXPECT_EQ(exported.at_double(0), 1);  // while it lives, updates go to new storage
  EXPECT_EQ(as_shared(W)->get_value().at_double(0), 2);
}

TEST(Thread, ExplainShowsEveryStage) {
  Net net;
  Function f = net.make();
  f(Array::scalar(std::int64_t{0}));
  std::string text = f.explain();
  for (const char* part :
       {"captured", "rewrite", "placed", "tasks", "kernels", "schedule", "commit point"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(Thread, ChainOf100000OpsCompilesAndDies) {
  Expr x = vector("x");
  Expr y = x;
  for (int i = 0; i < 100000; ++i) y = y + 1.0f;
  Function f = function({x}, y);
  EXPECT_FLOAT_EQ(static_cast<float>(f(zeros({3})).at_double(0)), 100000.0f);
}

}  // namespace
}  // namespace snug
