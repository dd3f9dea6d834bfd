#pragma once
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "expr/expr.h"

namespace snug {

/// `roots` with what `changed` says in the place of variables; what is made of those is applied
/// again, all else is shared. Nothing above `blockers` changes. `better`, if given, may have
/// another form for an expression (null: none), after its inputs were rebuilt.
std::vector<Expr> rebuild(const std::vector<Expr>& roots, const std::vector<Expr>& blockers,
                          std::unordered_map<Variable*, Expr> changed,
                          const std::function<Expr(const Expr&)>& better = {});

/// As `substitute`, but nothing is shared except inputs, constants and shared variables; not even
/// those if `copy_leaves`. The copy of a shared variable is another variable of the same value.
std::vector<Expr> copy_graph(const std::vector<Expr>& roots,
                             const std::vector<std::pair<Expr, Expr>>& replacements,
                             bool copy_leaves);
/// A leaf like this one.
Expr copy_leaf(const Expr& leaf);

/// `roots` with each first of a pair replaced by its second; what does not change is shared.
std::vector<Expr> substitute(const std::vector<Expr>& roots,
                             const std::vector<std::pair<Expr, Expr>>& replacements);

}  // namespace snug
