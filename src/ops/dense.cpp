#include "ops/dense.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace snug::ops {

void require_matrix(const Infer& f, std::size_t i) {
  f.require_ndim(i, 2);
  const DType t = f.in(i).dtype;
  if (t != DType::F32 && t != DType::F64)
    f.error(Fault::Type, fmt::format("takes float32 or float64, not {}", name_of(t)), "cast it");
}

void require_square(Infer& f) {
  require_matrix(f, 0);
  f.require_equal(f.in(0).dims[0], f.in(0).dims[1], "the matrix is not square");
}

void square_rule(Infer& f) {
  require_square(f);
  f.out(f.in(0));
}

Expr diagonal_of(const Expr& x) {
  return x * snug::eye(snug::shape_i(x, 0), snug::shape_i(x, 1), 0, x.dtype());
}

Expr diagonal_matrix(const Expr& v) {
  Expr n = snug::shape_i(v, 0);
  return snug::eye(n, n, 0, v.dtype()) * snug::dimshuffle(v, {-1, 0});
}

Expr one_triangle(const Expr& s, bool lower) {
  Expr both = s + snug::transpose(s);
  return (lower ? snug::tril(both) : snug::triu(both)) - diagonal_of(s);
}

void fail_singular(std::string_view op, std::int64_t pivot, std::int64_t n) {
  fail(Fault::Numeric,
       fmt::format("{}: the matrix is singular: pivot {} of a {} x {} matrix is zero", op, pivot, n,
                   n),
       "add a small multiple of the identity, or solve the least squares problem");
}

void fail_not_positive(std::string_view op, std::int64_t minor, std::int64_t n) {
  fail(Fault::Numeric,
       fmt::format("{}: the matrix is not positive definite: leading minor of order {} of a {} x "
                   "{} matrix",
                   op, minor, n, n),
       "add a small multiple of the identity, or compute in float64");
}

void fail_not_finite(std::string_view op, std::int64_t row, std::int64_t column, std::int64_t rows,
                     std::int64_t columns) {
  fail(Fault::Numeric,
       fmt::format("{}: element ({}, {}) of a {} x {} matrix is NaN or infinite", op, row, column,
                   rows, columns),
       "give its input as one more output of the function to see where it comes from");
}

void fail_no_convergence(std::string_view op, std::int64_t rows, std::int64_t columns) {
  fail(Fault::Numeric,
       fmt::format("{}: the iteration does not converge on this {} x {} matrix", op, rows, columns),
       "scale the matrix, or compute in float64");
}

// ---- reference interpreter ----

Matrix::Matrix(const RefTensor& t) : rows(t.shape[0]), cols(t.shape[1]), data_(t.f) {}

Matrix Matrix::identity(std::int64_t n) {
  Matrix out(n, n);
  for (std::int64_t i = 0; i < n; ++i) out(i, i) = 1;
  return out;
}

Matrix Matrix::transposed() const {
  Matrix out(cols, rows);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) out(j, i) = (*this)(i, j);
  return out;
}

double Matrix::largest() const {
  double out = 0;
  for (double v : data_) out = std::isnan(v) || std::fabs(v) > out ? std::fabs(v) : out;
  return out;
}

double Matrix::sum_norm() const {
  double out = 0;
  for (std::int64_t j = 0; j < cols; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += std::fabs((*this)(i, j));
    if (!(sum <= out)) out = sum;
    if (std::isnan(out)) return out;
  }
  return out;
}

void Matrix::require_finite(std::string_view op) const {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j)
      if (!std::isfinite((*this)(i, j))) fail_not_finite(op, i, j, rows, cols);
}

void Matrix::store(RefTensor& t) const { t.f = data_; }

Matrix operator*(const Matrix& a, const Matrix& b) {
  SNUG_CHECK(a.cols == b.rows, "a product of {} x {} and {} x {}", a.rows, a.cols, b.rows, b.cols);
  Matrix out(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.cols; ++k)
      for (std::int64_t j = 0; j < b.cols; ++j) out(i, j) += a(i, k) * b(k, j);
  return out;
}

Matrix operator-(const Matrix& a, const Matrix& b) {
  Matrix out = a;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) out(i, j) -= b(i, j);
  return out;
}

Matrix operator*(double factor, Matrix a) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) a(i, j) *= factor;
  return a;
}

double eliminate(std::string_view op, Matrix& a, Matrix& b) {
  const std::int64_t n = a.rows;
  double determinant = 1;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t i = c + 1; i < n; ++i)
      if (std::fabs(a(i, c)) > std::fabs(a(pivot, c))) pivot = i;
    if (a(pivot, c) == 0) fail_singular(op, c + 1, n);
    if (pivot != c) {
      for (std::int64_t j = 0; j < n; ++j) std::swap(a(c, j), a(pivot, j));
      for (std::int64_t j = 0; j < b.cols; ++j) std::swap(b(c, j), b(pivot, j));
      determinant = -determinant;
    }
    const double head = a(c, c);
    determinant *= head;
    for (std::int64_t j = 0; j < n; ++j) a(c, j) /= head;
    for (std::int64_t j = 0; j < b.cols; ++j) b(c, j) /= head;
    for (std::int64_t i = 0; i < n; ++i) {
      const double q = a(i, c);
      if (i == c || q == 0) continue;
      for (std::int64_t j = c; j < n; ++j) a(i, j) -= q * a(c, j);
      for (std::int64_t j = 0; j < b.cols; ++j) b(i, j) -= q * b(c, j);
    }
  }
  return determinant;
}

