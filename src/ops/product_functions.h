#pragma once
#include "ops/functions.h"

/// Products of tensors over chosen axes.
namespace snug {

/// NumPy's einsum: "ij,jk->ik", repeated letters, "..." for the axes left over. Several operands
/// are contracted in pairs, in the order that takes the least work as far as sizes are known.
Expr einsum(const std::string& subscripts, const std::vector<Expr>& operands,
            Here where = Here::current());
/// For each element of the first axis of both, the product summed over pairs of axes.
Expr batched_tensordot(const Arg& a, const Arg& b, const std::vector<std::int64_t>& axes_a,
                       const std::vector<std::int64_t>& axes_b);
/// The products of all elements of a with all of b, as a matrix.
Expr outer(const Arg& a, const Arg& b);
/// The products summed over the last axis of both.
Expr inner(const Arg& a, const Arg& b);
/// The products of all elements, summed.
Expr vdot(const Arg& a, const Arg& b);
/// The vectors at right angles to those along an axis, which has size 3.
Expr cross(const Arg& a, const Arg& b, std::int64_t axis = -1);

}  // namespace snug
