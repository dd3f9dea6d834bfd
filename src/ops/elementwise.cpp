#include <cmath>

#include "ops/rules.h"

namespace snug::ops {
namespace {

/// The gradient of a step function.
Exprs zero_grad(const GradArgs& g) {
  Exprs gradients;
  for (const Expr& x : g.x) gradients.push_back(snug::zeros_like(x, g.dy[0].dtype()));
  return gradients;
}

/// The result has the argument's dtype; on integers the op is the identity.
template <Prim P>
Scalar rounding(ScalarBuilder& s, const Attrs&) {
  return is_float(s.result) ? s.call(P, s.arg(0)) : s.arg(0);
}

const Expr& dy(const GradArgs& g) { return g.dy[0]; }

}  // namespace

const OpDef neg = {
    .name = "neg",
    .doc = "-x.",
    .traits = kElementwise,
    .infer = signed_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {snug::neg(dy(g))}; },
    .scalar = unary<Prim::Neg>,
    .samples = {.numpy = "-a"},
};

const OpDef abs = {
    .name = "abs",
    .doc = "The absolute value of x.",
    .traits = kElementwise,
    .infer = upcast_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::sign(g.x[0])}; },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          return s.result == DType::Bool ? s.arg(0) : s.call(Prim::Abs, s.arg(0));
        },
    .samples = {.numpy = "np.abs(a)"},
};

const OpDef sign = {
    .name = "sign",
    .doc = "-1, 0 or 1; nan stays nan.",
    .traits = kElementwise,
    .infer = signed_rule,
    .grad = zero_grad,
    .scalar = unary<Prim::Sign>,
    .samples = {.numpy = "np.sign(a)"},
};

const OpDef sqr = {
    .name = "sqr",
    .doc = "x * x.",
    .traits = kElementwise,
    .infer = signed_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * (number(2, dy(g)) * g.x[0])}; },
    .scalar = unary<Prim::Sqr>,
    .samples = {.numpy = "np.square(a)"},
};

const OpDef sqrt = {
    .name = "sqrt",
    .doc = "The square root of x; nan for negative x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * number(0.5, dy(g)) / g.y[0]}; },
    .scalar = unary<Prim::Sqrt>,
    .samples = {.low = 0.1, .high = 4, .int_low = 0, .numpy = "np.sqrt(a)"},
};

const OpDef exp = {
    .name = "exp",
    .doc = "e to the power of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * g.y[0]}; },
    .scalar = unary<Prim::Exp>,
    .samples = {.numpy = "np.exp(a)"},
};

const OpDef expm1 = {
    .name = "expm1",
    .doc = "exp(x) - 1, accurate for small x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::exp(g.x[0])}; },
    .scalar = unary<Prim::Expm1>,
    .samples = {.numpy = "np.expm1(a)"},
};

const OpDef exp2 = {
    .name = "exp2",
    .doc = "2 to the power of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * g.y[0] * number(M_LN2, dy(g))}; },
    .scalar = unary<Prim::Exp2>,
    .samples = {.numpy = "np.exp2(a)"},
};

const OpDef log = {
    .name = "log",
    .doc = "The natural logarithm of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) / g.x[0]}; },
    .scalar = unary<Prim::Log>,
    .samples = {.low = 0.1, .high = 10, .int_low = 1, .int_high = 20, .numpy = "np.log(a)"},
};

const OpDef log1p = {
    .name = "log1p",
    .doc = "log(1 + x), accurate for small x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) / (number(1, dy(g)) + g.x[0])}; },
    .scalar = unary<Prim::Log1p>,
    .samples = {.low = -0.9, .high = 10, .int_low = 0, .int_high = 20, .numpy = "np.log1p(a)"},
};

const OpDef log2 = {
    .name = "log2",
    .doc = "The logarithm of x to base 2.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * number(M_LOG2E, dy(g)) / g.x[0]}; },
    .scalar = unary<Prim::Log2>,
    .samples = {.low = 0.1, .high = 10, .int_low = 1, .int_high = 20, .numpy = "np.log2(a)"},
};

