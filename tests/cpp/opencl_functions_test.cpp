// Functions whose nodes are on an OpenCL device as far as they can be: the same numbers as on the
// host, memory as planned, and what goes over the bus.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "backend/devices.h"
#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_context.h"
#include "backend/opencl/opencl_device.h"
#include "backend/opencl/opencl_queues.h"
#include "backend/opencl/tile_times.h"
#include "compile.h"
#include "error_of.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using testing::error_of;

/// The device taken for a card, on which functions are as far as they can be: products in the tiles
/// of cards, rows by groups.
class AsCard {
 public:
  explicit AsCard(const OpenClFound& device) {
    OpenClFound found = device;
    found.gpu = true;
    found.name = "card:0";
    device_ = std::make_shared<OpenClDevice>(found);
    set_devices(host_and({device_}), [](std::uint32_t, const Node&) { return DeviceId{1}; });
  }
  ~AsCard() { set_devices(nullptr); }
  OpenClDevice& device() const { return *device_; }

 private:
  std::shared_ptr<OpenClDevice> device_;
};

class OpenClFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    static const bool there = !find_opencl_devices().devices.empty();
    if (!there) GTEST_SKIP() << "no OpenCL device";
  }
  static OpenClDevice& device() {
    return dynamic_cast<OpenClDevice&>(host_and_named({"opencl:0"})->accelerator(1));
  }

  /// The same function on the host and on the device, on the same arguments.
  static void expect_same(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                          const std::vector<Array>& arguments, double tolerance = 2e-5) {
    const std::vector<Array> host = function(inputs, outputs).call(arguments);
    expect_close(host, function(inputs, outputs, {.device = "opencl:0"}).call(arguments),
                 tolerance);
    const AsCard card(device().found());
    expect_close(host, function(inputs, outputs).call(arguments), tolerance);
  }

  static void expect_close(const std::vector<Array>& host, const std::vector<Array>& got,
                           double tolerance) {
    for (std::size_t k = 0; k < host.size(); ++k) {
      ASSERT_EQ(host[k].shape, got[k].shape);
      double largest = 1e-30;
      for (std::int64_t i = 0; i < host[k].size(); ++i)
        if (std::isfinite(host[k].at_double(i)))
          largest = std::max(largest, std::abs(host[k].at_double(i)));
      for (std::int64_t i = 0; i < host[k].size(); ++i) {
        const double a = host[k].at_double(i), b = got[k].at_double(i);
        if (std::isnan(a) && std::isnan(b)) continue;
        ASSERT_NEAR(a, b, tolerance * largest) << "output " << k << " element " << i;
      }
    }
  }
};

/// A training step of a small network with dropout, labels and updates.
struct Step {
  Expr x = matrix("x"), y = ivector("y");
  Expr w = shared(random_array({12, 9}, 1), "w"), b = shared(random_array({9}, 2), "b"),
       v = shared(random_array({9, 4}, 3), "v");
  RandomStream stream{7};
  std::optional<Function> train;

  explicit Step(const std::string& device, const std::string& memory = {}) {
    const Expr h = dropout(tanh(dot(x, w) + b), 0.25, stream);
    const Expr loss = mean(categorical_crossentropy(softmax(dot(h, v)), y));
    const auto g = grad(loss, w, b, v);
    train.emplace(
        function({x, y}, loss,
                 {.updates = {{w, w - 0.1f * g[0]}, {b, b - 0.1f * g[1]}, {v, v - 0.1f * g[2]}},
                  .memory = memory,
                  .device = device}));
  }
  float run(std::int64_t rows) {
    Array labels = Array::zeros(DType::I32, {rows});
    for (std::int64_t k = 0; k < rows; ++k) labels.set_int(k, (k * 7 + 3) % 4);
    return (*train)(random_array({rows, 12}, 10), labels).item<float>();
  }
};

TEST_F(OpenClFunctions, ATrainingStep) {
  Step host("cpu"), there("opencl:0");
  for (const std::int64_t rows : {64, 64, 13, 1, 64})
    EXPECT_NEAR(host.run(rows), there.run(rows), 1e-5);
  for (const auto& [a, b] : {std::pair(host.w, there.w), {host.b, there.b}, {host.v, there.v}}) {
    const Array here = as_shared(a)->get_value(), other = as_shared(b)->get_value();
    for (std::int64_t k = 0; k < here.size(); ++k)
      EXPECT_NEAR(here.at_double(k), other.at_double(k), 1e-5);
  }
}

