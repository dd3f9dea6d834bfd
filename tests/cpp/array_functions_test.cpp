// Functions of the C++ API that sort, pick, arrange and contract. Values are compared with NumPy in
// the tests of the package; here is what only C++ has: structs, optional axes, defaults.
#include <gtest/gtest.h>

#include "error_of.h"
#include "expr_eval.h"

namespace snug {
namespace {

using testing::counted;
using testing::error_of;
using testing::ints;
using testing::run;
using testing::shape_of;
using testing::values;
using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

TEST(ArrayFunctions, AxisMayBeLeftOut) {
  Expr x = dmatrix();
  Array a = Array::from(Doubles{3, 1, 2, 0}, {2, 2});
  EXPECT_EQ(values(run(sort(x), {{x, a}})), (Doubles{1, 3, 0, 2}));
  EXPECT_EQ(values(run(sort(x, std::nullopt), {{x, a}})), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(values(run(argsort(x, 0), {{x, a}})), (Doubles{1, 1, 0, 0}));
  EXPECT_EQ(values(run(cumsum(x), {{x, a}})), (Doubles{3, 4, 6, 6}));
  EXPECT_EQ(values(run(cumprod(x, 1), {{x, a}})), (Doubles{3, 3, 2, 0}));
  EXPECT_EQ(values(run(repeat(x, 2, 1), {{x, a}})), (Doubles{3, 3, 1, 1, 2, 2, 0, 0}));
  EXPECT_EQ(shape_of(run(roll(x, 1), {{x, a}})), (Ints{2, 2}));
}

TEST(ArrayFunctions, TopkGivesValuesAndPlaces) {
  Expr x = dvector();
  std::vector<Expr> top = topk_and_argtopk(x, 2);
  std::vector<Array> found = run(top, {{x, Array::from(Doubles{1, 5, 3}, {3})}});
  EXPECT_EQ(values(found[0]), (Doubles{5, 3}));
  EXPECT_EQ(values(found[1]), (Doubles{1, 2}));
}

TEST(ArrayFunctions, UniqueGivesAStruct) {
  Expr x = lvector();
  UniqueResult u = unique(x);
  std::vector<Array> found = run({u.values, u.index, u.inverse, u.counts}, {{x, ints({7, 2, 7})}});
  EXPECT_EQ(values(found[0]), (Doubles{2, 7}));
  EXPECT_EQ(values(found[1]), (Doubles{1, 0}));
  EXPECT_EQ(values(found[2]), (Doubles{1, 0, 1}));
  EXPECT_EQ(values(found[3]), (Doubles{1, 2}));
}

TEST(ArrayFunctions, LinearRecurrence) {
  Expr a = dvector(), b = dvector();
  Array u = Array::from(Doubles{9, 2, 3}, {3}), v = Array::from(Doubles{1, 1, 1}, {3});
  EXPECT_EQ(values(run(linear_recurrence(a, b), {{a, u}, {b, v}})), (Doubles{1, 3, 10}));
}

TEST(ArrayFunctions, SplitAndPad) {
  Expr x = dvector(), n = lscalar();
  std::vector<Expr> parts = split(x, {n, 3 - n});
  std::vector<Array> found = run(parts, {{x, counted({3})}, {n, Array::scalar<std::int64_t>(1)}});
  EXPECT_EQ(values(found[0]), (Doubles{0}));
  EXPECT_EQ(values(found[1]), (Doubles{1, 2}));
  EXPECT_EQ(values(run(pad(x, {1, 2}), {{x, counted({2})}})), (Doubles{0, 0, 1, 0, 0}));
  EXPECT_EQ(values(run(pad(x, {1, 2}, "wrap"), {{x, counted({2})}})), (Doubles{1, 0, 1, 0, 1}));
}

TEST(ArrayFunctions, EinsumContractsInPairs) {
  Expr x = dmatrix(), y = dmatrix(), z = dvector();
  Expr e = einsum("ab,bc,c->a", {x, y, z});
  Array a = counted({2, 2});
  // x (y z) with z = (0, 1).
  EXPECT_EQ(values(run(e, {{x, a}, {y, a}, {z, counted({2})}})), (Doubles{3, 11}));
  EXPECT_EQ(e.ndim(), 1);
  EXPECT_EQ(einsum("ij->ji", {x}).ndim(), 2);
}

TEST(ArrayFunctions, ErrorsNameTheFunction) {
  Expr x = dmatrix();
  EXPECT_EQ(error_of([&] { sort(x, 2); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { topk(x, 0); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { take(x, dvector()); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { einsum("ij,jk", {x}); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { squeeze(x, 0); }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { meshgrid({x}); }).fault(), Fault::Type);
}

}  // namespace
}  // namespace snug
