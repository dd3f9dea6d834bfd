#include <cmath>

#include "base/error.h"
#include "ops/rules.h"

/// Elementwise ops that are special functions of mathematics.
namespace snug::ops {
namespace {

const Expr& dy(const GradArgs& g) { return g.dy[0]; }

/// For a function of (parameter, x): the gradient by x alone, from the derivative. `name` is what
/// users call the parameter.
template <class F>
Exprs grad_by_second(const GradArgs& g, const char* function, const char* name, const char* reason,
                     F derivative) {
  if (g.wanted[0])
    fail(Fault::Unsupported,
         fmt::format("grad: {} has no gradient by {}: {}", function, name, reason),
         "stop_gradient keeps gradients away from it");
  Exprs out(2);
  DType t = g.y[0].dtype();
  if (g.wanted[1]) out[1] = dy(g) * derivative(snug::cast(g.x[0], t), snug::cast(g.x[1], t));
  return unbroadcast_all(g, std::move(out));
}

constexpr const char* kNoClosedForm = "there is no closed form of it";

/// The derivative of gammainc by x.
Expr gamma_density(const Expr& k, const Expr& x) {
  return snug::exp(snug::xlogy0(k - number(1, k), x) - x - snug::gammaln(k));
}

/// 2 x erfcx(x) - 2 / sqrt(pi), which cancels for large x: there its asymptotic series.
Expr erfcx_derivative(const Expr& x, const Expr& y) {
  constexpr double kInvSqrtPi = M_2_SQRTPI / 2;
  Expr far = snug::gt(x, number(20, x));
  Expr near = snug::switch_(far, number(0, x), x);
  Expr small = snug::sqr(number(1, x) / snug::switch_(far, x, number(1, x)));
  auto c = [&](double v) { return number(v, x); };
  Expr series = small * (c(-1) + small * (c(1.5) + small * (c(-3.75) + small * c(13.125))));
  return snug::switch_(far, c(kInvSqrtPi) * series, c(2) * near * y - c(M_2_SQRTPI));
}

}  // namespace

const OpDef gamma = {
    .name = "gamma",
    .doc = "The gamma function of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * g.y[0] * snug::digamma(g.x[0])}; },
    .scalar = unary<Prim::Gamma>,
    .samples = {.low = 0.5, .high = 4, .int_low = 1, .int_high = 9},
};

const OpDef gammaln = {
    .name = "gammaln",
    .doc = "The logarithm of |gamma(x)|.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::digamma(g.x[0])}; },
    .scalar = unary<Prim::Gammaln>,
    .samples = {.low = 0.5, .high = 9, .int_low = 1, .int_high = 20},
};

const OpDef digamma = {
    .name = "digamma",
    .doc = "The derivative of gammaln.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::trigamma(g.x[0])}; },
    .scalar = unary<Prim::Digamma>,
    .samples = {.low = 0.5, .high = 9, .int_low = 1, .int_high = 20},
};

const OpDef trigamma = {
    .name = "trigamma",
    .doc = "The derivative of digamma.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * snug::polygamma(number(2, g.y[0]), g.x[0])};
    },
    .scalar = unary<Prim::Trigamma>,
    .samples = {.low = 0.5, .high = 9, .int_low = 1, .int_high = 20},
};

const OpDef polygamma = {
    .name = "polygamma",
    .doc = "Derivative n (0 to 1000) of digamma, at x.",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return grad_by_second(
          g, "polygamma", "n", "n is a whole number",
          [](const Expr& n, const Expr& x) { return snug::polygamma(n + number(1, n), x); });
    },
    .scalar = binary<Prim::Polygamma>,
    .samples = {.low = 1, .high = 4, .int_low = 1, .int_high = 9, .differentiable = false},
};

const OpDef erfinv = {
    .name = "erfinv",
    .doc = "The inverse of erf.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * number(1 / M_2_SQRTPI, dy(g)) * snug::exp(snug::sqr(g.y[0]))};
    },
    .scalar = unary<Prim::Erfinv>,
    .samples = {.low = -0.9, .high = 0.9, .int_low = -1, .int_high = 1},
};

const OpDef erfcinv = {
    .name = "erfcinv",
    .doc = "The inverse of erfc.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * number(-1 / M_2_SQRTPI, dy(g)) * snug::exp(snug::sqr(g.y[0]))};
    },
    .scalar = unary<Prim::Erfcinv>,
    .samples = {.low = 0.1, .high = 1.9, .int_low = 0, .int_high = 2},
};

const OpDef erfcx = {
    .name = "erfcx",
    .doc = "exp(x * x) * erfc(x), without overflow for large x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * erfcx_derivative(snug::cast(g.x[0], g.y[0].dtype()), g.y[0])};
    },
    .scalar = unary<Prim::Erfcx>,
    .samples = {.integers = false},
};

