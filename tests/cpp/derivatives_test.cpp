#include "autodiff/derivatives.h"

#include <gtest/gtest.h>

#include "api/function.h"
#include "error_of.h"
#include "expr_eval.h"

namespace snug {
namespace {

using testing::error_of;
using testing::run;
using testing::values;

Array vector_of(const std::vector<double>& v) {
  return Array::from(v, {static_cast<std::int64_t>(v.size())});
}
using Numbers = std::vector<double>;

TEST(Derivatives, ProductsFromBothSides) {
  Expr x = dvector("x"), v = dvector("v");
  Expr y = sqr(x);
  EXPECT_EQ(values(run(Rop({y}, {x}, {v})[0], {{x, vector_of({1, 2})}, {v, vector_of({3, 5})}})),
            (Numbers{6, 20}));
  EXPECT_EQ(values(run(Lop({y}, {x}, {v})[0], {{x, vector_of({1, 2})}, {v, vector_of({3, 5})}})),
            (Numbers{6, 20}));
  // The same output twice counts twice.
  EXPECT_EQ(values(run(Lop({x, x}, {x}, {v, v})[0], {{x, vector_of({0})}, {v, vector_of({3})}})),
            Numbers{6});
}

TEST(Derivatives, WholeMatrices) {
  Expr x = dvector("x");
  EXPECT_EQ(values(run(jacobian(sqr(x), x), {{x, vector_of({1, 2})}})), (Numbers{2, 0, 0, 4}));
  EXPECT_EQ(values(run(hessian(sum(x * x * x), x), {{x, vector_of({1, 2})}})),
            (Numbers{6, 0, 0, 12}));
  Expr p = dvector("p");
  EXPECT_EQ(values(run(hessian_vector_product(sum(x * x * x), {x}, {p})[0],
                       {{x, vector_of({1, 2})}, {p, vector_of({1, 1})}})),
            (Numbers{6, 12}));
}

TEST(Derivatives, Disconnected) {
  Expr x = dvector("x"), y = dvector("y");
  EXPECT_EQ(error_of([&] { Rop({y}, {x}, {x}); }).fault(), Fault::Disconnected);
  EXPECT_EQ(error_of([&] { grad(sum(disconnected_grad(x)), x); }).fault(), Fault::Disconnected);
  EXPECT_EQ(error_of([&] { grad(sum(undefined_grad(x)), x); }).fault(), Fault::Undefined);
  std::vector<std::string> reasons;
  GradOptions options;
  options.undefined = &reasons;
  std::vector<Expr> g = gradients(sum(undefined_grad(x) + y), {x, y}, options);
  EXPECT_FALSE(g[0]);
  EXPECT_TRUE(g[1]);
  EXPECT_NE(reasons[0], "");
  EXPECT_EQ(reasons[1], "");
}

TEST(Watch, PrintHandsTheValueToTheHost) {
  Expr x = dvector("x");
  std::vector<Numbers> seen;
  Expr y = print(x * 2, "y", [&](const Array& a) { seen.push_back(values(a)); });
  auto f = function({x}, y + 1);
  f(vector_of({1, 2}));
  f(vector_of({5}));
  EXPECT_EQ(seen, (std::vector<Numbers>{{2, 4}, {10}}));
}

TEST(Watch, ExceptionsOfTheHostEndTheCall) {
  Expr w = shared(vector_of({1}), "w");
  Expr y = print(w + 1, "", [](const Array&) { throw std::runtime_error("enough"); });
  auto f = function({}, std::vector<Expr>{}, {.updates = {{w, y}}});
  EXPECT_THROW(f(), std::runtime_error);
  EXPECT_EQ(values(as_shared(w)->get_value()), Numbers{1});
}

TEST(Watch, Assertions) {
  Expr x = dvector("x");
  auto f = function({x}, assert_(x, {lt(sum(x), 10)}, "too much"));
  EXPECT_EQ(values(f(vector_of({1}))), Numbers{1});
  EXPECT_EQ(error_of([&] { f(vector_of({11})); }).fault(), Fault::Assertion);
}

TEST(Shared, TwinsHaveOneValue) {
  Expr w = shared(vector_of({1}), "w");
  Expr twin = copy_leaf(w);
  EXPECT_FALSE(same(w, twin));
  as_shared(w)->set_value(vector_of({4}));
  EXPECT_EQ(values(as_shared(twin)->get_value()), Numbers{4});
  auto f = function({}, w + twin, {.updates = {{twin, w * 2}}});
  EXPECT_EQ(values(f()), Numbers{8});
  EXPECT_EQ(values(as_shared(w)->get_value()), Numbers{8});
}

TEST(Branches, Ifelse) {
  Expr c = iscalar("c"), x = dvector("x");
  auto f = function({c, x}, ifelse(c, x * 2, slice_axis(x, 0, Expr(), Expr(1))));
  EXPECT_EQ(values(f(Array::scalar<std::int32_t>(1), vector_of({1, 2}))), (Numbers{2, 4}));
  EXPECT_EQ(values(f(Array::scalar<std::int32_t>(0), vector_of({1, 2}))), Numbers{1});
}

}  // namespace
}  // namespace snug
