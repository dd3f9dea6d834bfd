#include "expr/rebuild.h"

#include <unordered_set>

#include "expr/number.h"

namespace snug {

namespace {

/// `rebuild`; with `all`, what does not change is applied again, too.
std::vector<Expr> rebuild_some(const std::vector<Expr>& roots, const std::vector<Expr>& blockers,
                               std::unordered_map<Variable*, Expr> changed,
                               const std::function<Expr(const Expr&)>& better, bool all) {
  std::unordered_set<Variable*> fixed;
  for (const Expr& e : blockers) fixed.insert(e.get());
  std::unordered_map<Apply*, std::vector<Expr>> applied;
  for (const Expr& e : topological(roots, blockers)) {
    if (!e->owner || fixed.count(e.get()) || changed.count(e.get())) continue;
    Apply* a = e->owner.get();
    OriginOverride origin(a->origin);
    auto it = applied.find(a);
    if (it == applied.end()) {
      std::vector<Expr> inputs;
      bool any = all;
      for (const Expr& x : a->inputs) {
        auto c = changed.find(x.get());
        any |= c != changed.end();
        inputs.push_back(c != changed.end() ? c->second : x);
      }
      if (any) it = applied.emplace(a, apply_all(*a->op, std::move(inputs), a->attrs)).first;
    }
    Expr now = e;
    if (it != applied.end()) {
      now = it->second[e->index];
      if (!e->name.empty()) now->name = e->name;
    }
    if (better)
      if (Expr form = better(now); form && form.type() == e.type()) now = form;
    if (!same(now, e)) changed[e.get()] = now;
  }
  std::vector<Expr> out;
  for (const Expr& e : roots) {
    auto it = changed.find(e.get());
    out.push_back(it != changed.end() ? it->second : e);
  }
  return out;
}

}  // namespace

std::vector<Expr> rebuild(const std::vector<Expr>& roots, const std::vector<Expr>& blockers,
                          std::unordered_map<Variable*, Expr> changed,
                          const std::function<Expr(const Expr&)>& better) {
  return rebuild_some(roots, blockers, std::move(changed), better, false);
}

Expr copy_leaf(const Expr& leaf) {
  OriginOverride origin(leaf->origin);
  if (SharedVariable* s = as_shared(leaf)) {
    Ref<SharedVariable> twin(new SharedVariable(Ref<SharedVariable>(s)));
    twin->origin = current_origin();
    return Expr(Ref<Variable>(twin));
  }
  if (Expr number = exact_number(leaf, leaf.dtype())) return number;
  if (auto* c = dynamic_cast<Constant*>(leaf.get())) return constant(*c->value, c->name);
  return input(leaf.type(), leaf->name);
}

std::vector<Expr> copy_graph(const std::vector<Expr>& roots,
                             const std::vector<std::pair<Expr, Expr>>& replacements,
                             bool copy_leaves) {
  std::unordered_map<Variable*, Expr> changed;
  std::vector<Expr> blockers;
  for (const auto& [from, to] : replacements) {
    changed[from.get()] = to;
    blockers.push_back(from);
  }
  if (copy_leaves)
    for (const Expr& e : topological(roots, blockers))
      if (!e->owner && !changed.count(e.get())) changed[e.get()] = copy_leaf(e);
  return rebuild_some(roots, blockers, std::move(changed), {}, true);
}

std::vector<Expr> substitute(const std::vector<Expr>& roots,
                             const std::vector<std::pair<Expr, Expr>>& replacements) {
  if (replacements.empty()) return roots;
  std::unordered_map<Variable*, Expr> changed;
  std::vector<Expr> blockers;
  for (const auto& [from, to] : replacements) {
    changed[from.get()] = to;
    blockers.push_back(from);
  }
  return rebuild(roots, blockers, std::move(changed));
}

}  // namespace snug
