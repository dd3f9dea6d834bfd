#pragma once
#include "ops/functions.h"

/// Functions that pick, place and number elements, over indexing.
namespace snug {

/// The elements of x at these places along an axis; without one, in C order. mode: "raise",
/// "clip" or "wrap" places outside.
Expr take(const Arg& x, const Arg& indices, std::optional<std::int64_t> axis = {},
          const std::string& mode = "raise");
/// Element k of a line of the result is the element of the line of x at place indices[k]. The other
/// axes of both stretch to one shape.
Expr take_along_axis(const Arg& x, const Arg& indices, std::int64_t axis = -1);
/// x with the elements that take_along_axis reads replaced by y.
Expr put_along_axis(const Arg& x, const Arg& indices, const Arg& y, std::int64_t axis = -1);
/// Element by element the value of the choice that `which` names. mode as in take.
Expr choose(const Arg& which, const std::vector<Expr>& choices, const std::string& mode = "raise");
/// As above; the choices are the elements of the first axis.
Expr choose_from(const Arg& which, const Arg& choices, const std::string& mode = "raise");
/// The elements along an axis where the condition, a vector, is not 0.
Expr compress(const Arg& condition, const Arg& x, std::optional<std::int64_t> axis = {});
/// The places, in C order, of the elements that are not 0; and these elements.
Expr flatnonzero(const Arg& x);
Expr nonzero_values(const Arg& x);
Expr count_nonzero(const Arg& x, const Axes& axes = {}, bool keepdims = false);

// ---- diagonals ----

/// The diagonal of two axes, as the last axis; a positive offset is to the right.
Expr diagonal(const Arg& x, std::int64_t offset = 0, std::int64_t axis1 = 0,
              std::int64_t axis2 = 1);
/// The inverse: 0 but on a diagonal, which holds the last axis of x.
Expr alloc_diagonal(const Arg& x, std::int64_t offset = 0, std::int64_t axis1 = 0,
                    std::int64_t axis2 = 1);
/// The matrix of a vector, or the diagonal of a matrix.
Expr diag(const Arg& x, std::int64_t k = 0);
/// x with `value` on its main diagonal; of more than two axes all have one size.
Expr fill_diagonal(const Arg& x, const Arg& value);
/// A matrix with `value` on one of its diagonals.
Expr fill_diagonal_offset(const Arg& x, const Arg& value, const Arg& offset);

// ---- numbers of elements ----

/// The index on each axis of element `indices` of an array of these sizes. order: "C" or "F".
std::vector<Expr> unravel_index(const Arg& indices, const Sizes& sizes,
                                const std::string& order = "C");
/// The inverse. mode as in take.
Expr ravel_multi_index(const std::vector<Expr>& index, const Sizes& sizes,
                       const std::string& mode = "raise", const std::string& order = "C");
/// 1 at place x[...] of a new last axis of size n, and 0 elsewhere.
Expr one_hot(const Arg& x, const Arg& n, std::optional<DType> dtype = {});
/// The permutation that undoes one; of a matrix in each row.
Expr inverse_permutation(const Arg& permutation);
/// The elements of each row of x in the order of the same row of `order`, or back.
Expr permute_row_elements(const Arg& x, const Arg& order, bool inverse = false);

}  // namespace snug
