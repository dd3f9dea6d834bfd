#include <gtest/gtest.h>

#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
std::string tasks_of(const Function& f) {
  const std::string all = f.explain();
  const std::size_t begin = all.find("== tasks");
  return all.substr(begin, all.find("== kernels") - begin);
}

void expect_close(const Array& got, const Array& want, double tolerance) {
  ASSERT_EQ(got.shape, want.shape);
  for (std::int64_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got.at_double(i), want.at_double(i), tolerance * (1 + std::abs(want.at_double(i))));
}

Expr bias(const Expr& b) { return dimshuffle(b, {-1, 0, -1, -1}); }

/// Two convolutions with what stands around them in networks: biases, relu, statistics of channels,
/// a sum over places, a part that needs the images as the user has them.
struct Network {
  Expr x, w1, b1, w2, scale, out;
  std::vector<Expr> parameters;
  explicit Network(DType t)
      : x(input({t, {-1, 3, 10, 9}, 0}, "x")),
        w1(shared(random_array({8, 3, 3, 3}, 1, -1, 1, t), "w1")),
        b1(shared(random_array({8}, 2, -1, 1, t), "b1")),
        w2(shared(random_array({6, 4, 3, 3}, 3, -1, 1, t), "w2")),
        scale(shared(random_array({6}, 4, -1, 1, t), "scale")) {
    Expr h = relu(conv2d(x, w1, {.border_mode = "half"}) + bias(b1));
    Expr g = conv2d(h, w2, {.border_mode = "full", .subsample = {2, 2}, .groups = 2});
    Expr mean = snug::mean(g, std::vector<std::int64_t>{0, 2, 3});
    Expr normal = (g - bias(mean)) * bias(scale);
    Expr both = concatenate({normal, g}, 1);
    out = sum(sqr(both), std::vector<std::int64_t>{1}) + sum(tanh(g), std::vector<std::int64_t>{1});
    parameters = {w1, b1, w2, scale};
  }
};

TEST(ChannelsLast, AgreesWithTheReference) {
  for (DType t : {DType::F32, DType::F64}) {
    Network net(t);
    std::vector<Expr> results = grad(mean(net.out), net.parameters);
    results.push_back(net.out);
    results.push_back(grad(mean(net.out), net.x));
    Function fast = function({net.x}, results),
             slow = function({net.x}, results, {.mode = Mode::Reference});
    for (std::int64_t batch : {5, 1}) {
      const Array in = random_array({batch, 3, 10, 9}, 5, -1, 1, t);
      const std::vector<Array> got = fast.call({in}), want = slow.call({in});
      for (std::size_t k = 0; k < got.size(); ++k)
        expect_close(got[k], want[k], t == DType::F32 ? 2e-4 : 1e-10);
    }
  }
}

/// Pools of every kind between convolutions; windows that overlap, with and without borders.
TEST(ChannelsLast, PoolsFollowTheirImages) {
  Expr x = input({DType::F32, {-1, 3, 11, 10}, 0}, "x");
  Expr w1 = shared(random_array({8, 3, 3, 3}, 1), "w1"),
       w2 = shared(random_array({5, 8, 2, 2}, 2), "w2");
  using Pool = PoolOptions;
  const Pool pools[] = {
      {.window = {2, 2}},
      {.window = {3, 2}, .stride = {2, 1}, .pad = {1, 1}},
      {.window = {3, 3}, .stride = {2, 2}, .ignore_border = false},
      {.window = {3, 3}, .stride = {2, 2}, .pad = {1, 0}, .mode = "average_inc_pad"},
      {.window = {3, 3}, .stride = {1, 2}, .pad = {1, 2}, .mode = "average_exc_pad"},
      {.window = {2, 3}, .stride = {2, 3}, .mode = "sum"},
      {.window = {17, 16}, .stride = {1, 1}, .pad = {16, 15}},
  };
  for (const Pool& pool : pools) {
    Expr h = snug::pool(relu(conv2d(x, w1, {.border_mode = "half"})), pool);
    Expr y = sum(sqr(conv2d(h, w2)));
    Expr dx = grad(y, x);
    // With the gradient of a gradient, which takes elements at the places of the maxima.
    std::vector<Expr> results = {y, dx, grad(y, w1), grad(sum(sqr(dx)), w1)};
    Function fast = function({x}, results),
             slow = function({x}, results, {.mode = Mode::Reference});
    const std::string tasks = tasks_of(fast);
    EXPECT_EQ(count(tasks, "native   max_pool  ") + count(tasks, "native   average_pool  "), 0u)
        << tasks;
    const Array in = random_array({3, 3, 11, 10}, 5);
    const std::vector<Array> got = fast.call({in}), want = slow.call({in});
    for (std::size_t k = 0; k < got.size(); ++k) expect_close(got[k], want[k], 1e-3);
  }
}

/// A relu before a pool is done behind it, and cells of maxima are bytes: nothing of full size is
/// kept for the gradient.
TEST(ChannelsLast, NothingOfFullSizeIsKeptForAPool) {
  Expr x = input({DType::F32, {8, 16, 32, 32}, 0}, "x");
  Expr w1 = shared(random_array({16, 16, 3, 3}, 1), "w1"),
       w2 = shared(random_array({16, 16, 3, 3}, 2), "w2");
  Expr h = snug::pool(relu(conv2d(x, w1, {.border_mode = "half"})), {.window = {2, 2}});
  Expr y = sum(sqr(conv2d(h, w2, {.border_mode = "half"})));
  Function f = function({x}, std::vector<Expr>{y, grad(y, w1), grad(y, w2)});
  EXPECT_EQ(count(tasks_of(f), "max_pool_last"), 1u) << tasks_of(f);
  const Dims shape[] = {{8, 16, 32, 32}};
  const std::uint64_t image = 8 * 16 * 32 * 32 * 4;
  // x turned and the convolution, or x turned and the gradient of it, and pooled ones.
  EXPECT_LT(f.memory(shape).arena, 3 * image);
}

TEST(ChannelsLast, ImagesAreTurnedOnlyWhereTheyComeIn) {
  Network net(DType::F32);
  std::vector<Expr> gradients = grad(mean(net.out), net.parameters);
  const std::string tasks = tasks_of(function({net.x}, gradients));
  EXPECT_EQ(count(tasks, "conv2d_last"), 2u) << tasks;
  EXPECT_EQ(count(tasks, "copy"), 1u) << tasks;
}

TEST(ChannelsLast, DoublesStayAsTheyAre) {
  Network net(DType::F64);
  const std::string tasks = tasks_of(function({net.x}, net.out));
  EXPECT_EQ(count(tasks, "_last"), 0u) << tasks;
}

/// The result of a relu is all its gradient needs: what it was made of is not kept.
TEST(ChannelsLast, ReluKeepsOneImage) {
  Expr x = input({DType::F32, {8, 16, 32, 32}, 0}, "x");
  Expr w1 = shared(random_array({16, 16, 3, 3}, 1), "w1"),
       w2 = shared(random_array({16, 16, 3, 3}, 2), "w2");
  Expr h = relu(conv2d(x, w1, {.border_mode = "half"}));
  Expr y = sum(sqr(conv2d(h, w2, {.border_mode = "half"})));
  Function f = function({x}, grad(y, {w1, w2}));
  const std::uint64_t image = 8 * 16 * 32 * 32 * 4;
  // x turned, h, the second convolution, and the gradient of h in place of the last.
  const Dims shape[] = {{8, 16, 32, 32}};
  EXPECT_LT(f.memory(shape).arena, 4 * image + image / 2);
}

}  // namespace
}  // namespace snug
