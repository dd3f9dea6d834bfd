#include "ops/complex_rules.h"

namespace snug::ops {
namespace {

/// attrs: axes (sorted), reduce (ReduceOp), dtype (of the result), acc (of the accumulator).
Type reduced_type(Infer& f) {
  const Attrs::Ints& axes = f.attrs.ints("axes");
  const Type& x = f.in(0);
  Type out;
  out.dtype = f.attrs.dtype("dtype");
  f.attrs.dtype("acc");  // is there
  const std::int64_t reduce = f.attrs.integer("reduce");
  SNUG_CHECK(reduce >= 0 && reduce <= static_cast<std::int64_t>(ReduceOp::ArgMin),
             "{}: there is no reduction {}", f.op.name, reduce);
  std::size_t k = 0;
  for (std::size_t axis = 0; axis < x.dims.size(); ++axis) {
    if (k < axes.size() && axes[k] == static_cast<std::int64_t>(axis)) {
      ++k;
      continue;
    }
    if (x.broadcastable(axis)) out.broadcast |= static_cast<std::uint8_t>(1u << out.dims.size());
    out.dims.push_back(x.dims[axis]);
  }
  if (k != axes.size())
    f.error(Fault::Value, fmt::format("axes do not fit a value of {} dimensions", x.ndim()));
  return out;
}

void reduce_rule(Infer& f) { f.out(reduced_type(f)); }

void nonempty_rule(Infer& f) {
  SizeId count = f.sizes.one();
  for (std::int64_t axis : f.attrs.ints("axes"))
    if (axis >= 0 && axis < f.in(0).ndim())
      count = f.sizes.mul(count, f.in(0).dims[static_cast<std::size_t>(axis)]);
  f.require_at_most(f.sizes.one(), count, "there is no element to choose from");
  f.out(reduced_type(f));
}

void logic_rule(Infer& f) {
  if (f.in(0).dtype != DType::Bool)
    f.error(Fault::Type, fmt::format("takes bools, not {}", name_of(f.in(0).dtype)));
  f.out(reduced_type(f));
}

/// All elements that are the extreme get the gradient, as in Theano.
Exprs extreme_grad(const GradArgs& g) {
  const auto& axes = g.attrs.ints("axes");
  Expr dy = expand_axes(g.dy[0], axes);
  return {snug::switch_(snug::eq(g.x[0], expand_axes(g.y[0], axes)), dy, number(0, dy))};
}

constexpr std::string_view kPlace = "it gives a place, which is not continuous";

}  // namespace

const OpDef sum = {
    .name = "sum",
    .doc = "The sum over axes.",
    .traits = kReduction,
    .infer = reduce_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      const Expr& x = g.x[0];
      Expr dy = expand_axes(g.dy[0], g.attrs.ints("axes"));
      if (is_float(x.dtype())) dy = snug::cast(dy, x.dtype());
      return {apply(ops::broadcast_to, {dy, snug::shape(x)},
                    {{"broadcast", std::int64_t{x.type().broadcast}}})};
    },
    .on_complex = complex_linear,
    .samples = {.numpy = "np.sum(a, axis)"},
};

const OpDef prod = {
    .name = "prod",
    .doc = "The product over axes.",
    .traits = kReduction,
    .infer = reduce_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      // The product of the others: where there is one 0, only its place has a gradient.
      const Expr& x = g.x[0];
      const auto& axes = g.attrs.ints("axes");
      Expr dy = expand_axes(g.dy[0], axes);
      Expr is_zero = snug::eq(x, number(0, x));
      Expr safe = snug::switch_(is_zero, number(1, x), x);
      Expr others = snug::prod(safe, axes, true, dy.dtype());
      Expr zeros = snug::sum(snug::cast(is_zero, DType::I64), axes, true);
      Expr zero = number(0, dy);
      Expr at_zero = snug::switch_(snug::eq(zeros, 1), others, zero);
      Expr elsewhere = snug::switch_(snug::eq(zeros, 0), others / safe, zero);
      return {dy * snug::switch_(is_zero, at_zero, elsewhere)};
    },
    .samples = {.numpy = "np.prod(a, axis)"},
};

const OpDef max = {
    .name = "max",
    .doc = "The largest element over axes; nan if one is nan.",
    .traits = kReduction,
    .infer = nonempty_rule,
    .grad = extreme_grad,
    .samples = {.numpy = "np.max(a, axis)"},
};

const OpDef min = {
    .name = "min",
    .doc = "The smallest element over axes; nan if one is nan.",
    .traits = kReduction,
    .infer = nonempty_rule,
    .grad = extreme_grad,
    .samples = {.numpy = "np.min(a, axis)"},
};

const OpDef any = {
    .name = "any",
    .doc = "True if an element over axes is.",
    .traits = kReduction,
    .infer = logic_rule,
    .no_grad = "its argument is bool",
    .samples = {.integers = false, .differentiable = false, .numpy = "np.any(a, axis)"},
};

const OpDef all = {
    .name = "all",
    .doc = "True if all elements over axes are.",
    .traits = kReduction,
    .infer = logic_rule,
    .no_grad = "its argument is bool",
    .samples = {.integers = false, .differentiable = false, .numpy = "np.all(a, axis)"},
};

const OpDef argmax = {
    .name = "argmax",
    .doc = "The first place of the largest element over axes, counted in C order.",
    .traits = kReduction,
    .infer = nonempty_rule,
    .no_grad = kPlace,
    .samples = {.differentiable = false, .numpy = "np.argmax(a, axis)"},
};

const OpDef argmin = {
    .name = "argmin",
    .doc = "The first place of the smallest element over axes, counted in C order.",
    .traits = kReduction,
    .infer = nonempty_rule,
    .no_grad = kPlace,
    .samples = {.differentiable = false, .numpy = "np.argmin(a, axis)"},
};

}  // namespace snug::ops
