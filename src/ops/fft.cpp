#include <cmath>
#include <numbers>

#include "base/lines.h"
#include "ops/arguments.h"
#include "ops/batch_rules.h"
#include "ops/complex_rules.h"

/// Discrete Fourier transforms of complex numbers as pairs, along attr "axis", without
/// normalisation: y[k] = sum over j of x[j] exp(-2 pi i j k / n).
namespace snug::ops {
namespace {

void require_points(Infer& f, SizeId n) {
  f.require_at_most(f.sizes.one(), n, "there are no points to transform");
}

SizeId half_length(SizeTable& t, SizeId n) { return t.add(t.floor_div(n, t.constant(2)), t.one()); }

void fft_rule(Infer& f) {
  require_pairs(f);
  f.attrs.flag("inverse");
  require_points(f, f.in(0).dims[axis_attr(f, 1)]);
  f.out(f.in(0));
}

void rfft_rule(Infer& f) {
  Type out = f.in(0);
  if (out.dtype != DType::F32 && out.dtype != DType::F64)
    f.error(Fault::Type, fmt::format("takes float32 or float64, not {}", name_of(out.dtype)));
  if (out.ndim() == 8) f.error(Fault::Type, "a complex tensor has at most 7 dimensions, not 8");
  const std::size_t axis = axis_attr(f, 0);
  require_points(f, out.dims[axis]);
  out.dims[axis] = half_length(f.sizes, out.dims[axis]);
  if (!f.sizes.is(out.dims[axis], 1)) out.broadcast &= static_cast<std::uint8_t>(~(1u << axis));
  out.dims.push_back(f.sizes.constant(2));
  f.out(out);
}

void irfft_rule(Infer& f) {
  require_pairs(f);
  Type out = f.in(0);
  const std::size_t axis = axis_attr(f, 1);
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

/// exp(sign 2 pi i jk / n).
std::pair<double, double> root(std::int64_t j, std::int64_t k, std::int64_t n, int sign) {
  const double a = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
  return {std::cos(a), sign * std::sin(a)};
}

/// The lines of points that are transformed: pairs, or numbers if the tensor has `ndim` axes.
Lines lines_of(const ReferenceArgs& r, const RefTensor& t, std::size_t ndim) {
  return Lines(t.shape, static_cast<std::size_t>(r.attrs.integer("axis")), ndim);
}

void fft_reference(const ReferenceArgs& r) {
  const Lines lines = lines_of(r, *r.x[0], r.x[0]->shape.size() - 1);
  const int sign = r.attrs.flag("inverse") ? 1 : -1;
  for (std::int64_t line = 0; line < lines.count; ++line)
    for (std::int64_t k = 0; k < lines.length; ++k)
      for (std::int64_t j = 0; j < lines.length; ++j) {
        const auto [re, im] = root(j, k, lines.length, sign);
        const double* a = &r.x[0]->f[2 * lines.at(line, j)];
        double* b = &r.y[0].f[2 * lines.at(line, k)];
        b[0] += a[0] * re - a[1] * im;
        b[1] += a[0] * im + a[1] * re;
      }
}

void rfft_reference(const ReferenceArgs& r) {
  const std::size_t ndim = r.x[0]->shape.size();
  const Lines x = lines_of(r, *r.x[0], ndim), y = lines_of(r, r.y[0], ndim);
  for (std::int64_t line = 0; line < x.count; ++line)
    for (std::int64_t k = 0; k < y.length; ++k)
      for (std::int64_t j = 0; j < x.length; ++j) {
        const auto [re, im] = root(j, k, x.length, -1);
        const double a = r.x[0]->f[x.at(line, j)];
        double* b = &r.y[0].f[2 * y.at(line, k)];
        b[0] += a * re;
        b[1] += a * im;
      }
}

void irfft_reference(const ReferenceArgs& r) {
  const std::size_t ndim = r.y[0].shape.size();
  const Lines x = lines_of(r, *r.x[0], ndim), y = lines_of(r, r.y[0], ndim);
  for (std::int64_t line = 0; line < y.count; ++line)
    for (std::int64_t j = 0; j < y.length; ++j)
      for (std::int64_t k = 0; k < x.length; ++k) {
        const auto [re, im] = root(j, k, y.length, 1);
        const bool single = k == 0 || 2 * k == y.length;
        const double* a = &r.x[0]->f[2 * x.at(line, k)];
        // What stands for itself has no imaginary part.
        r.y[0].f[y.at(line, j)] += single ? a[0] * re : 2 * (a[0] * re - a[1] * im);
      }
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
