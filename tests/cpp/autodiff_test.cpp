#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/grad.h"
#include "base/origin_marks.h"
#include "conformance.h"
#include "error_of.h"
#include "expr_eval.h"
#include "ops/rows.h"

namespace snug {
namespace {

using testing::counted;
using testing::error_of;
using testing::Givens;
using testing::ints;
using testing::random_array;
using testing::run;
using testing::values;

/// A cost that weights every element of an expression differently, so that no two gradients cancel.
Expr weighted(const Expr& y) {
  if (y.ndim() == 0) return sqr(y) + y;
  Expr flat = flatten(cast(y, DType::F64));
  Expr weight = sin(cast(arange(shape_i(flat, 0)), DType::F64) * 0.7 + 0.3);
  return sum(flat * weight);
}

/// Compares the gradients of `cost` by the float inputs with central differences.
void check_gradient(const Expr& cost, const Givens& given, double tolerance = 2e-6,
                    const char* what = "") {
  std::vector<Expr> wrt;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (is_float(given[i].second.dtype)) {
      wrt.push_back(given[i].first);
      which.push_back(i);
    }
  std::vector<Expr> g = gradients(cost, wrt, {.disconnected_inputs = Disconnected::Ignore});
  std::vector<Array> got = run(g, given);
  for (std::size_t j = 0; j < wrt.size(); ++j) {
    ASSERT_EQ(g[j].dtype(), wrt[j].dtype()) << what;
    ASSERT_EQ(g[j].type().broadcast, wrt[j].type().broadcast) << what;
    ASSERT_EQ(got[j].shape, given[which[j]].second.shape) << what;
    for (std::int64_t k = 0; k < got[j].size(); ++k) {
      const double h = 1e-5;
      auto at = [&](double delta) {
        Givens moved = given;
        Array a = given[which[j]].second.contiguous_copy();
        a.set_double(k, a.at_double(k) + delta);
        moved[which[j]].second = a;
        return run(cost, moved).at_double(0);
      };
      double expected = (at(h) - at(-h)) / (2 * h);
      EXPECT_NEAR(got[j].at_double(k), expected, tolerance * std::max(1.0, std::fabs(expected)))
          << what << ": input " << j << " element " << k;
    }
  }
}

/// Checks the gradient and the gradient of the gradient.
void check_twice(const Expr& y, const Givens& given, double tolerance = 2e-6,
                 const char* what = "") {
  Expr cost = weighted(y);
  check_gradient(cost, given, tolerance, what);
  std::vector<Expr> wrt;
  for (const auto& [x, value] : given)
    if (is_float(value.dtype)) wrt.push_back(x);
  std::vector<Expr> g = gradients(cost, wrt, {.disconnected_inputs = Disconnected::Ignore});
  Expr second = constant(Array::scalar(0.0));
  for (const Expr& e : g) second = second + weighted(sqr(e) + e);
  check_gradient(second, given, 10 * tolerance, what);
}

Array f64(const Dims& shape, unsigned seed, double low = -2, double high = 2) {
  return random_array(DType::F64, shape, seed, low, high);
}

TEST(Autodiff, EveryElementwiseRow) {
  for (const OpDef* op : all_ops()) {
    if (!has(*op, kElementwise) || !op->grad || !op->samples.differentiable) continue;
    if (op == &ops::cast || op == &ops::switch_) continue;
    SCOPED_TRACE(std::string(op->name));
    std::vector<Expr> inputs;
    Givens given;
    for (int k = 0; k < op->arity; ++k) {
      inputs.push_back(dmatrix());
      Array a = f64({2, 3}, 11 + static_cast<unsigned>(k), op->samples.low, op->samples.high);
      given.push_back({inputs.back(), a});
    }
    check_twice(apply(*op, inputs, testing::sample_attrs(*op)), given, 1e-5, op->name.data());
  }
}

TEST(Autodiff, Broadcasting) {
  Expr x = dmatrix("x"), r = drow("r"), c = dcol("c"), s = dscalar("s"), v = dvector("v");
  Givens given{{x, f64({3, 4}, 1)},
               {r, f64({1, 4}, 2)},
               {c, f64({3, 1}, 3)},
               {s, f64({}, 4)},
               {v, f64({4}, 5)}};
  check_twice(x * r + c * s - v / (sqr(x) + 2), given);
  check_twice(maximum(x, r), {given[0], given[1]});
  check_twice(switch_(gt(x, 0), x * r, c), {given[0], given[1], given[2]});
}

TEST(Autodiff, Reductions) {
  Expr x = dtensor3("x");
  Givens given{{x, f64({2, 3, 4}, 1)}};
  check_twice(sum(x, {0, 2}), given);
  check_twice(sum(sqr(x), 1, true) * x, given);
  check_twice(mean(x, {1}), given);
  check_twice(max(x, 2), given);
  check_twice(min(x, {0, 1}), given);
  check_twice(prod(x, 2), given, 1e-5);
  check_twice(var(x, 0), given);
  check_twice(stddev(x, {0, 1}, false, 1), given, 1e-5);
}

TEST(Autodiff, ProductWithZeros) {
  Expr x = dmatrix("x");
  Array a = Array::from<double>({2, 0, 3, 0, 0, 5, 1, 2, 4}, {3, 3});
  check_gradient(weighted(prod(x, 1)), {{x, a}});
}

TEST(Autodiff, TiesShareTheGradientOfMax) {
  Expr x = dvector("x");
  Array g = run(grad(max(x), x), {{x, Array::from<double>({1, 3, 3, 2}, {4})}});
  EXPECT_EQ(values(g), (std::vector<double>{0, 1, 1, 0}));
}

TEST(Autodiff, Views) {
  Expr x = dmatrix("x"), r = drow("r"), s = dscalar("s");
  Givens gx{{x, f64({3, 4}, 1)}};
  check_twice(dimshuffle(x, {1, -1, 0}), gx);
  check_twice(reshape(x, {2, -1}), gx);
  check_twice(flatten(x), gx);
  check_twice(broadcast_to(r, {5, shape_i(x, 1)}) * 2, {{r, f64({1, 4}, 2)}, gx[0]});
  check_twice(alloc(s, {2, 3}), {{s, f64({}, 3)}});
  check_twice(concatenate({x, sqr(x), r}, 0), {gx[0], {r, f64({1, 4}, 2)}});
  check_twice(stack({x, exp(x)}, 1), gx);
}

TEST(Autodiff, Slices) {
  Expr x = dmatrix("x"), i = lscalar("i");
  Givens given{{x, f64({5, 4}, 1)}, {i, Array::scalar<std::int64_t>(1)}};
  check_twice(subtensor(x, {IndexItem::range(i, {}, 2), IndexItem::range({}, {}, -1)}), given);
  check_twice(subtensor(x, {IndexItem(i)}), given);
  check_twice(subtensor(x, {IndexItem(), IndexItem(-1)}), {given[0]});
  Expr y = dmatrix("y");
  Givens both{given[0], {y, f64({2, 4}, 2)}};
  check_twice(set_subtensor(x, {IndexItem::range(1, 3)}, y), both);
  check_twice(inc_subtensor(x, {IndexItem::range(1, 3)}, y), both);
}

TEST(Autodiff, IndexArrays) {
  Expr x = dmatrix("x"), i = lvector("i"), j = ivector("j"), y = dmatrix("y");
  Array jj = ints({0, 3, 3}).to(DType::I32);
  Givens given{{x, f64({5, 4}, 1)}, {i, ints({1, -1, 1})}, {j, jj}};
  check_twice(subtensor(x, {IndexItem(i), IndexItem(j)}), given);
  check_twice(subtensor(x, {IndexItem(i)}), {given[0], given[1]});
  check_twice(subtensor(x, {IndexItem(), IndexItem(j)}), {given[0], given[2]});
  Givens with_y{given[0], given[1], {y, f64({3, 4}, 2)}};
  check_twice(inc_subtensor(x, {IndexItem(i)}, y), with_y);
  with_y[1].second = ints({1, -1, 0});  // no repeated place: the derivative exists
  check_twice(set_subtensor(x, {IndexItem(i)}, y), with_y);
  check_twice(subtensor(x, {IndexItem(gt(x, 0))}), {given[0]});
}

TEST(Autodiff, Products) {
  Expr a = dmatrix("a"), b = dmatrix("b"), v = dvector("v"), t = dtensor3("t"), u = dtensor3("u");
  Givens ab{{a, f64({3, 4}, 1)}, {b, f64({4, 2}, 2)}};
  check_twice(dot(a, b), ab);
  check_twice(dot(a, v), {ab[0], {v, f64({4}, 3)}});
  check_twice(dot(v, b), {ab[1], {v, f64({4}, 3)}});
  check_twice(dot(v, v), {{v, f64({4}, 3)}});
  check_twice(dot(t, b), {ab[1], {t, f64({2, 3, 4}, 4)}});
  check_twice(batched_dot(t, u), {{t, f64({2, 3, 4}, 4)}, {u, f64({2, 4, 2}, 5)}});
}

TEST(Autodiff, Factorisations) {
  Expr x = dmatrix("x"), b = dmatrix("b"), v = dvector("v");
  Expr a = dot(x, transpose(x)) + 3 * eye(3, 3, 0, DType::F64);
  Givens given{{x, f64({3, 3}, 1)}, {b, f64({3, 2}, 2)}};
  check_twice(cholesky(a), {given[0]}, 1e-5);
  check_twice(cholesky(a, false), {given[0]}, 1e-5);
  for (const char* kind : {"general", "lower", "upper", "positive"})
    for (bool trans : {false, true}) check_twice(solve(a, b, kind, trans), given, 1e-5, kind);
  check_twice(solve(a, v), {given[0], {v, f64({3}, 3)}}, 1e-5);
  // As a function of all elements of the matrix: only what is read has a gradient.
  Array spd = Array::from<double>({4, 1, 0.5, 1, 3, 0.2, 0.5, 0.2, 2}, {3, 3});
  check_gradient(weighted(cholesky(x)), {{x, spd}});
  check_gradient(weighted(solve(x, b, "positive")), {{x, spd}, given[1]});
}

TEST(Autodiff, Convolutions) {
  Expr x = dtensor4("x"), w = dtensor4("w");
  Givens given{{x, f64({2, 2, 5, 4}, 1)}, {w, f64({2, 2, 3, 2}, 2)}};
  check_twice(conv2d(x, w), given, 1e-4);
  ConvOptions o;
  o.pad = {1, 0, 2, 1};
  o.subsample = {2, 1};
  o.dilation = {1, 2};
  o.flip = false;
  check_twice(conv2d(x, w, o), given, 1e-4);
  ConvOptions grouped;
  grouped.groups = 2;
  Givens two{given[0], {w, f64({2, 1, 2, 2}, 3)}};
  check_twice(conv2d(x, w, grouped), two, 1e-4);
}

TEST(Autodiff, Networks) {
  Expr x = dmatrix("x"), y = ivector("y");
  Givens given{{x, f64({3, 4}, 1)}};
  check_twice(softmax(x), given);
  check_twice(log_softmax(x), given);
  Array target = ints({0, 3, 1}).to(DType::I32);
  check_twice(categorical_crossentropy(softmax(x), y), {given[0], {y, target}});
  check_twice(binary_crossentropy(sigmoid(x), 0.3), given, 1e-5);
  check_twice(relu(x), given);
}

TEST(Autodiff, Loops) {
  Expr x = dmatrix("x"), h0 = dvector("h0"), w = dmatrix("w");
  Givens given{{x, f64({4, 3}, 1)}, {h0, f64({3}, 2)}, {w, f64({3, 3}, 3)}};
  LoopBody step = [&](const Expr& i, const std::vector<Expr>& e, const std::vector<Expr>& s) {
    Expr h = tanh(dot(s[0], w) + e[0] * (cast(i, DType::F64) + 1));
    return LoopStep{{h}, {h * e[0]}};
  };
  LoopResult r = loop(step, {x}, {h0});
  Expr cost = weighted(r.outputs[0]) + weighted(r.states[0]);
  check_gradient(cost, given);
  auto [gx, gw] = grad(cost, x, w);
  check_gradient(weighted(sqr(gx)) + weighted(sqr(gw)), given, 1e-5);
  // Only the last state counts, no sequences, a given number of iterations.
  Expr n = lscalar("n");
  LoopResult power = loop(
      [&](const Expr&, const std::vector<Expr>&, const std::vector<Expr>& s) {
        return LoopStep{{s[0] * h0}, {}};
      },
      {}, {ones_like(h0)}, n);
  Givens with_n{given[1], {n, Array::scalar<std::int64_t>(3)}};
  check_gradient(weighted(power.states[0]), with_n);
  with_n[1].second = Array::scalar<std::int64_t>(0);
  check_gradient(weighted(power.states[0]), with_n);
  check_gradient(weighted(map([&](const std::vector<Expr>& e) { return dot(e[0], w); }, {x})),
                 {given[0], given[2]});
}

TEST(Autodiff, RandomNumbersInALoopAreTheSameBackwards) {
  Expr x = dmatrix("x"), w = dmatrix("w");
  RandomStream s(3);
  LoopResult r = loop(
      [&](const Expr&, const std::vector<Expr>& e, const std::vector<Expr>& h) {
        Expr next = tanh(dot(dropout(h[0], 0.3, s), w) + e[0]);
        return LoopStep{{next}, {next}};
      },
      {x}, {ones_like(subtensor(x, {IndexItem(0)}))});
  check_gradient(weighted(r.outputs[0]), {{x, f64({4, 3}, 1)}, {w, f64({3, 3}, 2)}});
}

TEST(Autodiff, NestedLoops) {
  Expr x = dmatrix("x"), w = dvector("w");
  Expr y = map(
      [&](const std::vector<Expr>& row) {
        return map([&](const std::vector<Expr>& e) { return sum(sqr(e[0] * w)); }, row);
      },
      {x});
  check_gradient(weighted(y), {{x, f64({2, 3}, 1)}, {w, f64({2}, 2)}});
}

TEST(Autodiff, DtypesFollowTheVariable) {
  Expr x = fmatrix("x"), d = dvector("d"), i = imatrix("i");
  auto [gx, gd] = grad(sum(x * d), x, d);
  EXPECT_EQ(gx.dtype(), DType::F32);
  EXPECT_EQ(gd.dtype(), DType::F64);
  Expr gi = grad(sum(cast(i, DType::F64) * d), i);  // an integer variable gets a float
  EXPECT_EQ(gi.dtype(), DType::F64);
}

TEST(Autodiff, StepsHaveGradientZero) {
  Expr x = dvector("x");
  Array v = Array::from<double>({1, -2, 3}, {3});
  for (const Expr& cost :
       {mean(gt(x, 0)), sum(floor(x)), sum(stop_gradient(x)), cast(sum(argmax(x)), DType::F64)})
    EXPECT_EQ(values(run(grad(cost, x), {{x, v}})), (std::vector<double>{0, 0, 0}));
}

TEST(Autodiff, Options) {
  Expr x = dvector("x"), y = sqr(x), z = dvector("z");
  Array v = Array::from<double>({1, 2}, {2});
  EXPECT_EQ(values(run(gradients(sum(x * y), {x}, {.consider_constant = {y}})[0], {{x, v}})),
            (std::vector<double>{1, 4}));
  Expr known = gradients({}, {x}, {.known_grads = {{y, ones_like(y) * 3}}})[0];
  EXPECT_EQ(values(run(known, {{x, v}})), (std::vector<double>{6, 12}));
  GradOptions ignore{.disconnected_inputs = Disconnected::Ignore};
  EXPECT_EQ(values(run(gradients(sum(x), {z}, ignore)[0], {{z, v}})), (std::vector<double>{0, 0}));
  ignore.zero_if_disconnected = false;
  EXPECT_FALSE(gradients(sum(x), {z}, ignore)[0]);
}

TEST(Autodiff, Errors) {
  Expr x = dvector("x"), z = dvector("z"), i = lvector("i");
  EXPECT_EQ(error_of([&] { grad(x, x); }).fault(), Fault::Type);
  EXPECT_EQ(grad(sum(i), i).dtype(), default_float());  // zeros, as in Theano
  const auto e = error_of([&] { grad(sum(x), z); });
  EXPECT_EQ(e.fault(), Fault::Disconnected);
  EXPECT_NE(e.message().find("z"), std::string::npos);
  // The sizes of x do not count.
  EXPECT_EQ(error_of([&] { grad(sum(ones_like(x)), x); }).fault(), Fault::Disconnected);
  EXPECT_EQ(error_of([&] { grad(cast(shape_i(x, 0), DType::F64), x); }).fault(),
            Fault::Disconnected);
}

TEST(Autodiff, GradientsKeepTheOriginOfTheirNode) {
  Expr x = dvector("x");
  Expr y = exp(x);
  OriginId origin = y->owner->origin;
  ASSERT_NE(origin, 0u);
  Expr g = grad(sum(y), x);
  EXPECT_EQ(g->owner->origin, as_derivative(with_word(origin, "exp backward")));
  EXPECT_EQ(frames_of(g->owner->origin), frames_of(origin));
}

TEST(Autodiff, ADeepChain) {
  Expr x = dscalar("x"), y = x;
  for (int k = 0; k < 100000; ++k) y = sin(y);
  Expr g = grad(y, x);
  EXPECT_EQ(g.ndim(), 0);
}

}  // namespace
}  // namespace snug
