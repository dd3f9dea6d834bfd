#include <gtest/gtest.h>

#include "error_of.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

double rounded(double x) {
  Array a = Array::empty(DType::BF16, {});
  a.set_double(0, x);
  return a.at_double(0);
}

/// Operands and results are rounded, sums are not; the rest of the function is in float32.
TEST(Bfloat16, ProductsRoundTheirOperands) {
  Expr x = tensor(DType::F32, 2, "x"), w = shared(random_array({40, 7}, 1), "w");
  Function f = function({x}, dot(x, w) + 0.001f, {.precision = DType::BF16});
  const Array in = random_array({5, 40}, 2), got = f(in), weights = as_shared(w)->get_value();
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 7; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < 40; ++k)
        sum += rounded(in.at_double(i * 40 + k)) * rounded(weights.at_double(k * 7 + j));
      // The sum may round to either neighbour.
      EXPECT_NEAR(got.at_double(i * 7 + j) - 0.001, sum, std::abs(sum) / 128 + 1e-6);
      EXPECT_NE(got.at_double(i * 7 + j), rounded(got.at_double(i * 7 + j)));
    }
}

/// Small steps reach float32 parameters that bfloat16 would swallow.
TEST(Bfloat16, ParametersStayFloat32) {
  Expr x = tensor(DType::F32, 2, "x"), w = shared(random_array({4, 3}, 1), "w");
  Expr y = sum(dot(x, w));
  const Array before = as_shared(w)->get_value();
  Function f =
      function({x}, y, {.updates = {{w, w - 1e-6f * grad(y, w)}}, .precision = DType::BF16});
  f(random_array({2, 4}, 2));
  const Array after = as_shared(w)->get_value();
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_NE(before.at_double(i), after.at_double(i));
}

TEST(Bfloat16, ConvolutionsAndTheirGradients) {
  Expr x = input({DType::F32, {-1, 3, 9, 9}, 0}, "x");
  Expr w = shared(random_array({8, 3, 3, 3}, 1), "w");
  Expr y = mean(sqr(relu(conv2d(x, w))));
  std::vector<Expr> results = {y, grad(y, w), grad(y, x)};
  Function low = function({x}, results, {.precision = DType::BF16}), high = function({x}, results);
  const Array in = random_array({4, 3, 9, 9}, 2);
  const std::vector<Array> got = low.call({in}), want = high.call({in});
  for (std::size_t k = 0; k < got.size(); ++k) {
    double largest = 0;
    for (std::int64_t i = 0; i < want[k].size(); ++i)
      largest = std::max(largest, std::abs(want[k].at_double(i)));
    for (std::int64_t i = 0; i < got[k].size(); ++i)
      ASSERT_NEAR(got[k].at_double(i), want[k].at_double(i), largest / 40);
  }
}

TEST(Bfloat16, OtherPrecisionsAreRefused) {
  Expr x = tensor(DType::F32, 2, "x");
  const auto e = testing::error_of([&] { function({x}, x, {.precision = DType::F16}); });
  EXPECT_NE(e.message().find("precision is float16"), std::string::npos);
}

}  // namespace
}  // namespace snug
