#include <cmath>
#include <numbers>

#include "ops/arguments.h"
#include "ops/batch_rules.h"
#include "ops/complex_rules.h"

/// Discrete Fourier transforms of complex numbers as pairs, along attr "axis", without
/// normalisation: y[k] = sum over j of x[j] exp(-2 pi i j k / n).
namespace snug::ops {
namespace {

/// The transformed axis; `behind`: how many axes must come after it.
std::size_t axis_of(Infer& f, int behind) {
  const std::int64_t axis = f.attrs.integer("axis");
  if (axis < 0 || axis + behind >= f.in(0).ndim())
    f.error(Fault::Value,
            fmt::format("axis {} of a value of {} dimensions", axis, f.in(0).ndim() - behind));
  return static_cast<std::size_t>(axis);
}

void require_points(Infer& f, SizeId n) {
  f.require_at_most(f.sizes.one(), n, "there are no points to transform");
}

SizeId half_length(SizeTable& t, SizeId n) { return t.add(t.floor_div(n, t.constant(2)), t.one()); }

void fft_rule(Infer& f) {
  require_pairs(f);
  require_points(f, f.in(0).dims[axis_of(f, 1)]);
  f.out(f.in(0));
}

void rfft_rule(Infer& f) {
  Type out = f.in(0);
  if (out.dtype != DType::F32 && out.dtype != DType::F64)
    f.error(Fault::Type, fmt::format("takes float32 or float64, not {}", name_of(out.dtype)));
  if (out.ndim() == 8) f.error(Fault::Type, "a complex tensor has at most 7 dimensions, not 8");
  const std::size_t axis = axis_of(f, 0);
  require_points(f, out.dims[axis]);
  out.dims[axis] = half_length(f.sizes, out.dims[axis]);
  if (!f.sizes.is(out.dims[axis], 1)) out.broadcast &= static_cast<std::uint8_t>(~(1u << axis));
  out.dims.push_back(f.sizes.constant(2));
  f.out(out);
}

void irfft_rule(Infer& f) {
  require_pairs(f);
  Type out = f.in(0);
  const std::size_t axis = axis_of(f, 1);
  f.require_ndim(1, 0);
  require_discrete(f, 1);
  const SizeId n = f.size_element(1);
  require_nonnegative(f, n, "the length of the result");
  require_points(f, n);
  f.require_equal(out.dims[axis], half_length(f.sizes, n),
                  "the number of points does not fit the length of the result");
  out.dims.pop_back();
  out.dims[axis] = n;
  if (!f.sizes.is(n, 1)) out.broadcast &= static_cast<std::uint8_t>(~(1u << axis));
  f.out(out);
}

/// 1 for the elements of a half transform that stand for themselves (the first and, if n is even,
/// the last one), `others` for those that stand for their conjugates, too.
Expr weights(const Expr& half, const Expr& n, std::int64_t axis, double others) {
  Expr k = snug::arange(snug::shape_i(half, axis));
  Expr single = snug::bit_or(snug::eq(k, 0), snug::eq(k + k, n));
  Expr w = snug::switch_(single, number(1, half), number(others, half));
  std::vector<std::int64_t> pattern(static_cast<std::size_t>(half.ndim()), -1);
  pattern[static_cast<std::size_t>(axis)] = 0;
  return snug::dimshuffle(w, pattern);
}

/// Sizes before, along and behind an axis.
struct Split {
  std::int64_t before = 1, along = 1, behind = 1;
  Split(const Dims& shape, std::int64_t axis, std::size_t ndim) {
    for (std::size_t k = 0; k < ndim; ++k) {
      const auto at = static_cast<std::int64_t>(k);
      (at < axis ? before : at == axis ? along : behind) *= shape[k];
    }
  }
};

/// exp(sign 2 pi i jk / n).
std::pair<double, double> root(std::int64_t j, std::int64_t k, std::int64_t n, int sign) {
  const double a = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
  return {std::cos(a), sign * std::sin(a)};
}

/// Calls visit(lines of x, lines of y, their step) for every line along the axis.
template <class F>
void each_line(const Split& x, const Split& y, F&& visit) {
  for (std::int64_t b = 0; b < x.before; ++b)
    for (std::int64_t c = 0; c < x.behind; ++c)
      visit(b * x.along * x.behind + c, b * y.along * y.behind + c, x.behind);
}

void fft_reference(const ReferenceArgs& r) {
  const std::vector<double>& x = r.x[0]->f;
  std::vector<double>& y = r.y[0].f;
  const Split s(r.x[0]->shape, r.attrs.integer("axis"), r.x[0]->shape.size() - 1);
  const int sign = r.attrs.flag("inverse") ? 1 : -1;
  each_line(s, s, [&](std::int64_t at, std::int64_t to, std::int64_t step) {
    for (std::int64_t k = 0; k < s.along; ++k)
      for (std::int64_t j = 0; j < s.along; ++j) {
        const auto [re, im] = root(j, k, s.along, sign);
        const double* a = &x[2 * (at + j * step)];
        double* b = &y[2 * (to + k * step)];
        b[0] += a[0] * re - a[1] * im;
        b[1] += a[0] * im + a[1] * re;
      }
  });
}

void rfft_reference(const ReferenceArgs& r) {
  const std::size_t ndim = r.x[0]->shape.size();
  const Split x(r.x[0]->shape, r.attrs.integer("axis"), ndim);
  const Split y(r.y[0].shape, r.attrs.integer("axis"), ndim);
  each_line(x, y, [&](std::int64_t at, std::int64_t to, std::int64_t step) {
    for (std::int64_t k = 0; k < y.along; ++k)
      for (std::int64_t j = 0; j < x.along; ++j) {
        const auto [re, im] = root(j, k, x.along, -1);
        const double a = r.x[0]->f[at + j * step];
        r.y[0].f[2 * (to + k * step)] += a * re;
        r.y[0].f[2 * (to + k * step) + 1] += a * im;
      }
  });
}

void irfft_reference(const ReferenceArgs& r) {
  const std::size_t ndim = r.y[0].shape.size();
  const Split x(r.x[0]->shape, r.attrs.integer("axis"), ndim);
  const Split y(r.y[0].shape, r.attrs.integer("axis"), ndim);
  each_line(x, y, [&](std::int64_t at, std::int64_t to, std::int64_t step) {
    for (std::int64_t j = 0; j < y.along; ++j)
      for (std::int64_t k = 0; k < x.along; ++k) {
        const auto [re, im] = root(j, k, y.along, 1);
        const bool single = k == 0 || 2 * k == y.along;
        const double* a = &r.x[0]->f[2 * (at + k * step)];
        // What stands for itself has no imaginary part.
        r.y[0].f[to + j * step] += single ? a[0] * re : 2 * (a[0] * re - a[1] * im);
      }
  });
}

/// The rows may be on any axis but the transformed one.
BatchRule batch_fft(const BatchArgs& a) {
  BatchRule rule;
  const int axis = a.axis[0];
  if (axis == kWhole || axis == a.attrs.integer("axis")) return rule;
  if (axis >= std::min(a.in[0]->ndim(), a.out.ndim())) return rule;
  rule.kind = BatchRule::Kind::Rows;
  rule.axis = axis;
  rule.cut = {axis};
  return rule;
}

}  // namespace

const OpDef fft = {
    .name = "fft",
    .doc = "The discrete Fourier transform of pairs along an axis, not normalised.",
    .infer = fft_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(fft, {g.dy[0]},
                    {{"axis", g.attrs.integer("axis")}, {"inverse", !g.attrs.flag("inverse")}})};
    },
    .reference = fft_reference,
    .batch = batch_fft,
};

const OpDef rfft = {
    .name = "rfft",
    .doc = "The first half of the discrete Fourier transform of reals along an axis, as pairs.",
    .infer = rfft_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      const std::int64_t axis = g.attrs.integer("axis");
      Expr n = snug::shape_i(g.x[0], axis);
      return {apply(irfft, {g.dy[0] * weights(g.dy[0], n, axis, 0.5), n}, {{"axis", axis}})};
    },
    .reference = rfft_reference,
    .batch = batch_fft,
};

const OpDef irfft = {
    .name = "irfft",
    .doc =
        "The reals that half a discrete Fourier transform along an axis is of, times their "
        "number.",
    .arity = 2,
    .size_inputs_from = 1,
    .infer = irfft_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      const std::int64_t axis = g.attrs.integer("axis");
      Expr half = apply(rfft, {g.dy[0]}, {{"axis", axis}});
      return {half * weights(half, g.x[1], axis, 2), Expr()};
    },
    .reference = irfft_reference,
    .batch = batch_fft,
};

}  // namespace snug::ops
