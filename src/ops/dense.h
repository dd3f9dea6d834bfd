#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/rules.h"

/// What the rows of linear algebra have in common.
namespace snug::ops {

// ---- shape rules ----

/// Input i is a matrix of float32 or float64.
void require_matrix(const Infer& f, std::size_t i);
/// Input 0 is a square matrix of float32 or float64.
void require_square(Infer& f);
/// A square matrix gives one of its type.
void square_rule(Infer& f);

// ---- gradients ----

/// `x` with zeros outside its diagonal.
Expr diagonal_of(const Expr& x);
/// A matrix with the vector `v` in its diagonal.
Expr diagonal_matrix(const Expr& v);
/// The gradient by a symmetric matrix of which one triangle is read.
Expr one_triangle(const Expr& s, bool lower);

// ---- data that make a call fail; the library calls and the references say it alike ----

[[noreturn]] void fail_singular(std::string_view op, std::int64_t pivot, std::int64_t n);
[[noreturn]] void fail_not_positive(std::string_view op, std::int64_t minor, std::int64_t n);
[[noreturn]] void fail_not_finite(std::string_view op, std::int64_t row, std::int64_t column,
                                  std::int64_t rows, std::int64_t columns);
[[noreturn]] void fail_no_convergence(std::string_view op, std::int64_t rows, std::int64_t columns);

// ---- reference interpreter ----

/// A matrix of the references: dense, in double, by rows.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols)
      : rows(rows), cols(cols), data_(static_cast<std::size_t>(rows * cols), 0.0) {}
  explicit Matrix(const RefTensor& t);
  static Matrix identity(std::int64_t n);
  double& operator()(std::int64_t i, std::int64_t j) { return data_[i * cols + j]; }
  double operator()(std::int64_t i, std::int64_t j) const { return data_[i * cols + j]; }
  Matrix transposed() const;
  double largest() const;   // magnitude; NaN if there is one
  double sum_norm() const;  // the largest sum of magnitudes of a column; NaN if there is one
  void require_finite(std::string_view op) const;
  void store(RefTensor& t) const;

  std::int64_t rows, cols;

 private:
  std::vector<double> data_;
};
Matrix operator*(const Matrix& a, const Matrix& b);
Matrix operator-(const Matrix& a, const Matrix& b);
Matrix operator*(double factor, Matrix a);

/// Elimination with row exchanges turns `a` into the identity and `b` into a^-1 b; a zero pivot
/// fails in the name of `op`. Returns the determinant of a.
double eliminate(std::string_view op, Matrix& a, Matrix& b);
/// Eigenvalues in rising order and eigenvectors (columns) of a symmetric matrix, by Jacobi's
/// rotations.
void jacobi(Matrix a, std::vector<double>& values, Matrix& vectors);
/// a = u diag(s) vt with s falling and k = min(rows, cols) values, by Hestenes' one-sided
/// rotations.
struct ThinSvd {
  Matrix u;
  std::vector<double> s;
  Matrix vt;
};
ThinSvd one_sided_jacobi(const Matrix& a);
/// Turns a into r and returns q (rows x rows) by reflections. The diagonal of r has the sign that
/// LAPACK gives it: opposite to the element it comes from, unless only zeros are below that.
Matrix reflect(Matrix& a);

/// How far the columns of q are from orthonormal.
double orthogonality(const Matrix& q);
/// largest(difference) / scale where the scale is not 0; NaN on both sides is no difference.
double relative(const Matrix& difference, double scale);

}  // namespace snug::ops
