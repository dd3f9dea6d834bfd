#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/dense.h"

/// Functions of whole matrices.
namespace snug::ops {
namespace {

Type scalar_of(DType dtype) {
  Type out;
  out.dtype = dtype;
  return out;
}

// ---- determinants ----

/// The gradient of log |det a|.
Expr inverse_transposed(const Expr& a) { return snug::transpose(apply(ops::inverse, {a})); }

double determinant(const RefTensor& a) {
  Matrix work(a), nothing(a.shape[0], 0);
  try {
    return eliminate("det", work, nothing);
  } catch (const Error&) {
    return 0;
  }
}

void slogdet_reference(const ReferenceArgs& r) {
  // Rows are scaled by powers of two first, which is exact, so that the product does not overflow.
  RefTensor a = *r.x[0];
  const std::int64_t n = a.shape[0];
  double logarithm = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double largest = 0;
    for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, std::fabs(a.f[i * n + j]));
    if (!(largest > 0) || !std::isfinite(largest)) continue;
    const int exponent = std::ilogb(largest);
    for (std::int64_t j = 0; j < n; ++j) a.f[i * n + j] = std::ldexp(a.f[i * n + j], -exponent);
    logarithm += exponent * std::log(2.0);
  }
  const double d = determinant(a);
  r.y[0].f[0] = std::isnan(d) ? d : d > 0 ? 1 : d < 0 ? -1 : 0;
  r.y[1].f[0] =
      d == 0 ? -std::numeric_limits<double>::infinity() : logarithm + std::log(std::fabs(d));
}

/// The product of the lengths of the rows (Hadamard's bound), which the rounding of a determinant
/// is relative to.
double row_lengths(const RefTensor& a) {
  double out = 1;
  for (std::int64_t i = 0; i < a.shape[0]; ++i) {
    double length = 0;
    for (std::int64_t j = 0; j < a.shape[1]; ++j)
      length = std::hypot(length, a.f[i * a.shape[1] + j]);
    out *= length;
  }
  return out;
}

double det_residual(const ReferenceArgs& r) {
  const double want = determinant(*r.x[0]), got = r.y[0].f[0], scale = row_lengths(*r.x[0]);
  if (got == want || !std::isfinite(want) || !(scale > 0)) return 0;
  return std::fabs(got - want) / scale / static_cast<double>(r.x[0]->shape[0]);
}

double slogdet_residual(const ReferenceArgs& r) {
  const double sign = r.y[0].f[0], want = determinant(*r.x[0]), scale = row_lengths(*r.x[0]);
  if (!std::isfinite(want) || !std::isfinite(scale) || !(scale > 1e-300)) return 0;
  const double got = sign * std::exp(r.y[1].f[0]);
  const double n = static_cast<double>(std::max<std::int64_t>(r.x[0]->shape[0], 1));
  // The exponential function magnifies rounding of the logarithm.
  const double stretch = std::max(1.0, std::isfinite(r.y[1].f[0]) ? std::fabs(r.y[1].f[0]) : 1.0);
  return got == want ? 0 : std::fabs(got - want) / scale / n / stretch;
}

// ---- the exponential function ----

/// Higham 2008, (10.15): [[A', dY], [0, A']] has the adjoint derivative in the corner of its
/// exponential.
Exprs expm_grad(const GradArgs& g) {
  Expr a = snug::transpose(g.x[0]), n = snug::shape_i(a, 0);
  Expr top = snug::concatenate({a, g.dy[0]}, 1);
  Expr bottom = snug::concatenate({snug::zeros_like(a), a}, 1);
  Expr all = apply(ops::expm, {snug::concatenate({top, bottom}, 0)});
  return {snug::slice_axis(snug::slice_axis(all, 0, Expr(), n), 1, n, Expr())};
}

