#pragma once
#include <vector>

#include "expr/expr.h"

namespace snug {

/// `root` with forms whose gradient overflows replaced by equal ones whose gradient does not:
///   log(1 / (1 + exp(-x)))  ->  -softplus(-x)
/// The rewriter does the same for values, but cannot undo what differentiation made of such a form.
/// The variables `kept` stay what they are, and what they are made of too.
Expr stable_forms(const Expr& root, const std::vector<Expr>& kept);

}  // namespace snug
