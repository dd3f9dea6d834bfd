#include <algorithm>
#include <cmath>
#include <complex>
#include <tuple>

#include "base/spelling.h"
#include "ops/arguments.h"
#include "ops/dense.h"

/// Decompositions of a matrix. Signs of vectors are those of LAPACK; the references have their own,
/// so results are checked by what they are for.
namespace snug::ops {
namespace {

Type matrix_type(DType dtype, SizeId rows, SizeId cols) {
  Type out;
  out.dtype = dtype;
  out.dims = {rows, cols};
  return out;
}
Type vector_type(DType dtype, SizeId size) {
  Type out;
  out.dtype = dtype;
  out.dims = {size};
  return out;
}
SizeId smaller(Infer& f) { return f.sizes.min(f.in(0).dims[0], f.in(0).dims[1]); }

Expr t(const Expr& x) { return snug::transpose(x); }
Expr columns(const Expr& v) { return snug::dimshuffle(v, {-1, 0}); }
Expr rows(const Expr& v) { return snug::dimshuffle(v, {0, -1}); }

/// 1 / x, and 0 where x is.
Expr over(const Expr& x) {
  Expr zero = snug::eq(x, number(0, x));
  return snug::switch_(zero, number(0, x), number(1, x) / snug::switch_(zero, number(1, x), x));
}

/// 1 / (v[j] - v[i]), and 0 where they are equal: functions that do not depend on the choice of
/// vectors to equal values have their gradient there.
Expr gaps(const Expr& v) { return over(columns(v) - rows(v)); }

// ---- qr ----

/// Both factors for any sizes: the columns from `k` = min(rows, columns) on are q times those of r.
Expr qr_input_grad(const Expr& a, const Expr& q, const Expr& r, const Expr& dq_given,
                   const Expr& dr) {
  Expr k = snug::shape_i(q, 1);
  Expr u = snug::slice_axis(r, 1, Expr(), k), dq = dq_given, du, dv;
  if (dr) {
    du = snug::slice_axis(dr, 1, Expr(), k);
    dv = snug::slice_axis(dr, 1, k, Expr());
    Expr more = snug::dot(snug::slice_axis(a, 1, k, Expr()), t(dv));
    dq = dq ? dq + more : more;
  }
  Expr m;
  if (du) m = snug::dot(u, t(du));
  if (dq) m = m ? m - snug::dot(t(dq), q) : snug::neg(snug::dot(t(dq), q));
  Expr lower = snug::tril(m), both = lower + t(lower) - diagonal_of(m);
  Expr left = dq + snug::dot(q, both);
  Expr head = t(snug::solve(u, t(left), "upper"));  // left u^-T
  Expr tail = dv ? snug::dot(q, dv) : snug::zeros_like(snug::slice_axis(a, 1, k, Expr()));
  return snug::concatenate({head, tail}, 1);
}

Exprs qr_grad(const GradArgs& g) {
  if (g.attrs.flag("complete"))
    fail(Fault::Unsupported, "qr: mode 'complete' has no gradient: rows of q are arbitrary",
         "take it of mode 'reduced'");
  Expr zero = g.dy[0] ? g.dy[0] : snug::zeros_like(g.y[0]);
  return {qr_input_grad(g.x[0], g.y[0], g.y[1], zero, g.dy[1])};
}

void store_r(const Matrix& a, RefTensor& r) {
  const std::int64_t k = r.shape[0];
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) r.f[i * a.cols + j] = a(i, j);
}

void qr_reference(const ReferenceArgs& r) {
  Matrix a(*r.x[0]);
  const Matrix q = reflect(a);
  RefTensor& out = r.y[0];
  for (std::int64_t i = 0; i < out.shape[0]; ++i)
    for (std::int64_t j = 0; j < out.shape[1]; ++j) out.f[i * out.shape[1] + j] = q(i, j);
  store_r(a, r.y[1]);
}

/// Whether elements below the diagonal are other than zero.
bool below_diagonal(const Matrix& r) {
  for (std::int64_t i = 0; i < r.rows; ++i)
    for (std::int64_t j = 0; j < std::min(i, r.cols); ++j)
      if (r(i, j) != 0) return true;
  return false;
}

double qr_residual(const ReferenceArgs& args) {
  const Matrix a(*args.x[0]), q(args.y[0]), r(args.y[1]);
  if (!std::isfinite(a.largest())) return 0;
  if (below_diagonal(r)) return 1;
  const double n = static_cast<double>(std::max<std::int64_t>(a.rows, 1));
  return std::max(orthogonality(q) / n, relative(q * r - a, n * a.largest()));
}

double qr_r_residual(const ReferenceArgs& args) {
  const Matrix a(*args.x[0]), r(args.y[0]);
  if (!std::isfinite(a.largest())) return 0;
  if (below_diagonal(r)) return 1;
  const double size = a.largest(), n = static_cast<double>(std::max<std::int64_t>(a.rows, 1));
  return relative(r.transposed() * r - a.transposed() * a, n * n * size * size);
}

// ---- svd ----

/// Townsend 2016. E[i, j] = s[j]^2 - s[i]^2, skew(x) = x - x':
/// u (skew(u' du) / E s + s skew(v' dv) / E + ds) v' + (1 - u u') du / s v' + u / s dv' (1 - v v').
Exprs svd_grad(const GradArgs& g) {
  const Expr &u = g.y[0], &s = g.y[1], &vt = g.y[2];
  const Expr &du = g.dy[0], &ds = g.dy[1], &dvt = g.dy[2];
  if (g.attrs.flag("full")) {
    if (du || dvt)
      fail(Fault::Unsupported,
           "svd: the vectors of full matrices have no gradient: some of them are arbitrary",
           spelled("give false for full_matrices", "use full_matrices=False"));
    Exprs thin = apply_all(ops::svd, {g.x[0]}, {{"full", false}});
    return {snug::dot(thin[0] * columns(ds), thin[2])};
  }
  const auto skew = [](const Expr& x) { return x - t(x); };
  Expr inner, out;
  const auto add = [](Expr& to, const Expr& x) { to = to ? to + x : x; };
  Expr over_gap = gaps(snug::sqr(s)), over_s = over(s);
  if (ds) inner = diagonal_matrix(ds);
  if (du) add(inner, skew(snug::dot(t(u), du)) * over_gap * columns(s));
  if (dvt) add(inner, rows(s) * skew(snug::dot(vt, t(dvt))) * over_gap);
  out = snug::dot(snug::dot(u, inner), vt);
  if (du) add(out, snug::dot((du - snug::dot(u, snug::dot(t(u), du))) * columns(over_s), vt));
  if (dvt) add(out, snug::dot(u * columns(over_s), dvt - snug::dot(snug::dot(dvt, t(vt)), vt)));
  return {out};
}

void svd_reference(const ReferenceArgs& r) {
  const Matrix a(*r.x[0]);
  a.require_finite("svd");
  const ThinSvd d = one_sided_jacobi(a);
  r.y[1].f = d.s;
  if (!r.attrs.flag("full")) {
    d.u.store(r.y[0]);
    d.vt.store(r.y[2]);
    return;
  }
  // Reflections of the thin vectors complete them: q has those (up to sign) in front.
  const auto completed = [](const Matrix& thin) {
    Matrix work = thin, q = reflect(work);
    for (std::int64_t j = 0; j < thin.cols; ++j)
      for (std::int64_t i = 0; i < thin.rows; ++i) q(i, j) = thin(i, j);
    return q;
  };
  completed(d.u).store(r.y[0]);
  completed(d.vt.transposed()).transposed().store(r.y[2]);
}

double svd_residual(const ReferenceArgs& r) {
  const Matrix a(*r.x[0]), u(r.y[0]), vt(r.y[2]);
  const std::vector<double>& s = r.y[1].f;
  Matrix product(a.rows, a.cols);
  for (std::size_t k = 0; k < s.size(); ++k) {
    if (s[k] < 0 || (k > 0 && s[k] > s[k - 1])) return 1;
    const auto c = static_cast<std::int64_t>(k);
    for (std::int64_t i = 0; i < a.rows; ++i)
      for (std::int64_t j = 0; j < a.cols; ++j) product(i, j) += u(i, c) * s[k] * vt(c, j);
  }
  const double n = static_cast<double>(std::max<std::int64_t>({a.rows, a.cols, 1}));
  return std::max({orthogonality(u) / n, orthogonality(vt.transposed()) / n,
                   relative(product - a, n * a.largest())});
}

// ---- eigh ----

/// The symmetric matrix of which one triangle is read.
Matrix read_triangle(const ReferenceArgs& r) {
  Matrix a(*r.x[0]);
  const bool lower = r.attrs.flag("lower");
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < i; ++j) (lower ? a(j, i) : a(i, j)) = lower ? a(i, j) : a(j, i);
  return a;
}