/// Taylor's series of a / 2^s, squared s times.
void expm_reference(const ReferenceArgs& r) {
  Matrix a(*r.x[0]);
  const double norm = a.sum_norm();
  const std::int64_t n = a.rows;
  if (!std::isfinite(norm)) {
    std::fill(r.y[0].f.begin(), r.y[0].f.end(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const int squarings = norm > 0.25 ? std::ilogb(norm) + 3 : 0;
  a = std::ldexp(1.0, -squarings) * a;
  Matrix sum = Matrix::identity(n), term = sum;
  for (int k = 1; k <= 20; ++k) {
    term = 1.0 / k * (term * a);
    sum = sum - -1.0 * term;
  }
  for (int k = 0; k < squarings; ++k) sum = sum * sum;
  sum.store(r.y[0]);
}

/// Compared with the reference: what the norm of a makes of rounding is allowed.
double expm_residual(const ReferenceArgs& r) {
  const Matrix a(*r.x[0]), y(r.y[0]);
  RefTensor want = r.y[0];
  expm_reference({r.attrs, r.x, {&want, 1}, {}});
  const Matrix exact(want);
  const double n = static_cast<double>(a.rows);
  return relative(y - exact, n * (1 + a.sum_norm()) * exact.largest());
}

// ---- least squares ----

Expr least_squares(const Expr& a, const Expr& b, const Attrs& attrs) {
  return apply_all(ops::lstsq, {a, b}, attrs)[0];
}

/// Golub and Pereyra 1973, for a rank that does not change: with z = pinv(a)' dx,
/// da = -z x' + (b - a x) (pinv(a) z)' + (pinv(a)' x) (dx - a' z)'.
Exprs lstsq_grad(const GradArgs& g) {
  const Expr &a = g.x[0], &b = g.x[1], &x = g.y[0];
  const auto t = [](const Expr& e) { return snug::transpose(e); };
  Exprs out(2);
  if (g.dy[0]) {
    const Expr& dx = g.dy[0];
    Expr both = least_squares(t(a), snug::concatenate({dx, x}, 1), g.attrs);
    Expr n = snug::shape_i(x, 1);
    Expr z = snug::slice_axis(both, 1, Expr(), n), w = snug::slice_axis(both, 1, n, Expr());
    out[1] = z;
    if (g.wanted[0])
      out[0] = snug::dot(b - snug::dot(a, x), t(least_squares(a, z, g.attrs))) +
               snug::dot(w, t(dx - snug::dot(t(a), z))) - snug::dot(z, t(x));
  }
  if (g.dy[2] && g.wanted[0]) {
    Exprs usv = apply_all(ops::svd, {a}, {{"full", false}});
    Expr ds = snug::dot(usv[0] * snug::dimshuffle(g.dy[2], {-1, 0}), usv[2]);
    out[0] = out[0] ? out[0] + ds : ds;
  }
  return out;
}

/// Singular values up to this part of the largest count as zero. NaN as attribute: by the sizes.
double cutoff(const Attrs& attrs, DType dtype, std::int64_t rows, std::int64_t cols) {
  const double eps = dtype == DType::F32 ? 0x1p-23 : 0x1p-52, given = attrs.number("rcond");
  if (std::isnan(given)) return eps * static_cast<double>(std::max(rows, cols));
  return given < 0 ? eps : given;
}

void lstsq_reference(const ReferenceArgs& r) {
  const Matrix a(*r.x[0]), b(*r.x[1]);
  a.require_finite("lstsq");
  const ThinSvd d = one_sided_jacobi(a);
  Matrix coefficients = d.u.transposed() * b;
  const double limit = d.s.empty() ? 0 : cutoff(r.attrs, r.x[0]->dtype, a.rows, a.cols) * d.s[0];
  std::int64_t rank = 0;
  for (std::int64_t k = 0; k < coefficients.rows; ++k) {
    const bool used = d.s[k] > limit;
    rank += used;
    for (std::int64_t j = 0; j < b.cols; ++j)
      coefficients(k, j) = used ? coefficients(k, j) / d.s[k] : 0;
  }
  (d.vt.transposed() * coefficients).store(r.y[0]);
  r.y[1].i[0] = rank;
  r.y[2].f = d.s;
}

/// The normal equations hold, but for what the cutoff lets pass; the values are those of a.
double lstsq_residual(const ReferenceArgs& r) {
  const Matrix a(*r.x[0]), b(*r.x[1]), x(r.y[0]);
  if (a.rows == 0 || a.cols == 0) return x.largest();
  const double part = cutoff(r.attrs, r.x[0]->dtype, a.rows, a.cols), size = a.largest();
  const double scale = static_cast<double>(a.rows + a.cols) * size *
                       (static_cast<double>(a.cols) * size * x.largest() + b.largest());
  const double normal = relative(a.transposed() * (a * x - b), scale);
  const std::vector<double> s = one_sided_jacobi(a).s;
  double values = 0;
  for (std::size_t k = 0; k < s.size(); ++k)
    values = std::max(values, std::fabs(s[k] - r.y[2].f[k]));
  return std::max(std::max(0.0, normal - part), s[0] > 0 ? values / s[0] : values);
}

}  // namespace

const OpDef inverse = {
    .name = "inverse",
    .doc = "The matrix y with a y = 1. To apply it to something, solve is faster and exacter.",
    .traits = kMayFail,
    .infer = square_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Expr y = snug::transpose(g.y[0]);
      return {snug::neg(snug::dot(snug::dot(y, g.dy[0]), y))};
    },
    .reference =
        [](const ReferenceArgs& r) {
          Matrix a(*r.x[0]), y = Matrix::identity(a.rows);
          eliminate("inverse", a, y);
          y.store(r.y[0]);
        },
    .residual =
        [](const ReferenceArgs& r) {
          const Matrix a(*r.x[0]), y(r.y[0]);
          const double n = static_cast<double>(a.rows);
          return relative(a * y - Matrix::identity(a.rows), n * a.largest() * y.largest());
        },
};

const OpDef det = {
    .name = "det",
    .doc = "The determinant of a square matrix.",
    .infer =
        [](Infer& f) {
          require_square(f);
          f.out(scalar_of(f.in(0).dtype));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {g.dy[0] * g.y[0] * inverse_transposed(g.x[0])};
    },
    .reference = [](const ReferenceArgs& r) { r.y[0].f[0] = determinant(*r.x[0]); },
    .residual = det_residual,
};

const OpDef slogdet = {
    .name = "slogdet",
    .doc = "The sign of the determinant (0 if it is zero) and the logarithm of its magnitude.",
    .outputs = 2,
    .infer =
        [](Infer& f) {
          require_square(f);
          f.out(scalar_of(f.in(0).dtype));
          f.out(scalar_of(f.in(0).dtype));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      if (!g.dy[1]) return {snug::zeros_like(g.x[0])};  // the sign is flat
      return {g.dy[1] * inverse_transposed(g.x[0])};
    },
    .reference = slogdet_reference,
    .residual = slogdet_residual,
};

const OpDef expm = {
    .name = "expm",
    .doc = "The exponential function of a square matrix: 1 + a + a a / 2 + ...",
    .infer = square_rule,
    .grad = expm_grad,
    .reference = expm_reference,
    .residual = expm_residual,
};

const OpDef lstsq = {
    .name = "lstsq",
    .doc =
        "The shortest x that makes a x nearest to b, the rank of a, and its singular values. "
        "Values up to `rcond` times the largest count as zero (negative: the precision of the "
        "dtype; NaN: that times the larger size).",
    .arity = 2,
    .outputs = 3,
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          f.attrs.number("rcond");
          require_matrix(f, 0);
          f.require_ndim(1, 2);
          require_same_dtype(f, 0, 1);
          const Type &a = f.in(0), &b = f.in(1);
          f.require_equal(a.dims[0], b.dims[0], "rows of the matrix and the right side differ");
          Type x, rank, s;
          x.dtype = s.dtype = a.dtype;
          x.dims = {a.dims[1], b.dims[1]};
          if (a.broadcastable(1)) x.broadcast |= 1;
          if (b.broadcastable(1)) x.broadcast |= 2;
          rank.dtype = DType::I64;
          s.dims = {f.sizes.min(a.dims[0], a.dims[1])};
          f.out(x);
          f.out(rank);
          f.out(s);
        },
    .grad = lstsq_grad,
    .reference = lstsq_reference,
    .residual = lstsq_residual,
};

}  // namespace snug::ops
