// Expressions that the program puts on devices, here simulated ones: where they run, and what
// follows.
#include <gtest/gtest.h>

#include "backend/devices.h"
#include "backend/sim/sim_device.h"
#include "compile.h"
#include "error_of.h"
#include "expr/serialize.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

class PutOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int k = 0; k < 2; ++k)
      sims.push_back(
          std::make_shared<SimDevice>(SimDevice::Options{.name = fmt::format("sim:{}", k)}));
    set_devices(host_and({sims[0], sims[1]}));
  }
  void TearDown() override { set_devices(nullptr); }

  /// Commands that each device gets from a call.
  std::pair<std::uint64_t, std::uint64_t> commands(Function& f, const std::vector<Array>& args) {
    const std::uint64_t first = sims[0]->commands(), second = sims[1]->commands();
    f.call(args);
    return {sims[0]->commands() - first, sims[1]->commands() - second};
  }
  static void expect_close(const Array& got, const Array& want) {
    ASSERT_EQ(got.shape, want.shape);
    for (std::int64_t k = 0; k < want.size(); ++k)
      ASSERT_NEAR(got.at_double(k), want.at_double(k), 1e-5 * (1 + std::abs(want.at_double(k))));
  }

  std::vector<std::shared_ptr<SimDevice>> sims;
};

TEST_F(PutOnDevice, ABlockIsOnItsDeviceAndTheRestIsOnTheHost) {
  Expr x = matrix("x"), h;
  {
    const OnDevice there("sim:1");
    h = tanh(x * 2.0f);
  }
  const Array a = random_array({3, 5}, 1);
  Function f = function({x}, sum(h)), plain = function({x}, sum(tanh(x * 2.0f)));
  const auto [first, second] = commands(f, {a});
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(second, 3u);  // x goes there, a kernel, its result comes back
  EXPECT_EQ(commands(plain, {a}), std::pair(std::uint64_t{0}, std::uint64_t{0}));
  expect_close(f.call({a})[0], plain.call({a})[0]);
  EXPECT_NE(f.explain().find("put on sim:1 by the program"), std::string::npos);
}

TEST_F(PutOnDevice, GradientsAreWhereTheirExpressionsAre) {
  Expr x = matrix("x"), w = shared(random_array({5, 4}, 2), "w"), h;
  {
    const OnDevice there("sim:0");
    h = tanh(dot(x, w));
  }
  const Expr loss = sum(h * h), gradient = grad(loss, w);
  const Array a = random_array({3, 5}, 1);
  Function f = function({x}, gradient);
  const std::string text = f.explain();
  EXPECT_EQ(text.find("dot@0"), std::string::npos) << text;
  Expr v = shared(random_array({5, 4}, 2), "v");
  const Expr plain = tanh(dot(x, v));
  expect_close(f.call({a})[0], function({x}, grad(sum(plain * plain), v)).call({a})[0]);
}

TEST_F(PutOnDevice, WhatReadsAValueThatWasPutThereIsThere) {
  Expr x = matrix("x"), y = matrix("y");
  const Expr there = on_device(x, "sim:0"), z = exp(there * 2.0f + y);
  const Array a = random_array({2, 3}, 1), b = random_array({2, 3}, 2);
  Function f = function({x, y}, z + 1.0f);
  EXPECT_EQ(commands(f, {a, b}), std::pair(std::uint64_t{4}, std::uint64_t{0}));
  expect_close(f.call({a, b})[0], function({x, y}, exp(x * 2.0f + y) + 1.0f).call({a, b})[0]);
  // Until it is put elsewhere.
  Function back = function({x}, exp(on_device(on_device(x, "sim:0") + 1.0f, "cpu")) * 2.0f);
  EXPECT_NE(back.explain().find("put on cpu"), std::string::npos);
  expect_close(back.call({a})[0], function({x}, exp(x + 1.0f) * 2.0f).call({a})[0]);
  // Its gradient is what it is without.
  expect_close(function({x}, grad(sum(sqr(on_device(x, "sim:1"))), x)).call({a})[0],
               function({x}, 2.0f * x).call({a})[0]);
}

TEST_F(PutOnDevice, ASharedVariableDrawsWhatReadsIt) {
  Expr x = vector("x"), w;
  {
    const OnDevice there("sim:1");
    w = shared(random_array({6}, 3), "w");
  }
  Function f = function({x}, sum(x * w), {.updates = {{w, w * 0.5f - x}}});
  const Array a = random_array({6}, 4);
  f.call({a});
  const std::uint64_t in = sims[1]->copied_in(), out = sims[1]->copied_out();
  f.call({a});
  EXPECT_EQ(sims[1]->copied_in() - in, 6 * 4u);  // x alone: w stays
  EXPECT_LE(sims[1]->copied_out() - out, 8u);
  EXPECT_EQ(sims[0]->commands(), 0u);
}

TEST_F(PutOnDevice, TwoDevicesInOneFunction) {
  Expr x = matrix("x"), y, z;
  {
    const OnDevice first("sim:0");
    y = exp(x);
    {
      const OnDevice second("sim:1");
      z = exp(x);  // equal to y, and not the same
    }
  }
  Function f = function({x}, {y + 1.0f, z + 2.0f});
  const Array a = random_array({2, 2}, 5);
  const auto [first, second] = commands(f, {a});
  EXPECT_GT(first, 0u);
  EXPECT_GT(second, 0u);
  const std::vector<Array> got = f.call({a});
  expect_close(got[0], function({x}, exp(x) + 1.0f).call({a})[0]);
  expect_close(got[1], function({x}, exp(x) + 2.0f).call({a})[0]);
}

