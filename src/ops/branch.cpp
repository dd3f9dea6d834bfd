#include <unordered_set>

#include "expr/rebuild.h"
#include "ops/arguments.h"
#include "ops/computed.h"
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

/// What only a branch needs.
struct OwnPart {
  const Region &other, &condition;
  std::vector<Expr> given;  // made outside for the branch

  Region operator()(const std::vector<Expr>& results) const {
    Region out;
    for (const Expr& e : topological(results, given))
      if (e->owner && !other.count(e.get()) && !condition.count(e.get())) out.insert(e.get());
    for (const Expr& e : given) out.erase(e.get());
    return out;
  }
};

/// The results of a branch, stacked on a new axis of size `count`. Sizes that the branch computes,
/// such as the choices of branches inside it, are computed outside, each in a branch of its own, as
/// those of a function are: 0 if it does not run.
std::vector<Expr> run_branch(const Expr& count, std::vector<Expr> results, OwnPart own,
                             bool in_loop) {
  Region region = own(results);
  if (in_loop) return ops::run_if(count, results, region);
  std::vector<std::pair<Expr, Expr>> known;
  Region seen;
  for (const Expr& e : topological(results)) {
    if (!region.count(e.get()) || e->owner->op != &ops::make_vector) continue;
    for (const Expr& size : e->owner->inputs) {
      if (!region.count(size.get()) || !ops::is_computed(size)) continue;
      if (!seen.insert(size.get()).second) continue;
      const std::vector<Expr> value = substitute({size}, known);
      const Expr run = sum(ops::run_if(count, value, own(value))[0]);
      known.emplace_back(size, subtensor(make_vector({cast(run, size.dtype())}), {0}));
      own.given.push_back(known.back().second);
    }
  }
  results = substitute(results, known);
  return ops::run_if(count, results, own(results));
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
  // The body of a loop is planned before the condition is known.
  const bool in_loop = !ops::open_loops().empty();
  Expr chosen = cast(holds, DType::I64), refused = cast(invert(holds), DType::I64);
  if (!in_loop) {
    // One size decides both, so that one branch runs whatever it is planned for.
    chosen = subtensor(make_vector({chosen}), {0});
    refused = int64_constant(1) - chosen;
  }
  const Region reached_then = reached(then), reached_else = reached(otherwise);
  const Region deciding = reached({condition.expr});
  const std::vector<Expr> first = run_branch(chosen, then, {reached_else, deciding, {}}, in_loop);
  const std::vector<Expr> second =
      run_branch(refused, otherwise, {reached_then, deciding, {}}, in_loop);
  std::vector<Expr> out;
  for (std::size_t k = 0; k < then.size(); ++k) {
    // One of the two has no elements. Its sizes are asked of what ran, not of the branches: these
    // would be checked whether they run or not.
    std::vector<Expr> sizes;
    for (int axis = 0; axis < then[k].ndim(); ++axis) {
      Expr size = shape_i(first[k], axis + 1);
      sizes.push_back(in_loop ? size : switch_(chosen, size, shape_i(second[k], axis + 1)));
    }
    Expr joined = concatenate({flatten(first[k]), flatten(second[k])}, 0);
    out.push_back(rebroadcast(reshape(joined, Sizes(sizes)),
                              then[k].type().broadcast & otherwise[k].type().broadcast));
  }
  return out;
}

}  // namespace snug
