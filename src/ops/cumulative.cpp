#include "base/lines.h"
#include "ops/batch_rules.h"
#include "ops/complex_rules.h"
#include "ops/rules.h"

namespace snug::ops {
namespace {

// attrs: axis; reverse: from the end of the axis to its start.

void cumulative_rule(Infer& f) {
  const Type& x = f.in(0);
  axis_attr(f);
  f.attrs.flag("reverse");
  if (x.dtype == DType::Bool) f.error(Fault::Type, "takes numbers, not bool");
  Type out = x;
  for (std::size_t i = 1; i < f.count(); ++i) {
    const Type& other = f.in(i);
    require_same_dtype(f, 0, i);
    f.require_ndim(i, x.ndim());
    for (std::size_t k = 0; k < x.dims.size(); ++k) {
      f.require_equal(x.dims[k], other.dims[k], fmt::format("sizes differ on axis {}", k));
      if (!f.sizes.known(out.dims[k])) out.dims[k] = other.dims[k];
      if (other.broadcastable(k)) out.broadcast |= static_cast<std::uint8_t>(1u << k);
    }
  }
  f.out(out);
}

bool reversed(const GradArgs& g) { return g.attrs.flag("reverse"); }
Attrs other_way(const GradArgs& g) {
  Attrs attrs = g.attrs;
  attrs.set("reverse", !reversed(g));
  return attrs;
}

/// What lies one step before on the way, and `value` at the start.
Expr before(const GradArgs& g, const Expr& x, double value) {
  const std::int64_t axis = g.attrs.integer("axis");
  auto part = [&](Expr start, Expr stop) { return snug::slice_axis(x, axis, start, stop); };
  // An axis of size 0 has no start.
  if (reversed(g))
    return snug::concatenate({part(Expr(1), {}), snug::full_like(part(Expr(-1), {}), value)}, axis);
  return snug::concatenate({snug::full_like(part({}, Expr(1)), value), part({}, Expr(-1))}, axis);
}

/// What lies one step further on the way; at its end anything.
Expr after(const GradArgs& g, const Expr& x) {
  const std::int64_t axis = g.attrs.integer("axis");
  auto part = [&](Expr start, Expr stop) { return snug::slice_axis(x, axis, start, stop); };
  if (reversed(g)) return snug::concatenate({part(Expr(-1), {}), part({}, Expr(-1))}, axis);
  return snug::concatenate({part(Expr(1), {}), part({}, Expr(1))}, axis);
}

/// Goes along the axis in order; `step(k, before, first)` gives element k from the one before.
template <class Step>
void along(const ReferenceArgs& r, Step&& step) {
  RefTensor& y = r.y[0];
  const Lines lines(y.shape, static_cast<std::size_t>(r.attrs.integer("axis")));
  for (std::int64_t line = 0; line < lines.count; ++line) {
    Number last;
    for (std::int64_t i = 0; i < lines.length; ++i) {
      const std::int64_t k = lines.at(line, r.attrs.flag("reverse") ? lines.length - 1 - i : i);
      last = step(k, last, i == 0);
      store(y, k, last);
    }
  }
}

std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapped_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

const OpDef cumsum = {
    .name = "cumsum",
    .doc = "The sums of the elements up to each one along an axis, or from each one on.",
    .infer = cumulative_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(ops::cumsum, {g.dy[0]}, other_way(g))};
    },
    .reference =
        [](const ReferenceArgs& r) {
          along(r, [&](std::int64_t k, Number last, bool) -> Number {
            const Number x = r.x[0]->at(k);
            return {last.f + x.f, wrapped_sum(last.i, x.i)};
          });
        },
    .batch = batch_other_axes,
    .on_complex = complex_linear,
    .samples = {.numpy = "np.cumsum(a, axis)"},
};

const OpDef cumprod = {
    .name = "cumprod",
    .doc = "The products of the elements up to each one along an axis, or from each one on.",
    .infer = cumulative_rule,
    // d/dx[k] = y[k - 1] * s[k] with s[k] = dy[k] + x[k + 1] * s[k + 1]: nothing divides by x.
    .grad = [](const GradArgs& g) -> Exprs {
      const Expr& dy = g.dy[0];
      Expr s = apply(ops::linear_recurrence, {snug::cast(after(g, g.x[0]), dy.dtype()), dy},
                     other_way(g));
      return {before(g, g.y[0], 1) * s};
    },
    .reference =
        [](const ReferenceArgs& r) {
          along(r, [&](std::int64_t k, Number last, bool first) -> Number {
            const Number x = r.x[0]->at(k);
            return first ? x : Number{last.f * x.f, wrapped_product(last.i, x.i)};
          });
        },
    .batch = batch_other_axes,
    .samples = {.numpy = "np.cumprod(a, axis)"},
};

const OpDef linear_recurrence = {
    .name = "linear_recurrence",
    .doc = "y[k] = a[k] * y[k - 1] + b[k] along an axis, from y[0] = b[0]; or from the end on.",
    .arity = 2,
    .infer = cumulative_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Expr db = apply(ops::linear_recurrence, {after(g, g.x[0]), g.dy[0]}, other_way(g));
      return {g.wanted[0] ? db * before(g, g.y[0], 0) : Expr(), db};
    },
    .reference =
        [](const ReferenceArgs& r) {
          along(r, [&](std::int64_t k, Number last, bool first) -> Number {
            const Number a = r.x[0]->at(k), b = r.x[1]->at(k);
            if (first) return b;
            return {a.f * last.f + b.f, wrapped_sum(wrapped_product(a.i, last.i), b.i)};
          });
        },
    .batch = batch_other_axes,
};

}  // namespace snug::ops