Exprs eigh_grad(const GradArgs& g) {
  const Expr &w = g.y[0], &v = g.y[1];
  Expr inner;
  if (g.dy[0]) inner = diagonal_matrix(g.dy[0]);
  if (g.dy[1]) {
    Expr turned = snug::dot(t(v), g.dy[1]) * gaps(w);
    inner = inner ? inner + turned : turned;
  }
  return {one_triangle(snug::dot(snug::dot(v, inner), t(v)), g.attrs.flag("lower"))};
}

Exprs eigvalsh_grad(const GradArgs& g) {
  Expr v = apply_all(ops::eigh, {g.x[0]}, g.attrs)[1];
  return {one_triangle(snug::dot(v * columns(g.dy[0]), t(v)), g.attrs.flag("lower"))};
}

void eigh_reference(const ReferenceArgs& r) {
  const Matrix a = read_triangle(r);
  a.require_finite("eigh");
  Matrix v(a.rows, a.cols);
  jacobi(a, r.y[0].f, v);
  v.store(r.y[1]);
}

double eigh_residual(const ReferenceArgs& r) {
  const Matrix a = read_triangle(r), v(r.y[1]);
  const std::vector<double>& w = r.y[0].f;
  if (!std::is_sorted(w.begin(), w.end())) return 1;
  Matrix scaled = v;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.rows; ++j) scaled(i, j) *= w[static_cast<std::size_t>(j)];
  const double n = static_cast<double>(std::max<std::int64_t>(a.rows, 1));
  return std::max(orthogonality(v) / n, relative(a * v - scaled, n * a.largest()));
}