TEST_F(OpenClFunctions, ProductsOfAllLayouts) {
  Expr a = matrix("a"), b = matrix("b");
  for (const auto& [m, k, n] : {std::tuple(5, 7, 3), {65, 33, 130}, {1, 100, 70}, {200, 17, 1}}) {
    const Array x = random_array({m, k}, 1), y = random_array({k, n}, 2);
    expect_same({a, b}, {dot(a, b)}, {x, y});
    expect_same({a, b}, {dot(transpose(a), b)}, {random_array({k, m}, 1), y});
    expect_same({a, b}, {dot(a, transpose(b))}, {x, random_array({n, k}, 2)});
    expect_same({a, b}, {dot(transpose(b), transpose(a))}, {x, y});
  }
  Expr c = tensor3("c"), d = tensor3("d");
  expect_same({c, d}, {batched_dot(c, d)},
              {random_array({4, 20, 30}, 1), random_array({4, 30, 40}, 2)});
  Expr e = dmatrix("e");
  expect_same({e}, {dot(e, transpose(e))}, {random_array({40, 50}, 3).to(DType::F64)}, 1e-14);
}

TEST_F(OpenClFunctions, AStepMovesItsBatchAndItsLossAndCreatesNothing) {
  Step step("opencl:0");
  for (const std::int64_t rows : {64, 13, 64, 13}) step.run(rows);
  OpenClContext::Counts& counts = device().context().counts();
  const std::uint64_t in = counts.copied_in, out = counts.copied_out, objects = counts.objects,
                      launches = counts.launches;
  for (const std::int64_t rows : {64, 13, 64, 13}) step.run(rows);
  EXPECT_EQ(counts.objects, objects);
  EXPECT_GT(counts.launches, launches);
  // The host checks labels, which are int64 from then on.
  const std::uint64_t rows = 2 * (64 + 13), batch = rows * 12 * 4, labels = rows * 8;
  EXPECT_LE(counts.copied_in - in, batch + 2 * labels + 64);
  EXPECT_LE(counts.copied_out - out, 4 * (sizeof(float) + 32));
}

TEST_F(OpenClFunctions, MemoryIsWhatIsPlanned) {
  const std::uint64_t before = device().allocated();
  {
    Step step("opencl:0");
    const MemoryReport plan = step.train->memory({{64, 12}, {64}});
    ASSERT_EQ(plan.devices.size(), 1u);
    const MemoryReport::OnDevice& there = plan.devices[0];
    EXPECT_EQ(there.name, "opencl:0");
    step.run(64);
    const std::int64_t stays = there.variables() + there.constants;
    EXPECT_EQ(static_cast<std::int64_t>(device().allocated() - before), stays + there.arena);
    // What another function needs later is the same memory.
    Step other("opencl:0");
    other.run(64);
    EXPECT_EQ(static_cast<std::int64_t>(device().allocated() - before), 2 * stays + there.arena);
  }
  EXPECT_EQ(device().allocated(), before);
}

TEST_F(OpenClFunctions, BudgetsOfTheDevice) {
  // A matrix that is larger than what the function may have there: nothing runs.
  Expr x = matrix("x"), w = shared(Array::zeros(DType::F32, {3000, 3000}), "w");
  const Array rows = Array::zeros(DType::F32, {8, 3000});
  const std::uint64_t launches = device().context().counts().launches;
  for (const char* budget : {"16MiB", "opencl:0=16MiB", "opencl:0=16MiB,cpu=64MiB"}) {
    const auto refused = error_of([&] {
      function({x}, dot(x, w),
               {.shapes = {{x, {8, 3000}}}, .memory = budget, .device = "opencl:0"})(rows);
    });
    EXPECT_EQ(refused.fault(), Fault::Memory);
    EXPECT_NE(refused.message().find("opencl:0"), std::string::npos) << refused.what();
  }
  EXPECT_EQ(device().context().counts().launches, launches);
  EXPECT_NO_THROW(
      function({x}, dot(x, w), {.memory = "opencl:0=48MiB", .device = "opencl:0"})(rows));
  EXPECT_NO_THROW(function({x}, dot(x, w), {.memory = "48MiB"})(rows));
  for (const char* wrong : {"opencl:1=16MiB", "cpu=1GiB,gpu=2GiB", "=3GiB", "cpu=1GiB,"})
    EXPECT_THROW(function({x}, dot(x, w), {.memory = wrong, .device = "opencl:0"}), ValueError)
        << wrong;
}

