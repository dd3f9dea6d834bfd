// The public functions of linear algebra: values by hand, errors, and double gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/grad.h"
#include "error_of.h"
#include "expr_eval.h"

namespace snug {
namespace {

using testing::error_of;
using testing::run;
using testing::shape_of;
using testing::values;
using Doubles = std::vector<double>;
using Ints = std::vector<std::int64_t>;

const Array kTwo = Array::from<double>({2, 1, 1, 2}, {2, 2});

void expect_near(const Array& got, const Doubles& want) {
  const Doubles found = values(got);
  ASSERT_EQ(found.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(found[i], want[i], 1e-12) << i;
}

TEST(Linalg, ValuesByHand) {
  Expr a = dmatrix();
  const auto of = [&](const Expr& y) { return run(y, {{a, kTwo}}); };
  expect_near(of(inverse(a)), {2 / 3., -1 / 3., -1 / 3., 2 / 3.});
  expect_near(of(pinv(a)), {2 / 3., -1 / 3., -1 / 3., 2 / 3.});
  expect_near(of(det(a)), {3});
  expect_near(of(slogdet(a)[0]), {1});
  expect_near(of(slogdet(a)[1]), {std::log(3)});
  expect_near(of(eigvalsh(a)), {1, 3});
  expect_near(of(eigh(a)[0]), {1, 3});
  expect_near(of(svd(a, true, false)[0]), {3, 1});
  expect_near(of(abs(qr(a)[1])), {std::sqrt(5), 4 / std::sqrt(5), 0, 3 / std::sqrt(5)});
  expect_near(of(abs(qr(a, "r")[0])), {std::sqrt(5), 4 / std::sqrt(5), 0, 3 / std::sqrt(5)});
  expect_near(of(matrix_power(a, 3)), {14, 13, 13, 14});
  expect_near(of(trace(a)), {4});
  expect_near(of(norm(a)), {std::sqrt(10)});
  expect_near(of(norm(a, 1.0)), {3});
  const double plus = (std::exp(3) + std::exp(1)) / 2, minus = (std::exp(3) - std::exp(1)) / 2;
  expect_near(of(expm(a)), {plus, minus, minus, plus});
  EXPECT_EQ(shape_of(of(kron(a, a))), (Ints{4, 4}));
  expect_near(of(matrix_dot({a, inverse(a), a})), {2, 1, 1, 2});
}

TEST(Linalg, LeastSquaresOfLowRank) {
  Expr a = dmatrix(), b = dvector();
  const Array ones = Array::from<double>({1, 1, 1, 1, 1, 1}, {3, 2});
  const Array right = Array::from<double>({1, 2, 3}, {3});
  std::vector<Expr> found = lstsq(a, b);
  expect_near(run(found[0], {{a, ones}, {b, right}}), {1, 1});
  EXPECT_EQ(shape_of(run(found[1], {{a, ones}, {b, right}})), (Ints{0}));
  EXPECT_EQ(run(found[2], {{a, ones}, {b, right}}).at_int(0), 1);
  expect_near(run(found[3], {{a, ones}, {b, right}}), {std::sqrt(6), 0});
}

TEST(Linalg, ErrorsOfArguments) {
  Expr a = dmatrix(), v = dvector(), t = dtensor3();
  EXPECT_EQ(error_of([&] { qr(a, "redced"); }).hint(), "did you mean 'reduced'?");
  EXPECT_EQ(error_of([&] { qr(a, "raw"); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { norm(a, "frob"); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { norm(a, 3.0); }).message(), "norm: order 3 of a matrix");
  EXPECT_EQ(error_of([&] { norm(t); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { norm(t, 2.0); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { kron(v, v); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { trace(v); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { matrix_power(v, 2); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { matrix_dot({}); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { tensorinv(t, 3); }).hint(), "it is a number from 1 to 2");
  EXPECT_EQ(error_of([&] { tensorsolve(a, t); }).fault(), Fault::Type);
  for (auto f : {inverse, det, expm}) EXPECT_EQ(error_of([&] { f(v); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { svd(v); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { eigh(t); }).fault(), Fault::Type);
}

TEST(Linalg, ErrorsOfData) {
  Expr a = dmatrix(), b = dmatrix();
  const Array wide = Array::zeros(DType::F64, {2, 3}), zero = Array::zeros(DType::F64, {2, 2});
  for (const Expr& y : {inverse(a), det(a), slogdet(a)[1], eigvalsh(a), expm(a)}) {
    const auto e = error_of([&] { run(y, {{a, wide}}); });
    EXPECT_EQ(e.fault(), Fault::Shape);
    EXPECT_NE(e.message().find("the matrix is not square: (2, 3)"), std::string::npos);
  }
  EXPECT_EQ(error_of([&] {
              run(inverse(a), {{a, zero}});
            }).message(),
            "inverse: the matrix is singular: pivot 1 of a 2 x 2 matrix is zero");
  Array bad = Array::zeros(DType::F64, {2, 2});
  bad.set_double(1, std::nan(""));
  EXPECT_EQ(error_of([&] {
              run(svd(a)[1], {{a, bad}});
            }).message(),
            "svd: element (0, 1) of a 2 x 2 matrix is NaN or infinite");
  EXPECT_EQ(error_of([&] { run(lstsq(a, b)[0], {{a, bad}, {b, zero}}); }).fault(), Fault::Numeric);
  EXPECT_EQ(error_of([&] {
              run(lstsq(a, b)[0], {{a, Array::zeros(DType::F64, {3, 2})}, {b, zero}});
            }).fault(),
            Fault::Shape);
  EXPECT_EQ(error_of([&] { grad(sum(svd(a)[0]), {a}); }).fault(), Fault::Unsupported);
  EXPECT_EQ(error_of([&] { grad(sum(qr(a, "complete")[0]), {a}); }).fault(), Fault::Unsupported);
}

}  // namespace
}  // namespace snug
