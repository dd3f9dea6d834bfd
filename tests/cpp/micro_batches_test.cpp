#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

void expect_near(const Array& a, const Array& b, double tolerance, std::size_t output) {
  ASSERT_EQ(a.shape, b.shape) << "output " << output;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    double x = a.at_double(i), y = b.at_double(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    ASSERT_NEAR(x, y, tolerance * (1 + std::abs(y))) << "output " << output << ", element " << i;
  }
}

/// The outputs in slices are those of the whole batch, for each number of rows; `arguments` makes
/// the arguments for one.
void expect_same_in_slices(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                           const std::function<std::vector<Array>(std::int64_t)>& arguments,
                           std::vector<std::int64_t> rows = {8, 7, 1, 0}) {
  Function whole = function(inputs, outputs);
  for (std::int64_t slices : {2, 3}) {
    Function cut = function(inputs, outputs, {.micro_batches = slices});
    Function checked = function(inputs, outputs, {.micro_batches = slices, .mode = Mode::Check});
    EXPECT_NE(cut.explain().find("rows of the batch run in at most"), std::string::npos);
    for (std::int64_t n : rows) {
      std::vector<Array> a = whole.call(arguments(n)), b = cut.call(arguments(n)),
                         c = checked.call(arguments(n));
      for (std::size_t k = 0; k < a.size(); ++k) {
        expect_near(b[k], a[k], 1e-5, k);
        expect_near(c[k], a[k], 1e-5, k);
      }
    }
  }
}

std::string refusal(const std::vector<Expr>& inputs, const Expr& output) {
  try {
    function(inputs, output, {.micro_batches = 2});
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Value);
    return e.what();
  }
  return "no error";
}

TEST(MicroBatches, OfADenseNetworkWithPerRowOutputs) {
  Expr x = matrix("x"), y = ivector("y");
  Expr W = shared(random_array({5, 6}, 1), "W"), b = shared(random_array({6}, 2), "b");
  Expr p = softmax(dot(tanh(x), W) + b);
  Expr loss = mean(-log(subtensor(p, {arange(shape_i(y, 0)), y})));
  Expr total = loss + 0.01f * sum(sqr(W));
  auto g = grad(total, std::vector<Expr>{W, b, x});
  expect_same_in_slices({x, y}, {loss, g[0], g[1], g[2], p, argmax(p, 1)}, [](std::int64_t n) {
    return std::vector<Array>{random_array({n, 5}, 3), random_integers({n}, 4, 5)};
  });
}

TEST(MicroBatches, OfAConvolutionalNetwork) {
  Expr x = tensor4("x"), y = ivector("y");
  Expr W = shared(random_array({4, 2, 3, 3}, 1), "W"),
       V = shared(random_array({4 * 36, 3}, 2), "V");
  Expr h = maximum(conv2d(x, W), 0.0f);
  Expr p = log_softmax(dot(flatten(h, 2), V));
  Expr loss = -mean(subtensor(p, {arange(shape_i(y, 0)), y}));
  auto g = grad(loss, std::vector<Expr>{W, V});
  expect_same_in_slices(
      {x, y}, {loss, g[0], g[1]},
      [](std::int64_t n) {
        return std::vector<Array>{random_array({n, 2, 8, 8}, 3), random_integers({n}, 4, 2)};
      },
      {8, 5});
}

TEST(MicroBatches, JoinEveryReductionOverTheBatch) {
  Expr x = matrix("x");
  Expr positive = gt(x, 0.9f);
  expect_same_in_slices({x},
                        {sum(x, 0), max(x, 0), min(x), prod(x, 0), any(positive, 0), all(positive),
                         mean(sqr(x)), sum(transpose(x), 1), max(cast(x * 10.0f, DType::I8), 0)},
                        [](std::int64_t n) {
                          return std::vector<Array>{random_array({n, 3}, 5)};
                        },
                        {8, 7, 1});
}

