#include "ops/complex_rules.h"

namespace snug::ops {
namespace {

constexpr std::string_view kStep = "its result is not continuous";

template <Prim P>
Scalar comparison(ScalarBuilder& s, const Attrs&) {
  DType t = upcast(s.arg_types[0], s.arg_types[1]);
  return s.call(P, s.arg(0, t), s.arg(1, t));
}

/// What a switch asks, for its gradient. A relu, `switch(x <= 0, 0, x)` or `switch(x > 0, x, 0)`,
/// can be asked by its result, so that x need not be kept until then.
Expr condition_for_gradient(const GradArgs& g) {
  const Expr& c = g.x[0];
  const bool below = c->owner && c->owner->op == &ops::le;
  if (!below && !(c->owner && c->owner->op == &ops::gt)) return c;
  const Expr &x = g.x[below ? 2 : 1], &otherwise = g.x[below ? 1 : 2], &limit = c->owner->inputs[1];
  if (!same(c->owner->inputs[0], x) || !is_number(limit, 0) || !is_number(otherwise, 0) ||
      g.y[0].dtype() != x.dtype())
    return c;
  return below ? snug::le(g.y[0], limit) : snug::gt(g.y[0], limit);
}

template <Prim P>
Scalar float_test(ScalarBuilder& s, const Attrs&) {
  return is_float(s.arg_types[0]) ? s.call(P, s.arg(0)) : s.integer(0, DType::Bool);
}

}  // namespace

const OpDef isnan = {
    .name = "isnan",
    .doc = "True where x is not a number.",
    .traits = kElementwise,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = float_test<Prim::IsNan>,
    .on_complex = complex_any_part,
    .samples = {.differentiable = false, .numpy = "np.isnan(a)"},
};

const OpDef isinf = {
    .name = "isinf",
    .doc = "True where x is infinite.",
    .traits = kElementwise,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = float_test<Prim::IsInf>,
    .on_complex = complex_any_part,
    .samples = {.differentiable = false, .numpy = "np.isinf(a)"},
};

const OpDef invert = {
    .name = "invert",
    .doc = "The bits of x inverted; of bools: not.",
    .traits = kElementwise,
    .infer = bits_rule,
    .no_grad = kStep,
    .scalar = unary<Prim::Not>,
    .samples = {.differentiable = false, .numpy = "np.invert(a)"},
};

const OpDef lt = {
    .name = "lt",
    .doc = "a < b.",
    .arity = 2,
    .traits = kElementwise,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = comparison<Prim::Lt>,
    .samples = {.differentiable = false, .numpy = "a < b"},
};

const OpDef le = {
    .name = "le",
    .doc = "a <= b.",
    .arity = 2,
    .traits = kElementwise,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = comparison<Prim::Le>,
    .samples = {.differentiable = false, .numpy = "a <= b"},
};

const OpDef gt = {
    .name = "gt",
    .doc = "a > b.",
    .arity = 2,
    .traits = kElementwise,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = comparison<Prim::Gt>,
    .samples = {.differentiable = false, .numpy = "a > b"},
};

const OpDef ge = {
    .name = "ge",
    .doc = "a >= b.",
    .arity = 2,
    .traits = kElementwise,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = comparison<Prim::Ge>,
    .samples = {.differentiable = false, .numpy = "a >= b"},
};

const OpDef eq = {
    .name = "eq",
    .doc = "a == b.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = comparison<Prim::Eq>,
    .on_complex = complex_both_parts,
    .samples = {.differentiable = false, .numpy = "a == b"},
};

const OpDef ne = {
    .name = "ne",
    .doc = "a != b.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = compare_rule,
    .no_grad = kStep,
    .scalar = comparison<Prim::Ne>,
    .on_complex = complex_any_part,
    .samples = {.differentiable = false, .numpy = "a != b"},
};

const OpDef bit_and = {
    .name = "bit_and",
    .doc = "The bits set in both; of bools: and.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = bits_rule,
    .no_grad = kStep,
    .scalar = binary<Prim::And>,
    .samples = {.differentiable = false, .numpy = "a & b"},
};

const OpDef bit_or = {
    .name = "bit_or",
    .doc = "The bits set in one or both; of bools: or.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = bits_rule,
    .no_grad = kStep,
    .scalar = binary<Prim::Or>,
    .samples = {.differentiable = false, .numpy = "a | b"},
};

const OpDef bit_xor = {
    .name = "bit_xor",
    .doc = "The bits set in one only; of bools: unequal.",
    .arity = 2,
    .traits = kElementwise | kCommutative,
    .infer = bits_rule,
    .no_grad = kStep,
    .scalar = binary<Prim::Xor>,
    .samples = {.differentiable = false, .numpy = "a ^ b"},
};

const OpDef shl = {
    .name = "shl",
    .doc = "a shifted left by b bits.",
    .arity = 2,
    .traits = kElementwise,
    .infer = shift_rule,
    .no_grad = kStep,
    .scalar = binary<Prim::Shl>,
    .samples = {.int_low = 0, .differentiable = false, .numpy = "a << b"},
};

const OpDef shr = {
    .name = "shr",
    .doc = "a shifted right by b bits; the sign stays.",
    .arity = 2,
    .traits = kElementwise,
    .infer = shift_rule,
    .no_grad = kStep,
    .scalar = binary<Prim::Shr>,
    .samples = {.int_low = 0, .differentiable = false, .numpy = "a >> b"},
};

const OpDef switch_ = {
    .name = "switch",
    .doc = "a where the condition is not 0, else b.",
    .arity = 3,
    .traits = kElementwise,
    .infer = [](Infer& f) { f.out(broadcast_type(f, upcast(f.in(1).dtype, f.in(2).dtype))); },
    .grad = [](const GradArgs& g) -> Exprs {
      const Expr& dy = g.dy[0];
      Expr zero = number(0, dy), c = condition_for_gradient(g);
      return unbroadcast_all(g, {Expr(), snug::switch_(c, dy, zero), snug::switch_(c, zero, dy)});
    },
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Scalar c = s.arg(0);
          if (c.dtype() != DType::Bool) c = s.call(Prim::Ne, c, s.integer(0, c.dtype()));
          return s.select(c, s.arg(1, s.result), s.arg(2, s.result));
        },
    .on_complex = complex_switch,
    .samples = {.numpy = "np.where(a, b, c)"},
};

}  // namespace snug::ops
