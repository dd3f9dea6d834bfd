#include "ops/complex_rules.h"

/// Elementwise ops of two numbers.
namespace snug::ops {
namespace {

const Expr& dy(const GradArgs& g) { return g.dy[0]; }

}  // namespace

const OpDef add = {
    .name = "add",
    .doc = "a + b; of bools: or.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = upcast_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return unbroadcast_all(g, {dy(g), dy(g)});
    },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Prim p = s.result == DType::Bool ? Prim::Or : Prim::Add;
          return s.call(p, s.arg(0, s.result), s.arg(1, s.result));
        },
    .on_complex = complex_linear,
    .samples = {.numpy = "a + b"},
};

const OpDef sub = {
    .name = "sub",
    .doc = "a - b.",
    .arity = 2,
    .traits = kElementwise,
    .infer = signed_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return unbroadcast_all(g, {dy(g), snug::neg(dy(g))});
    },
    .scalar = binary<Prim::Sub>,
    .on_complex = complex_linear,
    .samples = {.numpy = "a - b"},
};

const OpDef mul = {
    .name = "mul",
    .doc = "a * b; of bools: and.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = upcast_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(2);
      if (g.wanted[0]) out[0] = dy(g) * g.x[1];
      if (g.wanted[1]) out[1] = dy(g) * g.x[0];
      return unbroadcast_all(g, std::move(out));
    },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Prim p = s.result == DType::Bool ? Prim::And : Prim::Mul;
          return s.call(p, s.arg(0, s.result), s.arg(1, s.result));
        },
    .on_complex = complex_mul,
    .samples = {.numpy = "a * b"},
};

const OpDef div = {
    .name = "div",
    .doc = "a / b, true division.",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(2);
      if (g.wanted[0]) out[0] = dy(g) / g.x[1];
      if (g.wanted[1]) out[1] = snug::neg(dy(g) * g.y[0]) / g.x[1];
      return unbroadcast_all(g, std::move(out));
    },
    .scalar = binary<Prim::Div>,
    .on_complex = complex_div,
    .samples = {.low = 0.5, .high = 4, .int_low = 1, .int_high = 9, .numpy = "a / b"},
};

const OpDef floor_div = {
    .name = "floor_div",
    .doc = "The floor of a / b; of integers by 0: 0.",
    .arity = 2,
    .traits = kElementwise,
    .infer = signed_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {snug::zeros_like(g.x[0], dy(g).dtype()), snug::zeros_like(g.x[1], dy(g).dtype())};
    },
    .scalar = binary<Prim::FloorDiv>,
    .samples = {.differentiable = false, .numpy = "np.floor_divide(a, b)"},
};

const OpDef mod = {
    .name = "mod",
    .doc = "The remainder of a / b with the sign of b; of integers by 0: 0.",
    .arity = 2,
    .traits = kElementwise,
    .infer = signed_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out{dy(g), Expr()};
      if (g.wanted[1]) out[1] = snug::neg(dy(g) * snug::floor_div(g.x[0], g.x[1]));
      return unbroadcast_all(g, std::move(out));
    },
    .scalar = binary<Prim::Mod>,
    .samples = {.differentiable = false, .numpy = "np.mod(a, b)"},
};

const OpDef pow = {
    .name = "pow",
    .doc = "a to the power of b.",
    .arity = 2,
    .traits = kElementwise,
    .infer = signed_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      const Expr &a = g.x[0], &b = g.x[1];
      Exprs out(2);
      if (g.wanted[0]) {
        // 0 where b is 0, even if a is 0.
        Expr one = number(1, b.dtype() == DType::Bool ? dy(g) : b);
        Expr less = snug::switch_(snug::eq(b, number(0, b)), one, b - one);
        out[0] = dy(g) * (b * snug::pow(a, less));
      }
      if (g.wanted[1]) {
        Expr zero = number(0, a);
        Expr safe = snug::switch_(snug::eq(a, zero), number(1, a), a);
        out[1] = dy(g) * (g.y[0] * snug::log(safe));
      }
      return unbroadcast_all(g, std::move(out));
    },
    .scalar = binary<Prim::Pow>,
    .on_complex = complex_pow,
    .samples = {.low = 0.2, .high = 3, .int_low = 0, .int_high = 3, .numpy = "np.power(a, b)"},
};

const OpDef minimum = {
    .name = "minimum",
    .doc = "The smaller of a and b; nan if one is nan. Where equal, the gradient goes to a.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = upcast_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Expr first = snug::le(g.x[0], g.x[1]), zero = number(0, dy(g));
      return unbroadcast_all(
          g, {snug::switch_(first, dy(g), zero), snug::switch_(first, zero, dy(g))});
    },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Prim p = s.result == DType::Bool ? Prim::And : Prim::Min;
          return s.call(p, s.arg(0, s.result), s.arg(1, s.result));
        },
    .samples = {.numpy = "np.minimum(a, b)"},
};

const OpDef maximum = {
    .name = "maximum",
    .doc = "The larger of a and b; nan if one is nan. Where equal, the gradient goes to a.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = upcast_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Expr first = snug::ge(g.x[0], g.x[1]), zero = number(0, dy(g));
      return unbroadcast_all(
          g, {snug::switch_(first, dy(g), zero), snug::switch_(first, zero, dy(g))});
    },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Prim p = s.result == DType::Bool ? Prim::Or : Prim::Max;
          return s.call(p, s.arg(0, s.result), s.arg(1, s.result));
        },
    .samples = {.numpy = "np.maximum(a, b)"},
};

const OpDef atan2 = {
    .name = "atan2",
    .doc = "The angle of the point (b, a).",
    .arity = 2,
    .traits = kElementwise,
    .infer = float_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      // An integer operand would overflow in its own dtype.
      const Expr a = snug::cast(g.x[0], dy(g).dtype()), b = snug::cast(g.x[1], dy(g).dtype());
      const Expr scale = dy(g) / (snug::sqr(a) + snug::sqr(b));
      return unbroadcast_all(g, {scale * b, snug::neg(scale * a)});
    },
    .scalar = binary<Prim::Atan2>,
    .samples = {.low = 0.3, .high = 2, .int_low = 1, .numpy = "np.arctan2(a, b)"},
};

}  // namespace snug::ops
