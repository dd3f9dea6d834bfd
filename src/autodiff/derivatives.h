#pragma once
#include <vector>

#include "autodiff/grad.h"

/// Products with Jacobians, and whole ones. Sizes may be known at run time only.
namespace snug {

/// The products of `eval_points` with the Jacobian of `f` from the left, one per variable:
/// sum over k of eval_points[k]' df[k]/dwrt.
std::vector<Expr> Lop(const std::vector<Expr>& f, const std::vector<Expr>& wrt,
                      const std::vector<Expr>& eval_points, const GradOptions& options = {});

/// The products of the Jacobian of `f` with `eval_points` from the right, one per f:
/// sum over k of df/dwrt[k] eval_points[k]. Forward differentiation by two backward ones: every op
/// with a gradient will do whose gradient has one, loops included. The options hold for outputs
/// that do not depend on any of `wrt`.
std::vector<Expr> Rop(const std::vector<Expr>& f, const std::vector<Expr>& wrt,
                      const std::vector<Expr>& eval_points, const GradOptions& options = {});

/// dy/dx for each x of `wrt`: the sizes of y, then those of x. y has at most 1 dimension; a loop
/// runs over its elements.
std::vector<Expr> jacobian(const Arg& y, const std::vector<Expr>& wrt,
                           const GradOptions& options = {});
/// d2cost/dx2 for each vector x of `wrt`.
std::vector<Expr> hessian(const Arg& cost, const std::vector<Expr>& wrt,
                          const GradOptions& options = {});
/// The products of the whole Hessian by all of `wrt` with the vectors `p`, one per variable.
std::vector<Expr> hessian_vector_product(const Arg& cost, const std::vector<Expr>& wrt,
                                         const std::vector<Expr>& p,
                                         const GradOptions& options = {});

inline Expr jacobian(const Arg& y, const Expr& wrt) {
  return jacobian(y, std::vector<Expr>{wrt})[0];
}
inline Expr hessian(const Arg& cost, const Expr& wrt) {
  return hessian(cost, std::vector<Expr>{wrt})[0];
}

}  // namespace snug