const OpDef log10 = {
    .name = "log10",
    .doc = "The logarithm of x to base 10.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * number(M_LOG10E, dy(g)) / g.x[0]}; },
    .scalar = unary<Prim::Log10>,
    .samples = {.low = 0.1, .high = 10, .int_low = 1, .int_high = 20, .numpy = "np.log10(a)"},
};

const OpDef tanh = {
    .name = "tanh",
    .doc = "The hyperbolic tangent of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * (number(1, dy(g)) - snug::sqr(g.y[0]))};
    },
    .scalar = unary<Prim::Tanh>,
    .samples = {.numpy = "np.tanh(a)"},
};

const OpDef sigmoid = {
    .name = "sigmoid",
    .doc = "1 / (1 + exp(-x)).",
    .traits = kElementwise,
    .infer = float_rule,
    // Not 1 - y, which is 0 where y rounds to 1.
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * g.y[0] * snug::sigmoid(snug::neg(snug::cast(g.x[0], g.y[0].dtype())))};
    },
    .scalar = unary<Prim::Sigmoid>,
    .samples = {.numpy = "1 / (1 + np.exp(-a))"},
};

const OpDef softplus = {
    .name = "softplus",
    .doc = "log(1 + exp(x)), without overflow.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::sigmoid(g.x[0])}; },
    .scalar = unary<Prim::Softplus>,
    .samples = {.numpy = "np.logaddexp(a, 0)"},
};

const OpDef erf = {
    .name = "erf",
    .doc = "The error function of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * number(M_2_SQRTPI, dy(g)) * snug::exp(snug::neg(snug::sqr(g.x[0])))};
    },
    .scalar = unary<Prim::Erf>,
    .samples = {.integers = false, .numpy = "np.vectorize(math.erf)(a)"},
};

const OpDef erfc = {
    .name = "erfc",
    .doc = "1 - erf(x), accurate for large x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * number(-M_2_SQRTPI, dy(g)) * snug::exp(snug::neg(snug::sqr(g.x[0])))};
    },
    .scalar = unary<Prim::Erfc>,
    .samples = {.integers = false, .numpy = "np.vectorize(math.erfc)(a)"},
};

const OpDef sin = {
    .name = "sin",
    .doc = "The sine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::cos(g.x[0])}; },
    .scalar = unary<Prim::Sin>,
    .samples = {.numpy = "np.sin(a)"},
};

const OpDef cos = {
    .name = "cos",
    .doc = "The cosine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {snug::neg(dy(g) * snug::sin(g.x[0]))}; },
    .scalar = unary<Prim::Cos>,
    .samples = {.numpy = "np.cos(a)"},
};

const OpDef tan = {
    .name = "tan",
    .doc = "The tangent of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) * (number(1, dy(g)) + snug::sqr(g.y[0]))};
    },
    .scalar = unary<Prim::Tan>,
    .samples = {.low = -1.3, .high = 1.3, .numpy = "np.tan(a)"},
};

const OpDef asin = {
    .name = "asin",
    .doc = "The inverse sine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) / snug::sqrt(number(1, dy(g)) - snug::sqr(g.x[0]))};
    },
    .scalar = unary<Prim::Asin>,
    .samples = {.low = -0.9, .high = 0.9, .int_low = -1, .int_high = 1, .numpy = "np.arcsin(a)"},
};

const OpDef acos = {
    .name = "acos",
    .doc = "The inverse cosine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {snug::neg(dy(g)) / snug::sqrt(number(1, dy(g)) - snug::sqr(g.x[0]))};
    },
    .scalar = unary<Prim::Acos>,
    .samples = {.low = -0.9, .high = 0.9, .int_low = -1, .int_high = 1, .numpy = "np.arccos(a)"},
};

const OpDef atan = {
    .name = "atan",
    .doc = "The inverse tangent of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) / (number(1, dy(g)) + snug::sqr(g.x[0]))};
    },
    .scalar = unary<Prim::Atan>,
    .samples = {.numpy = "np.arctan(a)"},
};

