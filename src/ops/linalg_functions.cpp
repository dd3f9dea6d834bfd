#include <algorithm>

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
}  // namespace

Expr cholesky(const Arg& a, bool lower) {
  Scope scope(a);
  require_expr("cholesky", a.expr);
  return apply(ops::cholesky, {cast(a, factor_dtype(a.expr.dtype()))}, {{"lower", lower}});
}

Expr solve(const Arg& a, const Arg& b, const std::string& kind, bool trans) {
  Scope scope(a);
  require_expr("solve", a.expr);
  require_expr("solve", b.expr);
  DType t = factor_dtype(upcast(a.expr.dtype(), b.expr.dtype()));
  Expr right = b.expr.ndim() == 1 ? dimshuffle(b, {0, -1}) : b.expr;
  Expr out = apply(ops::solve, {cast(a, t), cast(right, t)}, {{"kind", kind}, {"trans", trans}});
  return b.expr.ndim() == 1 ? dimshuffle(out, {0}) : out;
}

}  // namespace snug
