#include <unordered_set>

#include "ops/arguments.h"
#include "ops/functions.h"
#include "ops/rules.h"

namespace snug {
namespace {

using Region = std::unordered_set<Variable*>;

Region reached(const std::vector<Expr>& roots) {
  Region out;
  for (const Expr& e : topological(roots)) out.insert(e.get());
  return out;
}

/// What only `branch` needs.
Region own_part(const std::vector<Expr>& branch, const Region& other, const Region& condition) {
  Region out;
  for (const Expr& e : topological(branch))
    if (e->owner && !other.count(e.get()) && !condition.count(e.get())) out.insert(e.get());
  return out;
}

void check_pair(const Expr& then, const Expr& otherwise, std::size_t k) {
  require_expr("ifelse", then);
  require_expr("ifelse", otherwise);
  if (then.dtype() != otherwise.dtype() || then.ndim() != otherwise.ndim())
    fail(Fault::Type,
         fmt::format("ifelse: value {} is {} in one branch and {} in the other", k,
                     describe(then.type()), describe(otherwise.type())),
         "cast or reshape one of them: both branches give the same types");
}

}  // namespace

std::vector<Expr> ifelse(const Arg& condition, const std::vector<Expr>& then,
                         const std::vector<Expr>& otherwise) {
  Scope scope(condition);
  require_expr("ifelse", condition.expr);
  if (condition.expr.ndim() != 0)
    fail(Fault::Type, fmt::format("ifelse: the condition has {} dimensions", condition.expr.ndim()),
         "switch chooses element by element; for one choice take all() or any() of it");
  if (then.size() != otherwise.size() || then.empty())
    fail(Fault::Value, fmt::format("ifelse: {} values in one branch, {} in the other", then.size(),
                                   otherwise.size()));
  for (std::size_t k = 0; k < then.size(); ++k) check_pair(then[k], otherwise[k], k);

  const Expr holds = ne(condition.expr, 0);
  const Expr chosen = cast(holds, DType::I64), refused = cast(invert(holds), DType::I64);
  const Region reached_then = reached(then), reached_else = reached(otherwise);
  const Region deciding = reached({condition.expr});
  const std::vector<Expr> first = ops::run_if(chosen, then, own_part(then, reached_else, deciding));
  const std::vector<Expr> second =
      ops::run_if(refused, otherwise, own_part(otherwise, reached_then, deciding));
  // The body of a loop is planned before the condition is known.
  const bool in_loop = !ops::open_loops().empty();
  std::vector<Expr> out;
  for (std::size_t k = 0; k < then.size(); ++k) {
    // One of the two has no elements.
    std::vector<Expr> sizes;
    for (int axis = 0; axis < then[k].ndim(); ++axis) {
      Expr size = shape_i(then[k], axis);
      sizes.push_back(in_loop ? size : switch_(chosen, size, shape_i(otherwise[k], axis)));
    }
    Expr joined = concatenate({flatten(first[k]), flatten(second[k])}, 0);
    out.push_back(rebroadcast(reshape(joined, Sizes(sizes)),
                              then[k].type().broadcast & otherwise[k].type().broadcast));
  }
  return out;
}

}  // namespace snug