const OpDef sinh = {
    .name = "sinh",
    .doc = "The hyperbolic sine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::cosh(g.x[0])}; },
    .scalar = unary<Prim::Sinh>,
    .samples = {.numpy = "np.sinh(a)"},
};

const OpDef cosh = {
    .name = "cosh",
    .doc = "The hyperbolic cosine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {dy(g) * snug::sinh(g.x[0])}; },
    .scalar = unary<Prim::Cosh>,
    .samples = {.numpy = "np.cosh(a)"},
};

const OpDef asinh = {
    .name = "asinh",
    .doc = "The inverse hyperbolic sine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) / snug::sqrt(snug::sqr(g.x[0]) + number(1, dy(g)))};
    },
    .scalar = unary<Prim::Asinh>,
    .samples = {.numpy = "np.arcsinh(a)"},
};

const OpDef acosh = {
    .name = "acosh",
    .doc = "The inverse hyperbolic cosine of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) / snug::sqrt(snug::sqr(g.x[0]) - number(1, dy(g)))};
    },
    .scalar = unary<Prim::Acosh>,
    .samples = {.low = 1.1, .high = 5, .int_low = 1, .int_high = 9, .numpy = "np.arccosh(a)"},
};

const OpDef atanh = {
    .name = "atanh",
    .doc = "The inverse hyperbolic tangent of x.",
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {dy(g) / (number(1, dy(g)) - snug::sqr(g.x[0]))};
    },
    .scalar = unary<Prim::Atanh>,
    .samples = {.low = -0.9, .high = 0.9, .int_low = 0, .int_high = 0, .numpy = "np.arctanh(a)"},
};

const OpDef floor = {
    .name = "floor",
    .doc = "The largest integer not above x, in x's dtype.",
    .traits = kElementwise,
    .infer = upcast_rule,
    .grad = zero_grad,
    .scalar = rounding<Prim::Floor>,
    .samples = {.numpy = "np.floor(a)"},
};

const OpDef ceil = {
    .name = "ceil",
    .doc = "The smallest integer not below x, in x's dtype.",
    .traits = kElementwise,
    .infer = upcast_rule,
    .grad = zero_grad,
    .scalar = rounding<Prim::Ceil>,
    .samples = {.numpy = "np.ceil(a)"},
};

const OpDef trunc = {
    .name = "trunc",
    .doc = "x without its fraction, in x's dtype.",
    .traits = kElementwise,
    .infer = upcast_rule,
    .grad = zero_grad,
    .scalar = rounding<Prim::Trunc>,
    .samples = {.numpy = "np.trunc(a)"},
};

const OpDef round = {
    .name = "round",
    .doc = "The nearest integer, halves to even, in x's dtype.",
    .traits = kElementwise,
    .infer = upcast_rule,
    .grad = zero_grad,
    .scalar = rounding<Prim::Round>,
    .samples = {.numpy = "np.rint(a)"},
};

const OpDef cast = {
    .name = "cast",
    .doc = "x converted to another dtype, as NumPy's astype.",
    .traits = kElementwise,
    .infer = [](Infer& f) { f.out(broadcast_type(f, f.attrs.dtype("dtype"))); },
    .grad = [](const GradArgs& g) -> Exprs {
      return {is_float(g.x[0].dtype()) ? snug::cast(dy(g), g.x[0].dtype()) : dy(g)};
    },
    .scalar = [](ScalarBuilder& s, const Attrs&) { return s.arg(0, s.result); },
};

const OpDef stop_gradient = {
    .name = "stop_gradient",
    .doc = "x; its gradient is 0.",
    .traits = kElementwise | kBarrier,
    .infer = upcast_rule,
    .grad = zero_grad,
    .scalar = [](ScalarBuilder& s, const Attrs&) { return s.arg(0); },
    .samples = {.differentiable = false, .numpy = "a"},
};

}  // namespace snug::ops