// ---- eig ----

using Complex = std::complex<double>;

/// A square matrix of complex numbers.
struct ComplexMatrix {
  std::int64_t n;
  std::vector<Complex> data;
  explicit ComplexMatrix(std::int64_t n) : n(n), data(static_cast<std::size_t>(n * n)) {}
  Complex& operator()(std::int64_t i, std::int64_t j) { return data[i * n + j]; }
};

/// a <- g a g', q <- q g' with a rotation g of rows i and k that makes a(k, column) zero in g a.
/// Rows of `a` are turned here, columns by the caller, when all rows are.
struct Rotation {
  double c = 1;
  Complex s;
};
Rotation rotate_rows(ComplexMatrix& a, std::int64_t i, std::int64_t k, std::int64_t column,
                     std::int64_t last) {
  const Complex x = a(i, column), y = a(k, column);
  const double size = std::hypot(std::abs(x), std::abs(y));
  Rotation g;
  if (size == 0 || y == Complex()) return g;
  g.c = std::abs(x) / size;
  const Complex phase = std::abs(x) == 0 ? Complex(1) : x / std::abs(x);
  g.s = phase * std::conj(y) / size;
  for (std::int64_t j = 0; j < last; ++j) {
    const Complex u = a(i, j), v = a(k, j);
    a(i, j) = g.c * u + g.s * v;
    a(k, j) = g.c * v - std::conj(g.s) * u;
  }
  return g;
}
void rotate_columns(ComplexMatrix& a, const Rotation& g, std::int64_t i, std::int64_t k,
                    std::int64_t rows) {
  for (std::int64_t j = 0; j < rows; ++j) {
    const Complex u = a(j, i), v = a(j, k);
    a(j, i) = g.c * u + std::conj(g.s) * v;
    a(j, k) = g.c * v - g.s * u;
  }
}

