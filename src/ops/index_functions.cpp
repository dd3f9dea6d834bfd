#include "ops/index_functions.h"

#include <algorithm>

#include "ops/arguments.h"
#include "ops/layout_functions.h"

namespace snug {
namespace {

void require_integers(const char* what, const Expr& x) {
  require_expr(what, x);
  if (!is_discrete(x.dtype()))
    fail(Fault::Type, fmt::format("{}: indices are integers, not {}", what, name_of(x.dtype())),
         "cast them to int64");
}

/// Places on an axis of a size, none of them outside. "raise" leaves the check to the indexing.
Expr placed(const char* what, const Expr& indices, const Expr& size, const std::string& mode) {
  require_integers(what, indices);
  const Expr i = cast(indices, DType::I64);
  if (mode == "raise") return i;
  if (mode == "wrap") return mod(i, size);
  if (mode == "clip") return clip(i, int64_constant(0), size - 1);
  fail(Fault::Value, fmt::format("{}: there is no mode '{}'", what, mode),
       "choose 'raise', 'wrap' or 'clip'");
}

/// As above, but "raise" refuses negative ones, too.
Expr strictly_placed(const char* what, const Expr& indices, const Expr& size,
                     const std::string& mode) {
  const Expr i = placed(what, indices, size, mode);
  if (mode != "raise") return i;
  return apply(ops::check_index, {i, size}, {{"for", std::string(what)}});
}

/// x[items] is the element of each line of x that `indices` names.
std::vector<IndexItem> along(const Expr& x, const Expr& indices, std::int64_t axis) {
  std::vector<IndexItem> items;
  for (int k = 0; k < x.ndim(); ++k) {
    if (k == axis) {
      items.emplace_back(indices);
      continue;
    }
    std::vector<std::int64_t> pattern(static_cast<std::size_t>(x.ndim()), -1);
    pattern[static_cast<std::size_t>(k)] = 0;
    const bool one = x.type().broadcastable(static_cast<std::size_t>(k));
    items.emplace_back(
        one ? dimshuffle(int64_constant(0),
                         std::vector<std::int64_t>(static_cast<std::size_t>(x.ndim()), -1))
            : dimshuffle(arange(shape_i(x, k)), pattern));
  }
  return items;
}

std::int64_t along_axis(const char* what, const Expr& x, const Expr& indices, std::int64_t axis) {
  require_expr(what, x);
  require_integers(what, indices);
  if (indices.ndim() != x.ndim())
    fail(Fault::Type, fmt::format("{}: indices have {} dimensions, the value has {}", what,
                                  indices.ndim(), x.ndim()));
  return normal_axis(what, axis, x.ndim());
}

/// Row and column numbers of a diagonal of a matrix of these sizes. A positive offset is to the
/// right.
std::pair<Expr, Expr> diagonal_places(const Expr& rows, const Expr& columns, const Expr& offset) {
  const Expr zero = int64_constant(0), k = cast(offset, DType::I64);
  const Expr down = maximum(zero, 0 - k), right = maximum(zero, k);
  const Expr i = arange(maximum(zero, minimum(rows - down, columns - right)));
  return {i + down, i + right};
}

}  // namespace

Expr take(const Arg& x, const Arg& indices, std::optional<std::int64_t> axis,
          const std::string& mode) {
  Scope scope(x);
  require_expr("take", x.expr);
  const Expr from = axis ? x.expr : flatten(x);
  const std::int64_t along = axis ? normal_axis("take", *axis, from.ndim()) : 0;
  std::vector<IndexItem> items(static_cast<std::size_t>(along));
  items.emplace_back(placed("take", indices.expr, shape_i(from, along), mode));
  return subtensor(from, items);
}

Expr take_along_axis(const Arg& x, const Arg& indices, std::int64_t axis) {
  Scope scope(x);
  axis = along_axis("take_along_axis", x.expr, indices.expr, axis);
  return subtensor(x, along(x.expr, indices.expr, axis));
}

Expr put_along_axis(const Arg& x, const Arg& indices, const Arg& y, std::int64_t axis) {
  Scope scope(x);
  axis = along_axis("put_along_axis", x.expr, indices.expr, axis);
  return set_subtensor(x, along(x.expr, indices.expr, axis), y);
}

Expr choose_from(const Arg& which, const Arg& choices, const std::string& mode) {
  Scope scope(which);
  require_expr("choose", choices.expr);
  require_expr("choose", which.expr);
  if (choices.expr.ndim() == 0) fail(Fault::Type, "choose: the choices have no first axis");
  // The axes behind the first one are aligned at the last.
  std::vector<std::int64_t> pattern{0};
  for (int k = choices.expr.ndim(); k <= which.expr.ndim(); ++k) pattern.push_back(-1);
  for (int k = 1; k < choices.expr.ndim(); ++k) pattern.push_back(k);
  const Expr from = dimshuffle(choices, pattern);
  const Expr first = subtensor(from, {IndexItem(0)});
  const std::vector<Expr> both = broadcast_arrays({which.expr, first});
  const Expr place = strictly_placed("choose", both[0], shape_i(from, 0), mode);
  std::vector<Expr> sizes{shape_i(from, 0)};
  for (int k = 0; k < both[1].ndim(); ++k) sizes.push_back(shape_i(both[1], k));
  const Expr wide = broadcast_to(from, sizes);
  return subtensor(take_along_axis(wide, expand_dims(place, 0), 0), {IndexItem(0)});
}

Expr choose(const Arg& which, const std::vector<Expr>& choices, const std::string& mode) {
  Scope scope(which);
  if (choices.empty()) fail(Fault::Value, "choose: there are no choices");
  return choose_from(which, stack(broadcast_arrays(choices)), mode);
}

Expr compress(const Arg& condition, const Arg& x, std::optional<std::int64_t> axis) {
  Scope scope(x);
  require_expr("compress", condition.expr);
  if (condition.expr.ndim() != 1)
    fail(Fault::Type, fmt::format("compress: the condition is a vector, not {}",
                                  snug::describe(condition.expr.type())));
  return take(x, nonzero(condition)[0], axis);
}

Expr flatnonzero(const Arg& x) {
  Scope scope(x);
  return nonzero(flatten(x))[0];
}

Expr nonzero_values(const Arg& x) {
  Scope scope(x);
  const Expr flat = flatten(x);
  return take(flat, nonzero(flat)[0]);
}

Expr count_nonzero(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  require_expr("count_nonzero", x.expr);
  return sum(ne(x, typed_number(0, x.expr.dtype())), axes, keepdims);
}

// ---- diagonals ----

Expr diagonal(const Arg& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  Scope scope(x);
  require_expr("diagonal", x.expr);
  const Expr last = moveaxis(x, {axis1, axis2}, {-2, -1});
  auto [rows, columns] =
      diagonal_places(shape_i(last, -2), shape_i(last, -1), int64_constant(offset));
  return subtensor(last, {IndexItem::ellipsis(), IndexItem(rows), IndexItem(columns)});
}

Expr alloc_diagonal(const Arg& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  Scope scope(x);
  require_expr("diag", x.expr);
  if (x.expr.ndim() == 0) fail(Fault::Type, "diag: a value of 0 dimensions has no diagonal");
  const Expr side = shape_i(x, -1) + int64_constant(std::abs(offset));
  std::vector<Expr> sizes;
  for (int k = 0; k + 1 < x.expr.ndim(); ++k) sizes.push_back(shape_i(x, k));
  sizes.push_back(side);
  sizes.push_back(side);
  const Expr zeros = broadcast_to(typed_number(0, x.expr.dtype()), sizes);
  auto [rows, columns] = diagonal_places(side, side, int64_constant(offset));
  const Expr filled =
      set_subtensor(zeros, {IndexItem::ellipsis(), IndexItem(rows), IndexItem(columns)}, x);
  return moveaxis(filled, {-2, -1}, {axis1, axis2});
}

Expr diag(const Arg& x, std::int64_t k) {
  Scope scope(x);
  require_expr("diag", x.expr);
  if (x.expr.ndim() == 1) return alloc_diagonal(x, k);
  if (x.expr.ndim() == 2) return diagonal(x, k);
  fail(Fault::Type,
       fmt::format("diag: takes a vector or a matrix, not {}", snug::describe(x.expr.type())),
       "diagonal takes more dimensions");
}

Expr fill_diagonal(const Arg& x, const Arg& value) {
  Scope scope(x);
  require_expr("fill_diagonal", x.expr);
  if (x.expr.ndim() < 2)
    fail(Fault::Type, fmt::format("fill_diagonal: {} dimensions have no diagonal", x.expr.ndim()));
  if (x.expr.ndim() == 2) return fill_diagonal_offset(x, value, int64_constant(0));
  std::vector<IndexItem> items;
  for (int k = 0; k < x.expr.ndim(); ++k) items.emplace_back(arange(shape_i(x, k)));
  return set_subtensor(x, items, value);
}

Expr fill_diagonal_offset(const Arg& x, const Arg& value, const Arg& offset) {
  Scope scope(x);
  require_expr("fill_diagonal_offset", x.expr);
  require_integers("fill_diagonal_offset", offset.expr);
  if (x.expr.ndim() != 2)
    fail(Fault::Type, fmt::format("fill_diagonal_offset: takes a matrix, not {}",
                                  snug::describe(x.expr.type())));
  auto [rows, columns] = diagonal_places(shape_i(x, 0), shape_i(x, 1), offset.expr);
  return set_subtensor(x, {IndexItem(rows), IndexItem(columns)}, value);
}

// ---- numbers of elements ----

namespace {
/// The axes from the one that counts slowest on.
std::vector<std::size_t> slow_to_fast(const char* what, std::size_t ndim,
                                      const std::string& order) {
  if (order != "C" && order != "F")
    fail(Fault::Value, fmt::format("{}: there is no order '{}'", what, order), "choose 'C' or 'F'");
  std::vector<std::size_t> axes;
  for (std::size_t k = 0; k < ndim; ++k) axes.push_back(order == "C" ? k : ndim - 1 - k);
  return axes;
}
Expr element(const Sizes& sizes, std::size_t k) {
  return subtensor(sizes.vector, {IndexItem(static_cast<int>(k))});
}
}  // namespace

std::vector<Expr> unravel_index(const Arg& indices, const Sizes& sizes, const std::string& order) {
  Scope scope(indices);
  const auto axes = slow_to_fast("unravel_index", sizes.ndim(), order);
  Expr total = int64_constant(1);
  for (std::size_t k : axes) total = total * element(sizes, k);
  Expr rest = strictly_placed("unravel_index", indices.expr, total, "raise");
  std::vector<Expr> out(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    const Expr size = element(sizes, axes[i]);
    out[axes[i]] = mod(rest, size);
    rest = floor_div(rest, size);
  }
  return out;
}

Expr ravel_multi_index(const std::vector<Expr>& index, const Sizes& sizes, const std::string& mode,
                       const std::string& order) {
  if (index.size() != sizes.ndim())
    fail(Fault::Value, fmt::format("ravel_multi_index: {} index arrays for {} sizes", index.size(),
                                   sizes.ndim()));
  Expr out = int64_constant(0);
  for (std::size_t k : slow_to_fast("ravel_multi_index", sizes.ndim(), order)) {
    const Expr size = element(sizes, k);
    out = out * size + strictly_placed("ravel_multi_index", index[k], size, mode);
  }
  return out;
}

Expr one_hot(const Arg& x, const Arg& n, std::optional<DType> dtype) {
  Scope scope(x);
  require_integers("one_hot", x.expr);
  return cast(eq(expand_dims(x, -1), arange(n)), dtype.value_or(default_float()));
}

Expr inverse_permutation(const Arg& permutation) {
  Scope scope(permutation);
  const Expr& p = permutation.expr;
  require_integers("inverse_permutation", p);
  if (p.ndim() == 0) fail(Fault::Type, "inverse_permutation: a permutation has at least one axis");
  return put_along_axis(zeros_like(p), p, cast(arange(shape_i(p, -1)), p.dtype()));
}

Expr permute_row_elements(const Arg& x, const Arg& order, bool inverse) {
  Scope scope(x);
  require_expr("permute_row_elements", x.expr);
  require_integers("permute_row_elements", order.expr);
  const int ndim = std::max(x.expr.ndim(), order.expr.ndim());
  auto padded = [&](const Expr& e) {
    std::vector<std::int64_t> pattern(static_cast<std::size_t>(ndim - e.ndim()), -1);
    for (int k = 0; k < e.ndim(); ++k) pattern.push_back(k);
    return dimshuffle(e, pattern);
  };
  const Expr places = inverse ? inverse_permutation(order) : order.expr;
  return take_along_axis(padded(x.expr), padded(places), -1);
}

}  // namespace snug
