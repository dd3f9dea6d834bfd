#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

bool absorbed(const Function& f) { return f.explain().find(" affine ") != std::string::npos; }

struct Layer {
  Expr x, W, b;
  explicit Layer(DType dtype = DType::F32)
      : x(input({dtype, {-1, 70}, 0}, "x")),
        W(shared(random_array({70, 90}, 1, -1, 1, dtype), "W")),
        b(shared(random_array({90}, 2, -1, 1, dtype), "b")) {}
  Expr sum() const { return dot(x, W) + b; }
};

/// What is not above 0 becomes 0, nan too; that is what oneDNN does.
Expr cut(const Expr& x) {
  Expr zero = constant(Array::zeros(x.dtype(), {}));
  return switch_(gt(x, zero), x, zero);
}

/// Agrees with the reference for sizes that oneDNN and that the native product do. Not every CPU
/// multiplies bfloat16.
void expect_same(const Layer& layer, const Expr& y, double tolerance) {
  Function f = function({layer.x}, y), r = function({layer.x}, y, {.mode = Mode::Reference});
  if (y.dtype() == DType::F32) {
    ASSERT_TRUE(absorbed(f));
  }
  for (std::int64_t rows : {200, 3, 1, 0}) {
    Array in = random_array({rows, 70}, 3, -1, 1, layer.x.dtype());
    Array got = f(in), want = r(in);
    ASSERT_EQ(got.shape, want.shape);
    for (std::int64_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got.at_double(i), want.at_double(i), tolerance) << rows << " rows, " << i;
  }
}

TEST(AbsorbBias, IntoAProductThatNoKernelReads) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    Layer layer(dtype);
    double tolerance = dtype == DType::F32 ? 1e-4 : 0.1;
    expect_same(layer, layer.sum(), tolerance);
    expect_same(layer, cut(layer.sum()), tolerance);
    Expr V = shared(random_array({90, 30}, 4, -1, 1, dtype), "V");
    expect_same(layer, dot(cut(layer.sum()), V), 5 * tolerance);
  }
}

TEST(AbsorbBias, KeepsWhatTheKernelMakesOfNanAndInfinity) {
  Layer layer;
  Array in = random_array({200, 70}, 3);
  in.set_double(0, std::numeric_limits<double>::quiet_NaN());
  in.set_double(70, std::numeric_limits<double>::infinity());
  for (const Expr& y : {cut(layer.sum()), layer.sum()}) {
    Function f = function({layer.x}, y);
    ASSERT_TRUE(absorbed(f));
    Array got = f(in), want = function({layer.x}, y, {.mode = Mode::Reference})(in);
    for (std::int64_t i = 0; i < 200; ++i) {
      double a = got.at_double(i), b = want.at_double(i);
      EXPECT_TRUE(a == b || std::abs(a - b) < 1e-4 || (std::isnan(a) && std::isnan(b)))
          << i << ": " << a << ", " << b;
    }
  }
}

TEST(AbsorbBias, LeavesWhatAKernelReadsAnyway) {
  Layer layer;
  EXPECT_FALSE(absorbed(function({layer.x}, tanh(layer.sum()))));
  EXPECT_FALSE(absorbed(function({layer.x}, sum(layer.sum(), 1))));
  EXPECT_FALSE(absorbed(function({layer.x}, relu(layer.sum()))));  // keeps nan
  Expr product = dot(layer.x, layer.W);
  EXPECT_FALSE(absorbed(function({layer.x}, {product + layer.b, product})));
  EXPECT_FALSE(absorbed(function({layer.x}, dot(layer.x, layer.W) + cast(layer.b, DType::F64))));
  Expr loss = sum(sqr(cut(layer.sum())));
  EXPECT_FALSE(absorbed(function({layer.x}, grad(loss, layer.W))));
}

TEST(AbsorbBias, WorksInPlaceOfTheKernelInEveryMode) {
  Layer layer;
  Function f = function({layer.x}, cut(layer.sum()), {.mode = Mode::Check});
  f(random_array({200, 70}, 3));
  f(random_array({2, 70}, 3));
}

}  // namespace
}  // namespace snug