TEST_F(OpenClFunctions, ConvolutionsWithTheirGradients) {
  Expr x = tensor4("x"), w = tensor4("w");
  struct Case {
    Dims x, w;
    ConvOptions options;
  };
  const Case cases[] = {
      {{2, 3, 9, 8}, {5, 3, 3, 3}, {}},
      {{2, 3, 9, 8}, {5, 3, 3, 3}, {.border_mode = "half", .flip = false}},
      {{1, 4, 11, 10}, {6, 2, 3, 2}, {.pad = {1, 0}, .subsample = {2, 3}, .groups = 2}},
      {{3, 2, 12, 12}, {4, 2, 3, 3}, {.pad = {2, 2}, .dilation = {2, 2}}},
      {{2, 70, 6, 6}, {66, 70, 1, 1}, {}},
  };
  for (const Case& c : cases) {
    const Expr y = conv2d(x, w, c.options);
    const auto g = grad(sum(sqr(y)), x, w);
    expect_same({x, w}, {y, g[0], g[1]}, {random_array(c.x, 1), random_array(c.w, 2)});
  }
}

TEST_F(OpenClFunctions, TilesChangeNoBits) {
  const AsCard card(device().found());
  Expr a = matrix("a"), b = matrix("b"), x = tensor4("x"), w = tensor4("w");
  const Expr y = conv2d(x, w, {.border_mode = "half"});
  const std::vector<Array> arguments = {random_array({70, 600}, 1), random_array({600, 40}, 2),
                                        random_array({3, 20, 14, 15}, 3),
                                        random_array({24, 20, 3, 3}, 4)};
  const auto run = [&](const std::optional<ProductTile>& tile) {
    card.device().tiles().force(tile);
    return function({a, b, x, w}, {dot(a, b), y, grad(sum(y * y), w)}).call(arguments);
  };
  const std::vector<Array> want = run({});
  const std::vector<ProductTile> tiles =
      candidate_tiles(card.device().found(), DType::F32, {1000, 1000, 1000, 1});
  EXPECT_GT(tiles.size(), 8u);
  for (const std::size_t k : {std::size_t{0}, std::size_t{3}, tiles.size() - 1}) {
    const std::vector<Array> got = run(tiles[k]);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(0, std::memcmp(want[i].data, got[i].data, want[i].bytes()))
          << "result " << i << " by tiles of " << tiles[k].rows << " x " << tiles[k].columns;
  }
}

TEST_F(OpenClFunctions, SumsOfManyTermsAreCutIntoPartsBySizesAlone) {
  OpenClFound card = device().found();
  card.gpu = true;
  const ProductParts parts = choose_parts(card, {30, 40, 10000, 1});
  EXPECT_GT(parts.count, 8);
  EXPECT_GE(parts.count * parts.length, 10000);
  EXPECT_LT((parts.count - 1) * parts.length, 10000);
  EXPECT_EQ(choose_parts(card, {3000, 4000, 10000, 1}).count, 1);
  EXPECT_EQ(choose_parts(card, {30, 40, 100, 1}).count, 1);
  Expr a = matrix("a"), b = matrix("b");
  for (const std::int64_t k : {5000, 511})
    expect_same({a, b}, {dot(transpose(a), b) + 1.0f},
                {random_array({k, 33}, 1), random_array({k, 7}, 2)});
}