void jacobi(Matrix a, std::vector<double>& values, Matrix& vectors) {
  const std::int64_t n = a.rows;
  Matrix v = Matrix::identity(n);
  const double small = a.largest() * 1e-18;
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool moved = false;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        if (std::fabs(a(p, q)) <= small) continue;
        moved = true;
        const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = a(k, p), y = a(k, q);
          a(k, p) = c * x - s * y;
          a(k, q) = s * x + c * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = a(p, k), y = a(q, k);
          a(p, k) = c * x - s * y;
          a(q, k) = s * x + c * y;
        }
        a(p, q) = a(q, p) = 0;
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = v(k, p), y = v(k, q);
          v(k, p) = c * x - s * y;
          v(k, q) = s * x + c * y;
        }
      }
    if (!moved) break;
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return a(i, i) < a(j, j); });
  values.clear();
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t from = order[static_cast<std::size_t>(k)];
    values.push_back(a(from, from));
    for (std::int64_t i = 0; i < n; ++i) vectors(i, k) = v(i, from);
  }
}

namespace {

/// Replaces the columns of q from `known` on by ones orthonormal to those before them.
void complete_basis(Matrix& q, std::int64_t known) {
  for (std::int64_t k = known; k < q.cols; ++k) {
    // Of all unit vectors one keeps at least 1 / sqrt(rows) of its length.
    double best = 0;
    std::vector<double> chosen;
    for (std::int64_t e = 0; e < q.rows; ++e) {
      std::vector<double> v(static_cast<std::size_t>(q.rows), 0.0);
      v[static_cast<std::size_t>(e)] = 1;
      for (int twice = 0; twice < 2; ++twice)
        for (std::int64_t c = 0; c < k; ++c) {
          double part = 0;
          for (std::int64_t i = 0; i < q.rows; ++i) part += q(i, c) * v[i];
          for (std::int64_t i = 0; i < q.rows; ++i) v[i] -= part * q(i, c);
        }
      const double length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
      if (length <= best) continue;
      best = length;
      chosen = std::move(v);
    }
    for (std::int64_t i = 0; i < q.rows; ++i) q(i, k) = chosen[i] / best;
  }
}

}  // namespace

ThinSvd one_sided_jacobi(const Matrix& a) {
  if (a.rows < a.cols) {
    ThinSvd t = one_sided_jacobi(a.transposed());
    return {t.vt.transposed(), t.s, t.u.transposed()};
  }
  const std::int64_t m = a.rows, n = a.cols;
  const double scale = a.largest() > 0 ? a.largest() : 1;  // squares of the rest do not overflow
  Matrix w = 1 / scale * a, v = Matrix::identity(n);
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool moved = false;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (std::int64_t i = 0; i < m; ++i) {
          pp += w(i, p) * w(i, p);
          qq += w(i, q) * w(i, q);
          pq += w(i, p) * w(i, q);
        }
        if (std::fabs(pq) <= 1e-17 * std::sqrt(pp) * std::sqrt(qq) || pq == 0) continue;
        moved = true;
        const double theta = (qq - pp) / (2 * pq);
        const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        const auto rotate = [&](Matrix& x) {
          for (std::int64_t i = 0; i < x.rows; ++i) {
            const double y = x(i, p), z = x(i, q);
            x(i, p) = c * y - s * z;
            x(i, q) = s * y + c * z;
          }
        };
        rotate(w);
        rotate(v);
      }
    if (!moved) break;
  }
  std::vector<double> length(static_cast<std::size_t>(n), 0.0);
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i) length[j] = std::hypot(length[j], w(i, j));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return length[i] > length[j]; });
  ThinSvd out{Matrix(m, n), {}, Matrix(n, n)};
  std::int64_t rank = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t from = order[k];
    out.s.push_back(scale * length[from]);
    if (length[from] > length[order[0]] * 1e-16) ++rank;
    for (std::int64_t i = 0; i < m && length[from] > 0; ++i)
      out.u(i, k) = w(i, from) / length[from];
    for (std::int64_t i = 0; i < n; ++i) out.vt(k, i) = v(i, from);
  }
  complete_basis(out.u, rank);
  return out;
}

Matrix reflect(Matrix& a) {
  const std::int64_t m = a.rows, n = a.cols;
  Matrix q = Matrix::identity(m);
  std::vector<double> v(static_cast<std::size_t>(m));
  for (std::int64_t k = 0; k < std::min(m, n); ++k) {
    double below = 0;
    for (std::int64_t i = k + 1; i < m; ++i) below = std::hypot(below, a(i, k));
    if (below == 0) continue;
    const double head = a(k, k), norm = std::hypot(head, below);
    const double beta = std::signbit(head) ? norm : -norm;
    double square = 0;
    for (std::int64_t i = k; i < m; ++i) {
      v[i] = a(i, k) - (i == k ? beta : 0);
      square += v[i] * v[i];
    }
    for (std::int64_t j = k; j < n; ++j) {
      double s = 0;
      for (std::int64_t i = k; i < m; ++i) s += v[i] * a(i, j);
      for (std::int64_t i = k; i < m; ++i) a(i, j) -= 2 * s / square * v[i];
    }
    for (std::int64_t i = 0; i < m; ++i) {
      double s = 0;
      for (std::int64_t j = k; j < m; ++j) s += q(i, j) * v[j];
      for (std::int64_t j = k; j < m; ++j) q(i, j) -= 2 * s / square * v[j];
    }
    for (std::int64_t i = k + 1; i < m; ++i) a(i, k) = 0;
  }
  return q;
}

double orthogonality(const Matrix& q) {
  return (q.transposed() * q - Matrix::identity(q.cols)).largest();
}

double relative(const Matrix& difference, double scale) {
  const double d = difference.largest();
  if (!std::isfinite(scale)) return 0;  // nothing can be said
  return d == 0 ? 0 : scale == 0 ? std::numeric_limits<double>::infinity() : d / scale;
}

}  // namespace snug::ops