/// a = q t q' with t upper triangular, by shifted QR steps on the whole matrix. False: no end.
bool schur(ComplexMatrix& a, ComplexMatrix& q) {
  const std::int64_t n = a.n;
  double scale = 0;
  for (const Complex& x : a.data) scale = std::max(scale, std::abs(x));
  for (std::int64_t k = 0; k < n; ++k) q(k, k) = 1;
  for (std::int64_t m = n - 1, tries = 0; m > 0;) {
    double rest = 0;
    for (std::int64_t j = 0; j < m; ++j) rest = std::max(rest, std::abs(a(m, j)));
    if (rest <= 1e-15 * static_cast<double>(n) * scale) {
      for (std::int64_t j = 0; j < m; ++j) a(m, j) = 0;
      --m;
      tries = 0;
      continue;
    }
    if (++tries > 3000) return false;
    // Now and then a shift aside, for matrices that a shift leaves as they are.
    const Complex shift = a(m, m) + (tries % 11 == 0 ? Complex(rest, rest / 3) : Complex());
    for (std::int64_t k = 0; k <= m; ++k) a(k, k) -= shift;
    std::vector<std::tuple<Rotation, std::int64_t, std::int64_t>> done;
    for (std::int64_t column = 0; column < m; ++column)
      for (std::int64_t k = column + 1; k <= m; ++k)
        done.emplace_back(rotate_rows(a, column, k, column, n), column, k);
    for (const auto& [g, i, k] : done) {
      rotate_columns(a, g, i, k, m + 1);
      rotate_columns(q, g, i, k, n);
    }
    for (std::int64_t k = 0; k <= m; ++k) a(k, k) += shift;
  }
  return true;
}

void eig_reference(const ReferenceArgs& r) {
  const Matrix given(*r.x[0]);
  given.require_finite("eig");
  const std::int64_t n = given.rows;
  ComplexMatrix a(n), q(n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) a(i, j) = given(i, j);
  if (!schur(a, q)) fail_no_convergence("eig", n, n);
  const double tiny = 1e-300 + 1e-16 * given.largest();
  for (std::int64_t k = 0; k < n; ++k) {
    // (t - t[k, k]) x = 0 with x[k] = 1, from below; then q x.
    std::vector<Complex> x(static_cast<std::size_t>(n)), v(static_cast<std::size_t>(n));
    x[k] = 1;
    for (std::int64_t i = k; i-- > 0;) {
      Complex sum;
      for (std::int64_t j = i + 1; j <= k; ++j) sum += a(i, j) * x[j];
      Complex gap = a(i, i) - a(k, k);
      if (std::abs(gap) < tiny) gap = tiny;
      x[i] = -sum / gap;
    }
    double square = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= k; ++j) v[i] += q(i, j) * x[j];
      square += std::norm(v[i]);
    }
    r.y[0].f[2 * k] = a(k, k).real();
    r.y[0].f[2 * k + 1] = a(k, k).imag();
    for (std::int64_t i = 0; i < n; ++i) {
      r.y[1].f[2 * (i * n + k)] = v[i].real() / std::sqrt(square);
      r.y[1].f[2 * (i * n + k) + 1] = v[i].imag() / std::sqrt(square);
    }
  }
}

