#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/arguments.h"

namespace snug {

namespace {

/// A product row on operands of one dtype; bools multiply as "any of both".
Expr product(const OpDef& op, const Expr& a, const Expr& b) {
  DType t = upcast(a.dtype(), b.dtype());
  auto fitted = [&](const Expr& x) { return cast(x, is_complex(x.dtype()) ? t : real_of(t)); };
  if (t != DType::Bool) return apply(op, {fitted(a), fitted(b)});
  Expr n = apply(op, {cast(a, DType::I64), cast(b, DType::I64)});
  return ne(n, int64_constant(0));
}

Expr size_product(const Expr& x, const std::vector<std::int64_t>& axes) {
  if (axes.empty()) return int64_constant(1);
  Expr n = shape_i(x, axes[0]);
  for (std::size_t k = 1; k < axes.size(); ++k) n = n * shape_i(x, axes[k]);
  return n;
}

}  // namespace

Expr tensordot(const Arg& a, const Arg& b, const std::vector<std::int64_t>& axes_a,
               const std::vector<std::int64_t>& axes_b) {
  Scope scope(a);
  if (axes_a.size() != axes_b.size())
    fail(Fault::Value, fmt::format("tensordot: {} axes against {}", axes_a.size(), axes_b.size()));
  auto split = [](const Expr& x, const std::vector<std::int64_t>& given) {
    std::vector<std::int64_t> summed, kept;
    for (std::int64_t s : given) summed.push_back(normal_axis("tensordot", s, x.ndim()));
    for (std::int64_t i = 0; i < x.ndim(); ++i)
      if (std::find(summed.begin(), summed.end(), i) == summed.end()) kept.push_back(i);
    return std::pair(summed, kept);
  };
  auto [sum_a, keep_a] = split(a.expr, axes_a);
  auto [sum_b, keep_b] = split(b.expr, axes_b);
  std::vector<std::int64_t> order_a = keep_a, order_b = sum_b;
  order_a.insert(order_a.end(), sum_a.begin(), sum_a.end());
  order_b.insert(order_b.end(), keep_b.begin(), keep_b.end());
  auto flat = [](const Expr& x, const std::vector<std::int64_t>& order, const Expr& rows,
                 const Expr& columns) {
    return reshape(dimshuffle(x, order), {rows, columns});
  };
  Expr fa = flat(a.expr, order_a, size_product(a.expr, keep_a), size_product(a.expr, sum_a));
  Expr fb = flat(b.expr, order_b, size_product(b.expr, sum_b), size_product(b.expr, keep_b));
  std::vector<Expr> sizes;
  std::int64_t mask = 0;
  auto keep = [&](const Expr& x, const std::vector<std::int64_t>& axes) {
    for (std::int64_t i : axes) {
      if (x.type().broadcastable(static_cast<std::size_t>(i)))
        mask |= std::int64_t{1} << sizes.size();
      sizes.push_back(shape_i(x, i));
    }
  };
  keep(a.expr, keep_a);
  keep(b.expr, keep_b);
  return apply(ops::reshape, {product(ops::dot, fa, fb), make_vector(sizes)},
               {{"ndim", static_cast<std::int64_t>(sizes.size())}, {"broadcast", mask}});
}

Expr dot(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("dot", a.expr);
  require_expr("dot", b.expr);
  const Expr &x = a.expr, &y = b.expr;
  if (x.ndim() == 0 || y.ndim() == 0) return mul(a, b);
  if (x.ndim() > 2 || y.ndim() > 2)
    return tensordot(a, b, {x.ndim() - 1}, {std::max(0, y.ndim() - 2)});
  Expr left = x.ndim() == 1 ? dimshuffle(x, {-1, 0}) : x;
  Expr right = y.ndim() == 1 ? dimshuffle(y, {0, -1}) : y;
  Expr out = product(ops::dot, left, right);
  std::vector<std::int64_t> kept;
  if (x.ndim() == 2) kept.push_back(0);
  if (y.ndim() == 2) kept.push_back(1);
  return dimshuffle(out, kept);
}

Expr batched_dot(const Arg& a, const Arg& b) {
  Scope scope(a);
  const Expr &x = a.expr, &y = b.expr;
  if (x.ndim() < 2 || x.ndim() > 3 || y.ndim() < 2 || y.ndim() > 3)
    fail(Fault::Type, fmt::format("batched_dot: arguments have 2 or 3 dimensions, not {} and {}",
                                  x.ndim(), y.ndim()));
  Expr left = x.ndim() == 2 ? dimshuffle(x, {0, -1, 1}) : x;
  Expr right = y.ndim() == 2 ? dimshuffle(y, {0, 1, -1}) : y;
  Expr out = product(ops::batched_dot, left, right);
  std::vector<std::int64_t> kept{0};
  if (x.ndim() == 3) kept.push_back(1);
  if (y.ndim() == 3) kept.push_back(2);
  return dimshuffle(out, kept);
}

namespace {

/// float32 or float64, as the factorisations need.
DType factor_dtype(DType t) {
  t = to_float(t);
  return size_of(t) == 2 ? DType::F32 : t;
}

/// The argument in float32 or float64.
Expr factor_input(const char* what, const Arg& a) {
  require_expr(what, a.expr);
  return cast(a, factor_dtype(a.expr.dtype()));
}

Expr as_columns(const Expr& b) { return b.ndim() == 1 ? dimshuffle(b, {0, -1}) : b; }

std::int64_t checked_axes(const char* what, std::int64_t ind, const Expr& a) {
  if (ind < 1 || ind >= a.ndim())
    fail(Fault::Value,
         fmt::format("{}: ind is {} for a value of {} dimensions", what, ind, a.ndim()),
         fmt::format("it is a number from 1 to {}", a.ndim() - 1));
  return ind;
}

std::vector<Expr> sizes_of(const Expr& x, std::int64_t first, std::int64_t last) {
  std::vector<Expr> out;
  for (std::int64_t i = first; i < last; ++i) out.push_back(shape_i(x, i));
  return out;
}

Expr product_of(const std::vector<Expr>& sizes) {
  Expr n = int64_constant(1);
  for (const Expr& s : sizes) n = n * s;
  return n;
}

}  // namespace

Expr cholesky(const Arg& a, bool lower) {
  Scope scope(a);
  return apply(ops::cholesky, {factor_input("cholesky", a)}, {{"lower", lower}});
}

Expr solve(const Arg& a, const Arg& b, const std::string& kind, bool trans) {
  Scope scope(a);
  require_expr("solve", a.expr);
  require_expr("solve", b.expr);
  DType t = factor_dtype(upcast(a.expr.dtype(), b.expr.dtype()));
  Expr out = apply(ops::solve, {cast(a, t), cast(as_columns(b.expr), t)},
                   {{"kind", kind}, {"trans", trans}});
  return b.expr.ndim() == 1 ? dimshuffle(out, {0}) : out;
}

Expr solve_triangular(const Arg& a, const Arg& b, bool lower, bool trans) {
  return solve(a, b, lower ? "lower" : "upper", trans);
}

Expr inverse(const Arg& a) {
  Scope scope(a);
  return apply(ops::inverse, {factor_input("inverse", a)});
}

Expr pinv(const Arg& a, double rcond) {
  Scope scope(a);
  Expr x = factor_input("pinv", a), n = shape_i(x, 0);
  return apply_all(ops::lstsq, {x, eye(n, n, 0, x.dtype())}, {{"rcond", rcond}})[0];
}

Expr det(const Arg& a) {
  Scope scope(a);
  return apply(ops::det, {factor_input("det", a)});
}

std::vector<Expr> slogdet(const Arg& a) {
  Scope scope(a);
  return apply_all(ops::slogdet, {factor_input("slogdet", a)});
}

std::vector<Expr> qr(const Arg& a, const std::string& mode) {
  Scope scope(a);
  Expr x = factor_input("qr", a);
  if (mode == "r") return {apply(ops::qr_r, {x})};
  if (mode == "reduced" || mode == "complete" || mode == "full")
    return apply_all(ops::qr, {x}, {{"complete", mode == "complete"}});
  std::string near = nearest(mode, {"reduced", "complete", "full", "r"});
  fail(Fault::Value, fmt::format("qr: unknown mode '{}'", mode),
       near.empty() ? "modes are reduced (also called full), complete, r"
                    : fmt::format("did you mean '{}'?", near));
}

std::vector<Expr> svd(const Arg& a, bool full_matrices, bool compute_uv) {
  Scope scope(a);
  Expr x = factor_input("svd", a);
  if (!compute_uv) return {apply(ops::svdvals, {x})};
  return apply_all(ops::svd, {x}, {{"full", full_matrices}});
}

std::vector<Expr> eig(const Arg& a) {
  Scope scope(a);
  std::vector<Expr> pairs = apply_all(ops::eig, {factor_input("eig", a)}, {});
  return {view_as_complex(pairs[0]), view_as_complex(pairs[1])};
}

std::vector<Expr> eigh(const Arg& a, bool lower) {
  Scope scope(a);
  return apply_all(ops::eigh, {factor_input("eigh", a)}, {{"lower", lower}});
}

Expr eigvalsh(const Arg& a, bool lower) {
  Scope scope(a);
  return apply(ops::eigvalsh, {factor_input("eigvalsh", a)}, {{"lower", lower}});
}

Expr eigvalsh(const Arg& a, const Arg& b, bool lower) {
  Scope scope(a);
  require_expr("eigvalsh", a.expr);
  require_expr("eigvalsh", b.expr);
  DType t = factor_dtype(upcast(a.expr.dtype(), b.expr.dtype()));
  Expr read = lower ? tril(cast(a, t)) : triu(cast(a, t));
  Expr symmetric = read + transpose(lower ? tril(read, -1) : triu(read, 1));
  // With b = L L' the problem is that of L^-1 a L^-T.
  Expr l = cholesky(cast(b, t), lower);
  const std::string kind = lower ? "lower" : "upper";
  Expr half = solve(l, symmetric, kind, !lower);
  return eigvalsh(solve(l, transpose(half), kind, !lower), true);
}

std::vector<Expr> lstsq(const Arg& a, const Arg& b, std::optional<double> rcond) {
  Scope scope(a);
  require_expr("lstsq", a.expr);
  require_expr("lstsq", b.expr);
  DType t = factor_dtype(upcast(a.expr.dtype(), b.expr.dtype()));
  Expr matrix = cast(a, t), right = cast(as_columns(b.expr), t);
  std::vector<Expr> found =
      apply_all(ops::lstsq, {matrix, right},
                {{"rcond", rcond.value_or(std::numeric_limits<double>::quiet_NaN())}});
  Expr x = found[0], rank = found[1], m = shape_i(matrix, 0), n = shape_i(matrix, 1);
  // NumPy gives the sums only where the solution is unique and not exact by the sizes alone.
  Expr sums = sum(sqr(right - dot(matrix, x)), 0);
  Expr given = cast(eq(rank, n), DType::I64) * cast(gt(m, n), DType::I64);
  Expr residuals = slice_axis(sums, 0, Expr(), shape_i(sums, 0) * given);
  return {b.expr.ndim() == 1 ? dimshuffle(x, {0}) : x, residuals, rank, found[2]};
}

Expr expm(const Arg& a) {
  Scope scope(a);
  return apply(ops::expm, {factor_input("expm", a)});
}

Expr matrix_power(const Arg& a, std::int64_t n) {
  Scope scope(a);
  require_expr("matrix_power", a.expr);
  if (a.expr.ndim() != 2)
    fail(Fault::Type,
         fmt::format("matrix_power: a value of {} dimensions, not a matrix", a.expr.ndim()));
  if (n == 0) {
    Expr size = shape_i(a.expr, 0);
    return eye(size, size, 0, a.expr.dtype());
  }
  Expr square = n < 0 ? inverse(a) : a.expr, out;
  for (std::uint64_t left = n < 0 ? 0 - static_cast<std::uint64_t>(n)
                                  : static_cast<std::uint64_t>(n);
       left > 0;) {
    if (left & 1) out = out ? dot(out, square) : square;
    left >>= 1;
    if (left > 0) square = dot(square, square);
  }
  return out;
}

Expr matrix_dot(const std::vector<Expr>& factors, Here where) {
  Scope scope(where);
  if (factors.empty()) fail(Fault::Value, "matrix_dot: no arguments");
  Expr out = factors[0];
  for (std::size_t k = 1; k < factors.size(); ++k) out = dot(out, factors[k]);
  return out;
}

Expr trace(const Arg& a) {
  Scope scope(a);
  require_expr("trace", a.expr);
  if (a.expr.ndim() != 2)
    fail(Fault::Type, fmt::format("trace: a value of {} dimensions, not a matrix", a.expr.ndim()));
  Expr diagonal = eq(dimshuffle(arange(shape_i(a.expr, 0)), {0, -1}),
                     dimshuffle(arange(shape_i(a.expr, 1)), {-1, 0}));
  return sum(switch_(diagonal, a, cast(Expr(0), a.expr.dtype())));
}

Expr kron(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("kron", a.expr);
  require_expr("kron", b.expr);
  const Expr &x = a.expr, &y = b.expr;
  const int p = x.ndim(), q = y.ndim();
  if (p < 1 || q < 1 || p + q < 3 || p > 2)
    fail(Fault::Type, fmt::format("kron: arguments of {} and {} dimensions", p, q),
         "the first is a vector or a matrix, the second has a dimension, and one has two");
  // All axes of both side by side, then each axis of x next to one of y.
  std::vector<std::int64_t> left, right;
  for (int i = 0; i < p; ++i) left.push_back(i);
  for (int i = 0; i < q; ++i) left.push_back(-1);
  for (int i = 0; i < p; ++i) right.push_back(-1);
  for (int i = 0; i < q; ++i) right.push_back(i);
  Expr outer = dimshuffle(x, left) * dimshuffle(y, right);
  if (p + q == 3) return flatten(dimshuffle(outer, {1, 0, 2}));
  std::vector<std::int64_t> order{0, 2, 1};
  for (int i = 3; i < p + q; ++i) order.push_back(i);
  std::vector<Expr> sizes{shape_i(outer, 0) * shape_i(outer, 2),
                          shape_i(outer, 1) * shape_i(outer, 3)};
  for (int i = 4; i < p + q; ++i) sizes.push_back(shape_i(outer, i));
  return reshape(dimshuffle(outer, order), sizes);
}

Expr norm(const Arg& x, const std::string& ord) {
  Scope scope(x);
  require_expr("norm", x.expr);
  const int ndim = x.expr.ndim();
  if (ndim != 1 && ndim != 2)
    fail(Fault::Type, fmt::format("norm: a value of {} dimensions", ndim),
         "it is for vectors and matrices");
  if (ord == "fro") return sqrt(sum(sqr(x)));
  if (ord == "inf" || ord == "-inf") {
    Expr sizes = abs(x);
    if (ndim == 2) sizes = sum(sizes, 1);
    return ord == "inf" ? max(sizes) : min(sizes);
  }
  if (ord == "nuc" && ndim == 2) return sum(svd(x, false, false)[0]);
  fail(Fault::Value, fmt::format("norm: unknown order '{}'", ord),
       "orders are a number, 'inf', '-inf', and for matrices 'fro' and 'nuc'");
}

Expr norm(const Arg& x, double ord) {
  Scope scope(x);
  require_expr("norm", x.expr);
  if (std::isinf(ord)) return norm(x, std::string(ord > 0 ? "inf" : "-inf"));
  const int ndim = x.expr.ndim();
  if (ndim == 1) {
    if (ord == 0) return sum(ne(x, cast(Expr(0), x.expr.dtype())));
    if (ord == 1) return sum(abs(x));
    if (ord == 2) return sqrt(sum(sqr(x)));
    Expr total = sum(pow(abs(x), ord));
    return pow(total, typed_number(1 / ord, to_float(total.dtype())));
  }
  if (ndim == 2) {
    if (ord == 1) return max(sum(abs(x), 0));
    if (ord == -1) return min(sum(abs(x), 0));
    if (ord == 2) return max(svd(x, false, false)[0]);
    if (ord == -2) return min(svd(x, false, false)[0]);
    fail(Fault::Value, fmt::format("norm: order {} of a matrix", ord),
         "orders of matrices are 1, -1, 2, -2, 'inf', '-inf', 'fro' and 'nuc'");
  }
  fail(Fault::Type, fmt::format("norm: a value of {} dimensions", ndim),
       "it is for vectors and matrices");
}

Expr tensorinv(const Arg& a, std::int64_t ind) {
  Scope scope(a);
  require_expr("tensorinv", a.expr);
  const Expr& x = a.expr;
  checked_axes("tensorinv", ind, x);
  std::vector<Expr> first = sizes_of(x, 0, ind), last = sizes_of(x, ind, x.ndim());
  Expr y = inverse(reshape(x, {product_of(first), product_of(last)}));
  last.insert(last.end(), first.begin(), first.end());
  return reshape(y, last);
}

Expr tensorsolve(const Arg& a, const Arg& b, const std::vector<std::int64_t>& axes) {
  Scope scope(a);
  require_expr("tensorsolve", a.expr);
  require_expr("tensorsolve", b.expr);
  Expr x = a.expr;
  const int ndim = x.ndim();
  if (b.expr.ndim() >= ndim)
    fail(Fault::Type,
         fmt::format("tensorsolve: {} dimensions with a right side of {}", ndim, b.expr.ndim()),
         "the first argument has the dimensions of the second and those of the solution");
  std::vector<std::int64_t> order, behind;
  for (std::int64_t i : axes) behind.push_back(normal_axis("tensorsolve", i, ndim));
  for (std::int64_t i = 0; i < ndim; ++i)
    if (std::find(behind.begin(), behind.end(), i) == behind.end()) order.push_back(i);
  order.insert(order.end(), behind.begin(), behind.end());
  if (!axes.empty()) x = dimshuffle(x, order);
  std::vector<Expr> found = sizes_of(x, b.expr.ndim(), ndim);
  Expr n = product_of(found);
  return reshape(solve(reshape(x, {n, n}), flatten(b)), found);
}

}  // namespace snug
