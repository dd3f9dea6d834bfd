#include "autodiff/stable_forms.h"

#include "expr/rebuild.h"
#include "ops/functions.h"
#include "ops/rows.h"
#include "ops/rules.h"

namespace snug {
namespace {

using ops::is_number;

bool is(const Expr& e, const OpDef& op) { return e->owner && e->owner->op == &op; }
const Expr& operand(const Expr& e, std::size_t i = 0) { return e->owner->inputs[i]; }

/// The x of 1 + exp(x).
Expr one_plus_exp(const Expr& e) {
  if (!is(e, ops::add)) return {};
  for (std::size_t i = 0; i < 2; ++i)
    if (is_number(operand(e, i), 1) && is(operand(e, 1 - i), ops::exp))
      return operand(operand(e, 1 - i));
  return {};
}

Expr negated(const Expr& x) { return is(x, ops::neg) ? operand(x) : neg(x); }

/// If `e` is something reduced over its last axis, which is kept with size 1: what is reduced.
Expr reduced_rows(const Expr& e, const OpDef& reduction) {
  if (!is(e, ops::dimshuffle) || !is(operand(e), reduction)) return {};
  const Expr& x = operand(operand(e));
  const std::int64_t last = x.ndim() - 1;
  std::vector<std::int64_t> kept;
  for (std::int64_t k = 0; k < last; ++k) kept.push_back(k);
  kept.push_back(-1);
  const bool rows = operand(e)->owner->attrs.ints("axes") == std::vector<std::int64_t>{last};
  return rows && e->owner->attrs.ints("pattern") == kept ? x : Expr();
}

/// The x of a softmax over the last axis that is written out: exp(x) / sum(exp(x), -1), or the same
/// of x - max(x, -1).
Expr written_softmax(const Expr& quotient) {
  const Expr above = operand(quotient, 0), summed = reduced_rows(operand(quotient, 1), ops::sum);
  if (!is(above, ops::exp) || !summed || !is(summed, ops::exp) ||
      !same(operand(summed), operand(above)))
    return {};
  const Expr& z = operand(above);
  if (!is(z, ops::sub)) return z;
  const Expr top = reduced_rows(operand(z, 1), ops::max);
  return top && same(top, operand(z, 0)) ? top : z;
}

Expr stable_log(const Expr& x) {
  if (Expr u = one_plus_exp(x)) return softplus(u);
  if (is(x, ops::sigmoid)) return neg(softplus(negated(operand(x))));
  if (is(x, ops::softmax)) return log_softmax(operand(x));
  if (is(x, ops::dimshuffle) && is(operand(x), ops::softmax))
    return dimshuffle(log_softmax(operand(operand(x))), x->owner->attrs.ints("pattern"));
  if (is(x, ops::sub) && is_number(operand(x, 0), 1) && is(operand(x, 1), ops::sigmoid))
    return neg(softplus(operand(operand(x, 1))));
  return {};
}

/// max_pool(relu(x)) as relu(max_pool(x)), so that x itself need not be kept for the gradient.
Expr relu_behind_pool(const Expr& e) {
  const Expr x = ops::relu_operand(operand(e));
  if (!x) return {};
  const std::vector<Expr> pooled = apply_all(ops::max_pool, {x}, e->owner->attrs);
  return e->index == 0 ? relu(pooled[0]) : pooled[1];
}

Expr stable_form(const Expr& e) {
  if (is(e, ops::max_pool)) return relu_behind_pool(e);
  if (is(e, ops::log)) return stable_log(operand(e));
  if (is(e, ops::log1p) && is(operand(e), ops::exp)) return softplus(operand(operand(e)));
  if (is(e, ops::log1p) && is(operand(e), ops::neg) && is(operand(operand(e)), ops::sigmoid))
    return neg(softplus(operand(operand(operand(e)))));
  if (is(e, ops::div)) {
    if (is_number(operand(e, 0), 1))
      if (Expr u = one_plus_exp(operand(e, 1))) return sigmoid(negated(u));
    if (Expr x = written_softmax(e)) return softmax(x);
  }
  return {};
}

}  // namespace

std::vector<Expr> stable_forms(const std::vector<Expr>& roots, const std::vector<Expr>& kept) {
  return rebuild(roots, kept, {}, stable_form);
}

}  // namespace snug