TEST_F(OpenClFunctions, TheFastestTileIsMeasuredOnceAndKept) {
  const std::vector<ProductTile> tiles = {{64, 64, 8, 8, 8}, {16, 16, 32, 16, 16}};
  // The first has thousands of times the work: no other process makes up for that.
  const auto ask = [](std::size_t tile, OpenClQueues& queues, std::byte* memory) {
    const std::uint32_t zero = 0;
    for (int k = 0; k < (tile == 0 ? 5000 : 1); ++k)
      queues.fill(memory, std::as_bytes(std::span(&zero, 1)), 1 << 16);
  };
  std::size_t made = 0;
  const std::string kind = fmt::format("a test of process {}", getpid());
  const TileTimes::Trial trial{1 << 16, [&](std::size_t) { ++made; }, ask};
  OpenClDevice one(device().found());
  one.tiles().allow(600);
  EXPECT_FALSE(one.tiles().known(kind, tiles));
  EXPECT_EQ(one.tiles().measure(kind, tiles, trial), tiles[1]);
  EXPECT_EQ(made, 2u);
  EXPECT_EQ(one.tiles().measure(kind, tiles, trial), tiles[1]);
  EXPECT_EQ(made, 2u);
  OpenClDevice other(device().found());
  EXPECT_EQ(other.tiles().known(kind, tiles), tiles[1]);
  EXPECT_FALSE(other.tiles().known(kind, std::span(tiles).first(1)));  // it is no candidate there
  // Where there is no room nothing is chosen, nor kept.
  other.set_limit(1 << 10);
  EXPECT_FALSE(other.tiles().measure(kind + " again", tiles, trial));
  EXPECT_EQ(other.allocated(), 0u);
}

TEST_F(OpenClFunctions, ProductsAreMeasuredBeforeTheyRunOnACard) {
  OpenClFound found = device().found();
  found.gpu = true;
  found.name = "card:0";
  found.most_items = 64;  // of the tiles two remain
  Expr a = matrix("a"), b = matrix("b"), x = tensor4("x"), w = tensor4("w");
  const Expr y = conv2d(x, w);
  const std::vector<Array> arguments = {random_array({300, 260}, 1), random_array({300, 260}, 2),
                                        random_array({9, 16, 20, 20}, 3),
                                        random_array({40, 16, 5, 5}, 4)};
  const std::vector<Array> host = function({a, b, x, w}, {dot(a, transpose(b)), y}).call(arguments);
  const auto card = std::make_shared<OpenClDevice>(found);
  card->tiles().allow(60);
  set_devices(host_and({card}), [](std::uint32_t, const Node&) { return DeviceId{1}; });
  const std::vector<Array> got = function({a, b, x, w}, {dot(a, transpose(b)), y}).call(arguments);
  set_devices(nullptr);
  expect_close(host, got, 2e-5);
  EXPECT_EQ(card->tiles().count(), 2u);
}

TEST_F(OpenClFunctions, JoinsSlicesRowsAndPools) {
  Expr a = matrix("a"), b = matrix("b"), i = lvector("i"), x = tensor4("x");
  Array which = Array::zeros(DType::I64, {50});
  for (std::int64_t k = 0; k < 50; ++k) which.set_int(k, k * 3 % 40);
  const IndexItem some = IndexItem::range(2, 34), back = IndexItem::range(39, 7, -1);
  expect_same(
      {a, b, i},
      {concatenate({a, transpose(b), a}, 1), concatenate({a, transpose(b)}, 0), subtensor(a, {i}),
       set_subtensor(a, {some}, subtensor(transpose(b), {some})),
       inc_subtensor(a, {back}, subtensor(a, {some})), inc_subtensor(a, {IndexItem(), some}, 2.0f)},
      {random_array({40, 36}, 1), random_array({36, 40}, 2), which});
  const Expr largest = pool(x, {.window = {2, 3}, .stride = {2, 2}, .pad = {1, 1}});
  const Expr average = pool(x, {.window = {3, 3}, .stride = {2, 1}, .mode = "average_inc_pad"});
  expect_same({x}, {largest, average, grad(sum(sqr(largest)), x), grad(sum(sqr(average)), x)},
              {random_array({2, 3, 9, 10}, 3)});
}