TEST_F(PutOnDevice, TheRestOfAFunctionIsWhereTheFunctionIs) {
  Expr x = matrix("x"), h;
  {
    const OnDevice here("cpu");
    h = tanh(x);
  }
  Function f = function({x}, sum(exp(h)), {.device = "sim:0"});
  const std::string text = f.explain();
  EXPECT_NE(text.find("put on cpu"), std::string::npos);
  EXPECT_NE(text.find("on sim:0, as the function"), std::string::npos);
  const Array a = random_array({4, 4}, 6);
  expect_close(f.call({a})[0], function({x}, sum(exp(tanh(x)))).call({a})[0]);
}

TEST_F(PutOnDevice, InLoopsAndInSlicesOfABatch) {
  Expr xs = matrix("xs");
  const auto step = [](const Expr&, const std::vector<Expr>& in, const std::vector<Expr>& s) {
    const OnDevice there("sim:1");
    return LoopStep{{tanh(s[0] + in[0])}, {}};
  };
  const auto plain = [](const Expr&, const std::vector<Expr>& in, const std::vector<Expr>& s) {
    return LoopStep{{tanh(s[0] + in[0])}, {}};
  };
  const Expr start = constant(Array::zeros(DType::F32, {4}));
  const Array a = random_array({5, 4}, 7);
  const auto last = [&](const auto& body) {
    return function({xs}, loop(body, {xs}, {start}).states[0]);
  };
  Function f = last(step), g = last(plain);
  EXPECT_GT(commands(f, {a}).second, 5u);
  expect_close(f.call({a})[0], g.call({a})[0]);

  Expr w = shared(random_array({4, 4}, 8), "w"), h;
  {
    const OnDevice there("sim:0");
    h = tanh(dot(xs, w));
  }
  const Expr loss = mean(sum(h, {1}));
  Function sliced = function({xs}, grad(loss, w), {.micro_batches = 2});
  Function whole = function({xs}, grad(loss, w));
  EXPECT_GT(commands(sliced, {random_array({6, 4}, 9)}).first, 0u);
  const Array b = random_array({6, 4}, 10);
  expect_close(sliced.call({b})[0], whole.call({b})[0]);
}

TEST_F(PutOnDevice, ALoopOverAValueThatWasPutThereIsThereAsAWhole) {
  Expr w;
  {
    const OnDevice there("sim:1");
    w = shared(random_array({4, 4}, 1), "w");
  }
  const Expr start = matrix("start");
  const auto body = [&](const Expr&, const std::vector<Expr>&, const std::vector<Expr>& s) {
    return LoopStep{{tanh(dot(s[0], w))}, {}};
  };
  Function f = function({start}, loop(body, {}, {start}, Expr(5)).states[0]);
  const Array a = random_array({3, 4}, 2);
  f.call({a});
  const std::uint64_t in = sims[1]->copied_in(), out = sims[1]->copied_out();
  f.call({a});
  EXPECT_EQ(sims[1]->copied_in() - in, 12 * 4u);
  EXPECT_EQ(sims[1]->copied_out() - out, 12 * 4u);
  EXPECT_NE(f.explain().find("placement in a loop"), std::string::npos);
}

TEST_F(PutOnDevice, ABlockAroundACallChangesNothing) {
  Expr x = matrix("x"), w = shared(random_array({4, 4}, 8), "w"), h;
  {
    const OnDevice there("sim:0");
    h = tanh(dot(x, w));
  }
  const Expr gradient = grad(mean(sum(h, {1})), w);
  const Array a = random_array({6, 4}, 9);
  Function outside = function({x}, gradient, {.micro_batches = 2});
  const auto expected = commands(outside, {a});
  const OnDevice here("cpu");
  Function inside = function({x}, gradient, {.micro_batches = 2});
  EXPECT_EQ(commands(inside, {a}), expected);
}

TEST_F(PutOnDevice, SavedExpressionsKeepTheirDevices) {
  Expr x = matrix("x"), h;
  {
    const OnDevice there("sim:0");
    h = tanh(x);
  }
  const std::vector<Expr> loaded = load_graph(save_graph(std::vector{x, h}));
  Function f = function({loaded[0]}, loaded[1]);
  EXPECT_GT(commands(f, {random_array({2, 2}, 1)}).first, 0u);
}

TEST_F(PutOnDevice, UnknownNamesAreErrors) {
  Expr x = matrix("x");
  const auto text_of = [](auto&& f) { return testing::error_of(f).message(); };
  EXPECT_NE(text_of([] { const OnDevice there("moon:0"); }).find("there is no device 'moon:0'"),
            std::string::npos);
  set_devices(nullptr);
  const Expr there = on_device(x, "opencl:99");
  EXPECT_NE(text_of([&] { function({x}, there); }).find("there is no device 'opencl:99'"),
            std::string::npos);
}

}  // namespace
}  // namespace snug