TEST(MicroBatches, CutWholeValuesOfTheSizeOfTheBatch) {
  Expr x = matrix("x"), weights = vector("weights");
  Expr scaled = x * dimshuffle(weights, {0, -1}) +
                cast(dimshuffle(arange(shape_i(x, 0)), {0, -1}), DType::F32);
  Expr joined = concatenate({scaled, ones_like(x)}, 1);
  expect_same_in_slices({x, weights},
                        {joined, dot(transpose(x), scaled), subtensor(joined, {IndexItem(), 1}),
                         set_subtensor(x, {IndexItem(), 0}, weights)},
                        [](std::int64_t n) {
                          return std::vector<Array>{random_array({n, 3}, 6), random_array({n}, 7)};
                        });
}

TEST(MicroBatches, DrawTheNumbersOfTheWholeBatch) {
  auto draws = [](std::int64_t slices) {
    RandomStream stream(3);
    Expr x = matrix("x");
    Expr masked = dropout(x, 0.5, stream), normal = stream.normal(shape(x));
    Function f = function({x}, {masked, normal}, {.micro_batches = slices});
    f.call({random_array({9, 5}, 1)});
    return f.call({random_array({9, 5}, 1)});
  };
  auto whole = draws(0), slices = draws(4);
  for (std::size_t k = 0; k < 2; ++k) EXPECT_TRUE(same_bits(whole[k], slices[k])) << k;
}

TEST(MicroBatches, UpdateTheRowsOfAnEmbeddingInPlace) {
  auto run = [](std::int64_t slices) {
    Expr idx = ivector("idx");
    Expr E = shared(random_array({5000, 4}, 1), "E");
    Expr rows = subtensor(E, {idx});
    Expr g = grad(sum(sqr(rows)), rows);
    Function f =
        function({idx}, sum(rows),
                 {.updates = {{E, inc_subtensor(E, {idx}, -0.1f * g)}}, .micro_batches = slices});
    f(random_integers({16}, 2, 49));
    EXPECT_LT(f.memory(std::vector<Dims>{{16}}).arena, 8192);  // no copy of E
    Array bad = random_integers({16}, 2, 49);
    bad.set_int(15, 5000);
    Array before = as_shared(E)->get_value();
    EXPECT_THROW(f(bad), Error);
    EXPECT_TRUE(same_bits(as_shared(E)->get_value(), before));
    return before;
  };
  expect_near(run(2), run(0), 1e-6, 0);
}

TEST(MicroBatches, NeedLessMemory) {
  Expr x = matrix("x");
  Expr W = shared(random_array({64, 64}, 1), "W");
  Expr h = x;
  for (int layer = 0; layer < 4; ++layer) h = tanh(dot(h, W));
  Expr g = grad(sum(sqr(h)), W);
  auto arena = [&](std::int64_t slices) {
    return function({x}, g, {.micro_batches = slices}).memory(std::vector<Dims>{{4096, 64}}).arena;
  };
  EXPECT_LT(arena(4), arena(0) / 3);
  EXPECT_LT(arena(16), arena(0) / 10);
}

TEST(MicroBatches, RefuseWhatNeedsTheWholeBatchAndSayWhere) {
  Expr x = matrix("x");
  Expr centered = x - mean(x, 0);
  std::string text = refusal({x}, sum(sqr(centered), 1));
  EXPECT_NE(text.find("sub combines rows with a value of the whole batch"), std::string::npos)
      << text;
  EXPECT_NE(text.find("micro_batches_test.cpp"), std::string::npos) << text;
  EXPECT_NE(refusal({x}, dot(x, transpose(x))).find("dot needs several rows at once"),
            std::string::npos);
  EXPECT_NE(refusal({x}, argmax(x, 0)).find("argmax needs several rows"), std::string::npos);
  EXPECT_NE(
      refusal({x}, subtensor(x, {IndexItem::range(Expr(1))})).find("subtensor needs several rows"),
      std::string::npos);
  Expr a = scalar("a");
  EXPECT_NE(refusal({a}, a * 2.0f).find("has no batch"), std::string::npos);
}

}  // namespace
}  // namespace snug
