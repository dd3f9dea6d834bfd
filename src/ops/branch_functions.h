#pragma once
#include <vector>

#include "expr/expr.h"

namespace snug {

/// The values of `then` if the 0-d condition is not 0, else those of `otherwise`: only one of the
/// two is computed, in the function and in its gradient, and memory is planned for that one. Both
/// have the same dtypes and numbers of dimensions; sizes may differ, but not in the body of a loop.
/// What the two, or the condition, have in common is computed once, before. Outside of loops a
/// condition that is more than integer arguments is computed ahead of the function, with all that
/// it needs.
std::vector<Expr> ifelse(const Arg& condition, const std::vector<Expr>& then,
                         const std::vector<Expr>& otherwise);
inline Expr ifelse(const Arg& condition, const Expr& then, const Expr& otherwise) {
  return ifelse(condition, std::vector<Expr>{then}, std::vector<Expr>{otherwise})[0];
}

}  // namespace snug
