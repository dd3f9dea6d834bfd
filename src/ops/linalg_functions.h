#pragma once
#include "ops/functions.h"

/// Linear algebra of matrices, in float32 or float64: integers and 16-bit floats are cast up. What
/// the data of a call can make fail is a numeric error of that call.
namespace snug {

/// L with L L' = a (lower), or U with U' U = a. Reads one triangle of a.
Expr cholesky(const Arg& a, bool lower = true);
/// The x with a x = b (trans: a' x = b), b a vector or a matrix. kind: "general", "lower", "upper"
/// or "positive".
Expr solve(const Arg& a, const Arg& b, const std::string& kind = "general", bool trans = false);
Expr solve_triangular(const Arg& a, const Arg& b, bool lower = false, bool trans = false);
Expr inverse(const Arg& a);
/// The Moore-Penrose inverse. Singular values up to rcond times the largest count as zero.
Expr pinv(const Arg& a, double rcond = 1e-15);
Expr det(const Arg& a);
/// The sign of the determinant and the logarithm of its magnitude.
std::vector<Expr> slogdet(const Arg& a);
/// q, r with q r = a. mode: "reduced" (also "full", its old name) has min(rows, columns) columns of
/// q, "complete" all of them, "r" gives r alone.
std::vector<Expr> qr(const Arg& a, const std::string& mode = "reduced");
/// u, s, v' with u diag(s) v' = a, or s alone. Signs of vectors are LAPACK's choice.
std::vector<Expr> svd(const Arg& a, bool full_matrices = true, bool compute_uv = true);
/// Eigenvalues and eigenvectors (columns, of length 1) of a square matrix, complex. Of conjugate
/// pairs the one with the positive imaginary part comes first.
std::vector<Expr> eig(const Arg& a);
/// Eigenvalues, rising, and eigenvectors (columns) of a symmetric matrix; one triangle is read.
std::vector<Expr> eigh(const Arg& a, bool lower = true);
Expr eigvalsh(const Arg& a, bool lower = true);
/// The w with a v = w b v for symmetric a and positive definite b.
Expr eigvalsh(const Arg& a, const Arg& b, bool lower = true);
/// x that makes a x nearest to b, sums of the squares of a x - b (none if a has not full column
/// rank or no more rows than columns), the rank and the singular values of a. No rcond: the
/// precision of the dtype times the larger size.
std::vector<Expr> lstsq(const Arg& a, const Arg& b, std::optional<double> rcond = {});
Expr expm(const Arg& a);
Expr matrix_power(const Arg& a, std::int64_t n);
/// The product of matrices, from the left.
Expr matrix_dot(const std::vector<Expr>& factors, Here where = Here::current());
Expr trace(const Arg& a);
/// SciPy's Kronecker product.
Expr kron(const Arg& a, const Arg& b);
/// "fro", "inf", "-inf", for matrices "nuc".
Expr norm(const Arg& x, const std::string& ord = "fro");
/// Of vectors any order; of matrices 1, -1, 2, -2 and infinities.
Expr norm(const Arg& x, double ord);
/// The inverse of a as a map from its last dimensions to the first `ind`.
Expr tensorinv(const Arg& a, std::int64_t ind = 2);
/// The x with tensordot(a, x, x.ndim) = b; `axes` of a are moved behind the others first.
Expr tensorsolve(const Arg& a, const Arg& b, const std::vector<std::int64_t>& axes = {});

}  // namespace snug