const OpDef betaln = {
    .name = "betaln",
    .doc = "The logarithm of the beta function, log |gamma(a) gamma(b) / gamma(a + b)|.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      const DType t = g.y[0].dtype();
      const Expr a = snug::cast(g.x[0], t), b = snug::cast(g.x[1], t), both = snug::digamma(a + b);
      return unbroadcast_all(
          g, {dy(g) * (snug::digamma(a) - both), dy(g) * (snug::digamma(b) - both)});
    },
    .scalar = binary<Prim::Betaln>,
    .samples = {.low = 0.5, .high = 9, .int_low = 1, .int_high = 20},
};

const OpDef gammainc = {
    .name = "gammainc",
    .doc = "The regularised lower incomplete gamma function of k, at x.",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return grad_by_second(g, "gammainc", "k", kNoClosedForm, gamma_density);
    },
    .scalar = binary<Prim::Gammainc>,
    .samples = {.low = 0.5, .high = 4, .int_low = 1, .int_high = 9, .differentiable = false},
};

const OpDef gammaincc = {
    .name = "gammaincc",
    .doc = "1 - gammainc(k, x), accurate for large x.",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return grad_by_second(g, "gammaincc", "k", kNoClosedForm, [](const Expr& k, const Expr& x) {
        return snug::neg(gamma_density(k, x));
      });
    },
    .scalar = binary<Prim::Gammaincc>,
    .samples = {.low = 0.5, .high = 4, .int_low = 1, .int_high = 9, .differentiable = false},
};

const OpDef j0 = {
    .name = "j0",
    .doc = "The Bessel function of the first kind of order 0.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {snug::neg(dy(g) * snug::j1(g.x[0]))}; },
    .scalar = unary<Prim::J0>,
};

const OpDef j1 = {
    .name = "j1",
    .doc = "The Bessel function of the first kind of order 1.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Expr two = snug::jv(number(2, g.y[0]), g.x[0]);
      return {dy(g) * number(0.5, dy(g)) * (snug::j0(g.x[0]) - two)};
    },
    .scalar = unary<Prim::J1>,
};

const OpDef jv = {
    .name = "jv",
    .doc = "The Bessel function of the first kind of any order, at x.",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return grad_by_second(g, "jv", "the order", kNoClosedForm, [](const Expr& v, const Expr& x) {
        Expr one = number(1, v);
        return number(0.5, x) * (snug::jv(v - one, x) - snug::jv(v + one, x));
      });
    },
    .scalar = binary<Prim::Jv>,
    .samples = {.low = 0.5, .high = 4, .int_low = 0, .int_high = 9, .differentiable = false},
};

const OpDef i0 = {
    .name = "i0",
    .doc = "The modified Bessel function of the first kind of order 0.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::i1(g.x[0])}; },
    .scalar = unary<Prim::I0>,
};

const OpDef i1 = {
    .name = "i1",
    .doc = "The modified Bessel function of the first kind of order 1.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Expr two = snug::iv(number(2, g.y[0]), g.x[0]);
      return {dy(g) * number(0.5, dy(g)) * (snug::i0(g.x[0]) + two)};
    },
    .scalar = unary<Prim::I1>,
};

const OpDef iv = {
    .name = "iv",
    .doc = "The modified Bessel function of the first kind of any order, at x.",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return grad_by_second(g, "iv", "the order", kNoClosedForm, [](const Expr& v, const Expr& x) {
        Expr one = number(1, v);
        return number(0.5, x) * (snug::iv(v - one, x) + snug::iv(v + one, x));
      });
    },
    .scalar = binary<Prim::Iv>,
    .samples = {.low = 0.5, .high = 4, .int_low = 0, .int_high = 9, .differentiable = false},
};

const OpDef xlogx = {
    .name = "xlogx",
    .doc = "x * log(x); 0 at 0.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * (number(1, dy(g)) + snug::log(g.x[0]))};
    },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Scalar x = s.arg(0, s.result), zero = s.constant(0, s.result);
          return s.select(s.call(Prim::Eq, x, zero), zero, x * s.call(Prim::Log, x));
        },
    .samples = {.low = 0.1, .high = 4, .int_low = 0, .int_high = 9},
};

const OpDef xlogy0 = {
    .name = "xlogy0",
    .doc = "x * log(y); 0 where x is 0.",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(2);
      if (g.wanted[0]) out[0] = dy(g) * snug::log(g.x[1]);
      if (g.wanted[1]) {
        Expr none = snug::eq(g.x[0], number(0, g.x[0]));
        out[1] = snug::switch_(none, number(0, dy(g)), dy(g) * g.x[0] / g.x[1]);
      }
      return unbroadcast_all(g, std::move(out));
    },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Scalar x = s.arg(0, s.result), y = s.arg(1, s.result), zero = s.constant(0, s.result);
          return s.select(s.call(Prim::Eq, x, zero), zero, x * s.call(Prim::Log, y));
        },
    .samples = {.low = 0.1, .high = 4, .int_low = 1, .int_high = 9},
};

}  // namespace snug::ops
