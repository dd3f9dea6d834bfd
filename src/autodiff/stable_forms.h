#pragma once
#include <vector>

#include "expr/expr.h"

namespace snug {

/// `roots` with forms whose gradient overflows replaced by equal ones whose gradient does not:
///   log(1 / (1 + exp(-x)))  ->  -softplus(-x)
/// The rewriter does the same for values, but cannot undo what differentiation made of such a form.
/// The variables `kept` stay what they are, and what they are made of too.
std::vector<Expr> stable_forms(const std::vector<Expr>& roots, const std::vector<Expr>& kept);

}  // namespace snug