/// a v = v w, vectors of length 1, and values that add up to the trace.
double eig_residual(const ReferenceArgs& r) {
  const Matrix a(*r.x[0]);
  const std::int64_t n = a.rows;
  const std::vector<double>&w = r.y[0].f, &v = r.y[1].f;
  const auto vector = [&](std::int64_t i, std::int64_t k) {
    return Complex(v[2 * (i * n + k)], v[2 * (i * n + k) + 1]);
  };
  double worst = 0;
  Complex total;
  for (std::int64_t k = 0; k < n; ++k) {
    const Complex value(w[2 * k], w[2 * k + 1]);
    double square = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      Complex sum = -value * vector(i, k);
      for (std::int64_t j = 0; j < n; ++j) sum += a(i, j) * vector(j, k);
      worst = std::max(worst, std::abs(sum));
      square += std::norm(vector(i, k));
    }
    if (!(std::fabs(square - 1) < 1e-3)) return 1;
    total += value - a(k, k);
  }
  const double size = static_cast<double>(std::max<std::int64_t>(n, 1)) * a.largest();
  return size > 0 ? std::max(worst, std::abs(total)) / size : worst;
}

/// Part 0 or 1 of numbers that are pairs on the last axis.
Expr part(const Expr& pairs, std::int64_t k) {
  return snug::subtensor(pairs, {IndexItem::ellipsis(), IndexItem(int64_constant(k))});
}

/// With D = conj(dw + M) the gradient is the real part of X in V' X = D V' (V' not conjugated). In
/// reals, with V = P + i Q:  (P' -Q'; Q' P') (Re X; Im X) = (Re D V'; Im D V').
/// M is 0 for eigenvalues, and for eigenvectors (dV - V diag(Re V* dV)) behind V*, divided by the
/// conjugated differences of eigenvalues: vectors keep their length, and their phase does not
/// count.
Exprs eig_grad(const GradArgs& g) {
  const Expr p = t(part(g.y[1], 0)), q = t(part(g.y[1], 1));
  Expr re, im;  // of dw + M
  if (g.dy[0]) {
    re = snug::diag(part(g.dy[0], 0));
    im = snug::diag(part(g.dy[0], 1));
  }
  if (g.dy[1]) {
    const Expr dp = part(g.dy[1], 0), dq = part(g.dy[1], 1);
    const Expr along = snug::dot(p, dp) + snug::dot(q, dq);  // Re V* dV
    const Expr across = snug::dot(p, dq) - snug::dot(q, dp);
    const Expr length = columns(snug::diag(along));
    const Expr s = along - (snug::dot(p, t(p)) + snug::dot(q, t(q))) * length;
    const Expr r = across - (snug::dot(p, t(q)) - snug::dot(q, t(p))) * length;
    const Expr wr = part(g.y[0], 0), wi = part(g.y[0], 1);
    const Expr a = columns(wr) - rows(wr), b = columns(wi) - rows(wi);
    const Expr by = over(snug::sqr(a) + snug::sqr(b));
    const Expr mr = (s * a - r * b) * by, mi = (s * b + r * a) * by;
    re = re ? re + mr : mr;
    im = im ? im + mi : mi;
  }
  const Expr left =
      snug::concatenate({snug::concatenate({p, snug::neg(q)}, 1), snug::concatenate({q, p}, 1)}, 0);
  const Expr right = snug::concatenate(
      {snug::dot(re, p) + snug::dot(im, q), snug::dot(re, q) - snug::dot(im, p)}, 0);
  return {snug::slice_axis(snug::solve(left, right), 0, Expr(), snug::shape_i(g.x[0], 0))};
}

}  // namespace

const OpDef qr = {
    .name = "qr",
    .doc =
        "Orthonormal columns q and an upper triangular r with q r = a, min(rows, columns) columns "
        "of q or, complete, all of them.",
    .outputs = 2,
    .infer =
        [](Infer& f) {
          require_matrix(f, 0);
          const Type& a = f.in(0);
          SizeId k = f.attrs.flag("complete") ? a.dims[0] : smaller(f);
          f.out(matrix_type(a.dtype, a.dims[0], k));
          f.out(matrix_type(a.dtype, k, a.dims[1]));
        },
    .grad = qr_grad,
    .reference = qr_reference,
    .residual = qr_residual,
};

