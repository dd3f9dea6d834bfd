#include <cmath>

#include "ops/batch_rules.h"
#include "ops/complex_rules.h"
#include "ops/dense.h"

namespace snug::ops {
namespace {

void require_numbers(const Infer& f) {
  require_same_dtype(f, 0, 1);
  if (f.in(0).dtype == DType::Bool)
    f.error(Fault::Type, "is not defined for bool", "cast it to a number");
}

/// The inner sizes are equal. Two requirements: the first fails where a transpose helps, and says
/// so, the second elsewhere.
void require_inner(Infer& f, const Type& a, const Type& b, std::size_t rows) {
  SizeTable& t = f.sizes;
  const SizeId inner = a.dims[rows + 1], outer = a.dims[rows];
  const SizeId first = b.dims[rows], last = b.dims[rows + 1];
  if (inner == first) return;
  const char* message = "inner sizes differ";
  if (rows == 0 && !b.broadcastable(1))
    f.require_at_most(t.equal(inner, last), t.equal(inner, first), message,
                      "the transpose of the second argument fits: dot(a, b.T) gives "
                      "({0.0}, {1.0})");
  if (rows == 0 && !a.broadcastable(0))
    f.require_at_most(t.equal(outer, first), t.equal(inner, first), message,
                      "the transpose of the first argument fits: dot(a.T, b) gives ({0.1}, {1.1})");
  f.require_equal(inner, first, message);
}

/// The product of matrices in the last two axes; the axis before is the batch.
Type product_type(Infer& f, std::size_t rows) {
  const Type &a = f.in(0), &b = f.in(1);
  Type out;
  out.dtype = a.dtype;
  if (rows == 1) {
    f.require_equal(a.dims[0], b.dims[0], "batch sizes differ");
    out.dims.push_back(f.sizes.known(a.dims[0]) ? a.dims[0] : b.dims[0]);
    if (a.broadcastable(0) && b.broadcastable(0)) out.broadcast |= 1;
  }
  require_inner(f, a, b, rows);
  if (a.broadcastable(rows)) out.broadcast |= static_cast<std::uint8_t>(1u << rows);
  if (b.broadcastable(rows + 1)) out.broadcast |= static_cast<std::uint8_t>(1u << (rows + 1));
  out.dims.push_back(a.dims[rows]);
  out.dims.push_back(b.dims[rows + 1]);
  return out;
}

void multiply(const RefTensor& a, const RefTensor& b, RefTensor& y, std::int64_t at_a,
              std::int64_t at_b, std::int64_t at_y, std::int64_t m, std::int64_t k,
              std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      Number s;
      for (std::int64_t l = 0; l < k; ++l) {
        Number u = a.at(at_a + i * k + l), v = b.at(at_b + l * n + j);
        s.f += u.f * v.f;
        s.i = static_cast<std::int64_t>(static_cast<std::uint64_t>(s.i) +
                                        static_cast<std::uint64_t>(u.i) *
                                            static_cast<std::uint64_t>(v.i));
      }
      store(y, at_y + i * n + j, s);
    }
}

Expr tri_solve(const Expr& a, const Expr& b, const char* kind, bool trans) {
  return apply(ops::solve, {a, b}, {{"kind", std::string(kind)}, {"trans", trans}});
}

/// Murray 2016: S = L^-T Phi(L^T dL) L^-1 with Phi the lower triangle with half its diagonal.
Exprs cholesky_grad(const GradArgs& g) {
  const bool lower = g.attrs.flag("lower");
  Expr l = lower ? g.y[0] : snug::transpose(g.y[0]);
  Expr dl = lower ? g.dy[0] : snug::transpose(g.dy[0]);
  Expr p = snug::dot(snug::transpose(l), snug::tril(dl));
  Expr phi = snug::tril(p) - number(0.5, p) * diagonal_of(p);
  Expr left = tri_solve(l, phi, "lower", true);  // L^-T Phi
  Expr s = snug::transpose(tri_solve(l, snug::transpose(left), "lower", true));
  return {one_triangle(lower ? s : snug::transpose(s), lower)};
}

void cholesky_reference(const ReferenceArgs& r) {
  const RefTensor& a = *r.x[0];
  const bool lower = r.attrs.flag("lower");
  const std::int64_t n = a.shape[0];
  std::vector<double> l(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      double v = lower ? a.f[i * n + j] : a.f[j * n + i];
      for (std::int64_t k = 0; k < j; ++k) v -= l[i * n + k] * l[j * n + k];
      if (i > j) {
        l[i * n + j] = v / l[j * n + j];
      } else {
        if (!(v > 0)) fail_not_positive("cholesky", j + 1, n);
        l[j * n + j] = std::sqrt(v);
      }
    }
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) r.y[0].f[lower ? i * n + j : j * n + i] = l[i * n + j];
}

enum class Kind : std::uint8_t { General, Lower, Upper, Positive };

Kind solve_kind(const Attrs& attrs) {
  const std::string& kind = attrs.text("kind");
  if (kind == "general") return Kind::General;
  if (kind == "lower") return Kind::Lower;
  if (kind == "upper") return Kind::Upper;
  if (kind == "positive") return Kind::Positive;
  std::string near = nearest(kind, {"general", "lower", "upper", "positive"});
  fail(Fault::Value, fmt::format("solve: unknown kind '{}'", kind),
       near.empty() ? "kinds are general, lower, upper, positive"
                    : fmt::format("did you mean '{}'?", near));
}

