#include "autodiff/derivatives.h"

#include <unordered_set>

#include "autodiff/stable_forms.h"
#include "base/spelling.h"
#include "expr/rebuild.h"
#include "ops/arguments.h"
#include "ops/functions.h"

namespace snug {
namespace {

void check_points(const char* what, const std::vector<Expr>& of, const std::vector<Expr>& points) {
  if (of.size() != points.size())
    fail(Fault::Value,
         fmt::format("{}: {} evaluation points for {} variables", what, points.size(), of.size()));
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!of[i] || !points[i]) fail(Fault::Type, fmt::format("{}: an empty expression", what));
    if (of[i].ndim() != points[i].ndim())
      fail(Fault::Value, fmt::format("{}: {} has {} dimensions, its evaluation point has {}", what,
                                     label(of[i]), of[i].ndim(), points[i].ndim()));
  }
}

GradOptions quiet(const GradOptions& options) {
  GradOptions out = options;
  out.disconnected_inputs = Disconnected::Ignore;
  out.zero_if_disconnected = false;
  out.known_grads.clear();
  return out;
}

/// x in a form that reads `inputs`, too: a function may have them as arguments, as the product of a
/// Jacobian with a vector is a function of where it is taken, even where it is the same everywhere.
Expr with_inputs(const Expr& x, const std::vector<Expr>& inputs) {
  std::unordered_set<Variable*> read{x.get()};
  std::vector<Variable*> left{x.get()};
  while (!left.empty()) {
    const Variable* v = left.back();
    left.pop_back();
    if (!v->owner) continue;
    for (const Expr& in : v->owner->inputs)
      if (read.insert(in.get()).second) left.push_back(in.get());
  }
  Expr out = x;
  for (const Expr& v : inputs)
    if (!read.count(v.get())) out = switch_(true, out, cast(sum(v), out.dtype()));
  return out;
}

}  // namespace

std::vector<Expr> Lop(const std::vector<Expr>& f, const std::vector<Expr>& wrt,
                      const std::vector<Expr>& eval_points, const GradOptions& options) {
  check_points("Lop", f, eval_points);
  std::vector<Expr> kept = wrt;
  kept.insert(kept.end(), options.consider_constant.begin(), options.consider_constant.end());
  const std::vector<Expr> stable = stable_forms(f, kept);
  GradOptions known = options;
  known.known_grads.clear();
  known.add_known = true;
  for (std::size_t i = 0; i < f.size(); ++i)
    known.known_grads.emplace_back(stable[i], eval_points[i]);
  return gradients({}, wrt, known);
}

std::vector<Expr> Rop(const std::vector<Expr>& f, const std::vector<Expr>& wrt,
                      const std::vector<Expr>& eval_points, const GradOptions& options) {
  check_points("Rop", wrt, eval_points);
  // g = u' J is linear in u, and its derivative by u in the direction v is J v.
  std::vector<Expr> u;
  for (const Expr& y : f) {
    if (!y) fail(Fault::Type, "Rop: an empty expression");
    u.push_back(input(y.type()));
  }
  const std::vector<Expr> g = Lop(f, wrt, u, quiet(options));
  std::vector<Expr> reached, points;
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    if (!g[k]) continue;
    reached.push_back(g[k]);
    points.push_back(eval_points[k]);
  }
  std::vector<Expr> out(f.size());
  if (!reached.empty()) out = Lop(reached, u, points, quiet(options));
  std::vector<std::pair<Expr, Expr>> shapes;  // u itself is not there, its sizes may be
  for (std::size_t i = 0; i < f.size(); ++i) shapes.emplace_back(u[i], zeros_like(f[i]));
  for (std::size_t i = 0; i < f.size(); ++i) {
    if (out[i]) {
      out[i] = substitute({out[i]}, shapes)[0];
      if (f[i]->owner) out[i] = with_inputs(out[i], wrt);
      continue;
    }
    if (options.disconnected_inputs == Disconnected::Raise)
      fail(Fault::Disconnected,
           fmt::format("Rop: {} does not depend on any of the variables", label(f[i])),
           fmt::format("leave it out, or pass {} to get zeros",
                       choice(spelled("disconnected_inputs", "disconnected_outputs"),
                              "Disconnected", "Ignore")));
    if (options.zero_if_disconnected) out[i] = zeros_like(f[i]);
  }
  return out;
}

std::vector<Expr> jacobian(const Arg& y, const std::vector<Expr>& wrt, const GradOptions& options) {
  Scope scope(y);
  if (!y.expr) fail(Fault::Type, "jacobian: an empty expression");
  if (y.expr.ndim() > 1)
    fail(Fault::Type, fmt::format("jacobian: {} has {} dimensions", label(y.expr), y.expr.ndim()),
         "flatten it");
  if (y.expr.ndim() == 0) return gradients(y.expr, wrt, options);
  const Expr numbers = arange(shape_i(y.expr, 0));
  std::vector<bool> missing(wrt.size(), false);
  LoopBody row = [&](const Expr&, const std::vector<Expr>& number, const std::vector<Expr>&) {
    Expr unit = rebroadcast(cast(eq(numbers, number[0]), y.expr.dtype()), y.expr.type().broadcast);
    std::vector<Expr> rows = Lop({y.expr}, wrt, {unit}, options);
    for (std::size_t k = 0; k < rows.size(); ++k)
      if (!rows[k]) {
        missing[k] = true;
        rows[k] = unit;
      }
    return LoopStep{{}, rows};
  };
  std::vector<Expr> out = loop(row, {numbers}, {}, {}, y.where).outputs;
  for (std::size_t k = 0; k < out.size(); ++k)
    if (missing[k]) out[k] = Expr();
  return out;
}

std::vector<Expr> hessian(const Arg& cost, const std::vector<Expr>& wrt,
                          const GradOptions& options) {
  Scope scope(cost);
  for (const Expr& w : wrt)
    if (!w || w.ndim() != 1)
      fail(Fault::Type,
           fmt::format("hessian: {} has {} dimensions", w ? label(w) : "(nothing)",
                       w ? w.ndim() : 0),
           "differentiate by vectors: build the cost of the flattened variable");
  GradOptions second = options;
  // The first derivative of what is linear does not depend on the variable.
  second.disconnected_inputs = Disconnected::Ignore;
  second.zero_if_disconnected = true;
  std::vector<Expr> first = gradients(cost.expr, wrt, options), out;
  for (std::size_t k = 0; k < wrt.size(); ++k)
    out.push_back(first[k] ? jacobian(Arg(first[k], cost.where), {wrt[k]}, second)[0] : Expr());
  return out;
}

std::vector<Expr> hessian_vector_product(const Arg& cost, const std::vector<Expr>& wrt,
                                         const std::vector<Expr>& p, const GradOptions& options) {
  Scope scope(cost);
  check_points("hessian_vector_product", wrt, p);
  std::vector<Expr> first = gradients(cost.expr, wrt, options), f, points;
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    if (!first[k]) continue;
    f.push_back(first[k]);
    points.push_back(p[k]);
  }
  GradOptions second = options;
  second.disconnected_inputs = Disconnected::Ignore;
  second.zero_if_disconnected = true;
  return Lop(f, wrt, points, second);
}

}  // namespace snug