const OpDef qr_r = {
    .name = "qr_r",
    .doc = "The factor r of qr alone.",
    .infer =
        [](Infer& f) {
          require_matrix(f, 0);
          f.out(matrix_type(f.in(0).dtype, smaller(f), f.in(0).dims[1]));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs both = apply_all(ops::qr, {g.x[0]}, {{"complete", false}});
      return {qr_input_grad(g.x[0], both[0], both[1], snug::zeros_like(both[0]), g.dy[0])};
    },
    .reference =
        [](const ReferenceArgs& r) {
          Matrix a(*r.x[0]);
          reflect(a);
          store_r(a, r.y[0]);
        },
    .residual = qr_r_residual,
};

const OpDef svd = {
    .name = "svd",
    .doc =
        "u, s and v' with u diag(s) v' = a, s falling; min(rows, columns) columns of u and v or, "
        "full, all of them.",
    .outputs = 3,
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          require_matrix(f, 0);
          const Type& a = f.in(0);
          const bool full = f.attrs.flag("full");
          f.out(matrix_type(a.dtype, a.dims[0], full ? a.dims[0] : smaller(f)));
          f.out(vector_type(a.dtype, smaller(f)));
          f.out(matrix_type(a.dtype, full ? a.dims[1] : smaller(f), a.dims[1]));
        },
    .grad = svd_grad,
    .reference = svd_reference,
    .residual = svd_residual,
};

const OpDef svdvals = {
    .name = "svdvals",
    .doc = "The singular values of a matrix, falling.",
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          require_matrix(f, 0);
          f.out(vector_type(f.in(0).dtype, smaller(f)));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs thin = apply_all(ops::svd, {g.x[0]}, {{"full", false}});
      return {snug::dot(thin[0] * columns(g.dy[0]), thin[2])};
    },
    .reference =
        [](const ReferenceArgs& r) {
          const Matrix a(*r.x[0]);
          a.require_finite("svdvals");
          r.y[0].f = one_sided_jacobi(a).s;
        },
};

const OpDef eig = {
    .name = "eig",
    .doc =
        "Eigenvalues and eigenvectors (columns) of a square matrix, as pairs of real and imaginary "
        "parts on the last axis.",
    .outputs = 2,
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          require_square(f);
          const Type& a = f.in(0);
          const SizeId two = f.sizes.constant(2);
          f.out(matrix_type(a.dtype, a.dims[0], two));
          Type vectors = matrix_type(a.dtype, a.dims[0], a.dims[0]);
          vectors.dims.push_back(two);
          f.out(vectors);
        },
    .grad = eig_grad,
    .reference = eig_reference,
    .residual = eig_residual,
};

const OpDef eigh = {
    .name = "eigh",
    .doc =
        "Eigenvalues, rising, and eigenvectors (columns) of a symmetric matrix, of which one "
        "triangle is read.",
    .outputs = 2,
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          f.attrs.flag("lower");
          require_square(f);
          const Type& a = f.in(0);
          f.out(vector_type(a.dtype, a.dims[0]));
          f.out(matrix_type(a.dtype, a.dims[0], a.dims[0]));
        },
    .grad = eigh_grad,
    .reference = eigh_reference,
    .residual = eigh_residual,
};

const OpDef eigvalsh = {
    .name = "eigvalsh",
    .doc = "The eigenvalues of a symmetric matrix, rising; one triangle is read.",
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          f.attrs.flag("lower");
          require_square(f);
          f.out(vector_type(f.in(0).dtype, f.in(0).dims[0]));
        },
    .grad = eigvalsh_grad,
    .reference =
        [](const ReferenceArgs& r) {
          const Matrix a = read_triangle(r);
          a.require_finite("eigvalsh");
          Matrix v(a.rows, a.cols);
          jacobi(a, r.y[0].f, v);
        },
};

}  // namespace snug::ops