Exprs solve_grad(const GradArgs& g) {
  const Kind kind = solve_kind(g.attrs);
  const bool trans = g.attrs.flag("trans");
  const Expr &a = g.x[0], &x = g.y[0];
  Expr db = apply(ops::solve, {a, g.dy[0]}, {{"kind", g.attrs.text("kind")}, {"trans", !trans}});
  Exprs out{Expr(), db};
  if (!g.wanted[0]) return out;
  Expr da =
      snug::neg(trans ? snug::dot(x, snug::transpose(db)) : snug::dot(db, snug::transpose(x)));
  if (kind == Kind::Lower) da = snug::tril(da);
  if (kind == Kind::Upper) da = snug::triu(da);
  if (kind == Kind::Positive) da = one_triangle(da, true);
  out[0] = da;
  return out;
}

/// The matrix of the system: what the kind says is read of a, transposed if asked for.
Matrix read_by_solve(const ReferenceArgs& r) {
  const Kind kind = solve_kind(r.attrs);
  Matrix a(*r.x[0]);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      if (kind == Kind::Lower) a(j, i) = 0;
      if (kind == Kind::Upper) a(i, j) = 0;
      if (kind == Kind::Positive) a(j, i) = a(i, j);
    }
  return r.attrs.flag("trans") ? a.transposed() : a;
}

void solve_reference(const ReferenceArgs& r) {
  // Elimination serves all kinds; the kind only says what is read of a.
  Matrix w = read_by_solve(r), x(*r.x[1]);
  eliminate("solve", w, x);
  x.store(r.y[0]);
}

/// Rounding moves a, not the result: x solves a problem near the given one.
double solve_residual(const ReferenceArgs& r) {
  const Matrix a = read_by_solve(r), b(*r.x[1]), x(r.y[0]);
  return relative(a * x - b, static_cast<double>(a.rows) * a.largest() * x.largest());
}

double cholesky_residual(const ReferenceArgs& r) {
  const bool lower = r.attrs.flag("lower");
  const Matrix y(r.y[0]), l = lower ? y : y.transposed(), a(*r.x[0]);
  Matrix difference = l * l.transposed();
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) {
      difference(i, j) -= (i >= j) == lower || i == j ? a(i, j) : a(j, i);
      if (j > i && l(i, j) != 0) return 1;
    }
  return relative(difference, a.largest());
}

}  // namespace

const OpDef dot = {
    .name = "dot",
    .doc = "The product of two matrices.",
    .arity = 2,
    .infer =
        [](Infer& f) {
          f.require_ndim(0, 2);
          f.require_ndim(1, 2);
          require_numbers(f);
          f.out(product_type(f, 0));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(2);
      if (g.wanted[0]) out[0] = snug::dot(g.dy[0], snug::transpose(g.x[1]));
      if (g.wanted[1]) out[1] = snug::dot(snug::transpose(g.x[0]), g.dy[0]);
      return out;
    },
    .reference =
        [](const ReferenceArgs& r) {
          multiply(*r.x[0], *r.x[1], r.y[0], 0, 0, 0, r.x[0]->shape[0], r.x[0]->shape[1],
                   r.x[1]->shape[1]);
        },
    .batch = batch_dot,
    .on_complex = complex_product,
};

const OpDef batched_dot = {
    .name = "batched_dot",
    .doc = "The products of the matrices in the last two axes, one per index of the first.",
    .arity = 2,
    .infer =
        [](Infer& f) {
          f.require_ndim(0, 3);
          f.require_ndim(1, 3);
          require_numbers(f);
          f.out(product_type(f, 1));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(2);
      if (g.wanted[0]) out[0] = snug::batched_dot(g.dy[0], snug::dimshuffle(g.x[1], {0, 2, 1}));
      if (g.wanted[1]) out[1] = snug::batched_dot(snug::dimshuffle(g.x[0], {0, 2, 1}), g.dy[0]);
      return out;
    },
    .reference =
        [](const ReferenceArgs& r) {
          const Dims &a = r.x[0]->shape, &b = r.x[1]->shape;
          for (std::int64_t i = 0; i < a[0]; ++i)
            multiply(*r.x[0], *r.x[1], r.y[0], i * a[1] * a[2], i * b[1] * b[2], i * a[1] * b[2],
                     a[1], a[2], b[2]);
        },
    .batch = batch_batched_dot,
    .on_complex = complex_product,
};

const OpDef cholesky = {
    .name = "cholesky",
    .doc = "L with L L' = a (lower), or U with U' U = a. Reads that triangle of a only.",
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          f.attrs.flag("lower");
          square_rule(f);
        },
    .grad = cholesky_grad,
    .reference = cholesky_reference,
    .residual = cholesky_residual,
};

const OpDef solve = {
    .name = "solve",
    .doc =
        "The x with a x = b (or a' x = b); `kind` says what is known of a and read of it: "
        "general, lower, upper, positive (reads the lower triangle).",
    .arity = 2,
    .traits = kMayFail,
    .infer =
        [](Infer& f) {
          require_square(f);
          f.require_ndim(1, 2);
          require_same_dtype(f, 0, 1);
          solve_kind(f.attrs);
          f.require_equal(f.in(0).dims[1], f.in(1).dims[0],
                          "sizes of the matrix and the right side differ");
          Type out = f.in(1);
          f.out(out);
        },
    .grad = solve_grad,
    .reference = solve_reference,
    .residual = solve_residual,
    .batch = batch_solve,
};

}  // namespace snug::ops
