#pragma once
#include "ops/functions.h"

/// Functions that arrange, join, stretch and make tensors.
namespace snug {

// ---- axes ----

/// The axes `from` go to the places `to`; the others keep their order.
Expr moveaxis(const Arg& x, const std::vector<std::int64_t>& from,
              const std::vector<std::int64_t>& to);
/// Without these axes, which are broadcastable; without a list, without all that are.
Expr squeeze(const Arg& x, const Axes& axes = {});
/// With new axes until there are 1, 2 or 3, placed as NumPy does.
Expr atleast_1d(const Arg& x);
Expr atleast_2d(const Arg& x);
Expr atleast_3d(const Arg& x);
/// All stretched to one shape.
std::vector<Expr> broadcast_arrays(const std::vector<Expr>& xs, Here where = Here::current());

// ---- parts ----

/// Backwards along axes.
Expr flip(const Arg& x, const Axes& axes = {});
/// Elements move on by `shift` along an axis; those beyond the end come in at the start.
Expr roll(const Arg& x, const Arg& shift, std::optional<std::int64_t> axis = {});
/// k quarter turns in the plane of two axes, from the first to the second.
Expr rot90(const Arg& x, std::int64_t k = 1, std::int64_t axis1 = 0, std::int64_t axis2 = 1);
/// Parts of these sizes along an axis.
std::vector<Expr> split(const Arg& x, const Sizes& sizes, std::int64_t axis = 0);
/// The whole repeated along each axis, aligned at the last one.
Expr tile(const Arg& x, const std::vector<Expr>& repeats);
/// `width[2 * k]` more elements before axis k, `width[2 * k + 1]` behind it. mode: "constant"
/// (`value`), "edge", "reflect", "symmetric" or "wrap", with NumPy's meaning.
Expr pad(const Arg& x, const std::vector<Expr>& width, const std::string& mode = "constant",
         const Arg& value = 0);
/// Differences of neighbours along an axis, n times.
Expr diff(const Arg& x, std::int64_t n = 1, std::int64_t axis = -1);

// ---- joining ----

Expr hstack(const std::vector<Expr>& xs, Here where = Here::current());
Expr vstack(const std::vector<Expr>& xs, Here where = Here::current());
Expr dstack(const std::vector<Expr>& xs, Here where = Here::current());
Expr column_stack(const std::vector<Expr>& xs, Here where = Here::current());

// ---- making ----

/// `count` numbers from start to stop, evenly spaced.
Expr linspace(const Arg& start, const Arg& stop, const Arg& count = 50, bool endpoint = true,
              std::optional<DType> dtype = {});
Expr logspace(const Arg& start, const Arg& stop, const Arg& count = 50, bool endpoint = true,
              double base = 10, std::optional<DType> dtype = {});
/// The coordinates of a grid: one array per vector. indexing: "xy" (the first two axes exchanged)
/// or "ij". Sparse ones have one axis that is not broadcastable.
std::vector<Expr> meshgrid(const std::vector<Expr>& xs, const std::string& indexing = "xy",
                           bool sparse = false, Here where = Here::current());
/// 1 on and below diagonal k, 0 above.
Expr tri(const Arg& n, const Arg& m, std::int64_t k = 0, DType dtype = default_float());
/// The triangular window of n points that starts and ends with 0.
Expr bartlett(const Arg& n, DType dtype = default_float());

}  // namespace snug