TEST_F(OpenClFunctions, WhatIsAddedToRowsComesInTheOrderOfTheIndices) {
  Expr x = matrix("x"), y = matrix("y"), i = lvector("i");
  const Expr added = inc_subtensor(x, {i}, y), set = set_subtensor(x, {i}, y);
  for (const auto& [rows, columns, count] :
       {std::tuple(40, 5, 3000), {3, 70, 600}, {1000, 1, 512}, {7, 3, 1}, {2, 0, 5}, {5, 4, 0}}) {
    const Array before = random_array({rows, columns}, 1), by = random_array({count, columns}, 2);
    Array which = Array::zeros(DType::I64, {count});
    for (std::int64_t k = 0; k < count; ++k) which.set_int(k, (k * k + 7 * k) % rows);
    std::vector<float> sum(rows * columns), last(rows * columns);
    for (std::int64_t k = 0; k < rows * columns; ++k)
      sum[k] = last[k] = static_cast<float>(before.at_double(k));
    for (std::int64_t k = 0; k < count; ++k)
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t to = (k * k + 7 * k) % rows * columns + c;
        last[to] = static_cast<float>(by.at_double(k * columns + c));
        sum[to] += last[to];
      }
    const auto check = [&](const std::vector<Array>& got) {
      for (std::int64_t k = 0; k < rows * columns; ++k) {
        ASSERT_EQ(got[0].at_double(k), sum[k]) << rows << " rows, element " << k;
        ASSERT_EQ(got[1].at_double(k), last[k]) << rows << " rows, element " << k;
      }
    };
    check(function({x, i, y}, {added, set}, {.device = "opencl:0"}).call({before, which, by}));
    const AsCard card(device().found());
    check(function({x, i, y}, {added, set}).call({before, which, by}));
  }
}

TEST_F(OpenClFunctions, PaddingTakesNoPart) {
  Expr x = tensor4("x"), w = tensor4("w");
  Array filters = random_array({2, 1, 3, 3}, 2);
  filters.set_double(0, std::nan(""));  // a corner, which meets padding alone at some places
  const Expr y = conv2d(x, w, {.pad = {1, 1}});
  expect_same({x, w}, {y, grad(sum(y), x)}, {random_array({1, 1, 5, 5}, 1), filters});
}

TEST_F(OpenClFunctions, ThreadsWithFunctionsThatShareVariables) {
  constexpr int kThreads = 4, kCalls = 20;
  Expr x = matrix("x");
  Expr table = shared(random_array({12, 6}, 1), "table"),
       calls = shared(Array::zeros(DType::F32, {3}), "calls");
  /// Two functions of a thread: a step of its own, and a count of all.
  struct Work {
    Expr w;
    std::optional<Function> step, count;
  };
  const auto make = [&](std::uint64_t seed) {
    Work work;
    work.w = shared(random_array({6, 5}, seed), "w");
    const Expr loss = mean(sqr(tanh(dot(dot(x, table), work.w))));
    work.step.emplace(function(
        {x}, loss, {.updates = {{work.w, work.w - grad(loss, work.w)}}, .device = "opencl:0"}));
    work.count.emplace(function({}, sum(calls) * sum(table),
                                {.updates = {{calls, calls + 1.0f}}, .device = "opencl:0"}));
    return work;
  };
  const auto train = [&](const Work& work, std::uint64_t seed) {
    for (int k = 0; k < kCalls; ++k) {
      (*work.step)(random_array({k % 2 ? 8 : 3, 12}, seed + k));
      (*work.count)();
    }
    return as_shared(work.w)->get_value();
  };
  std::vector<Array> alone, together(kThreads);
  for (int t = 0; t < kThreads; ++t) alone.push_back(train(make(t), t));
  as_shared(calls)->set_value(Array::zeros(DType::F32, {3}));
  std::vector<Work> all;
  for (int t = 0; t < kThreads; ++t) all.push_back(make(t));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] { together[t] = train(all[t], t); });
  // Meanwhile the variable that all read moves to the host and back.
  const Function host = function({}, sum(table));
  const float sum_of_table = host().item<float>();
  for (int k = 0; k < kCalls; ++k) {
    EXPECT_EQ(host().item<float>(), sum_of_table);
    EXPECT_EQ(as_shared(calls)->get_value().size(), 3);
  }
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_TRUE(same_bits(alone[t], together[t])) << t;
  EXPECT_EQ(as_shared(calls)->get_value().at_double(2), kThreads * kCalls);
}

TEST_F(OpenClFunctions, AForkedChildIsTold) {
  Step step("opencl:0");
  step.run(8);
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    try {
      step.run(8);
    } catch (const Error& e) {
      _exit(e.fault() == Fault::Device && e.message().find("fork") != std::string::npos ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace snug
