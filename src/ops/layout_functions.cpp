#include "ops/layout_functions.h"

#include <algorithm>
#include <numeric>

#include "ops/arguments.h"
#include "ops/index_functions.h"

namespace snug {
namespace {

Expr with_new_axes(const Expr& x, const std::vector<std::int64_t>& pattern) {
  return dimshuffle(x, pattern);
}

std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

/// x with the sizes of one axis replaced.
std::vector<Expr> sizes_with(const Expr& x, std::int64_t axis, const Expr& size) {
  std::vector<Expr> sizes;
  for (int k = 0; k < x.ndim(); ++k) sizes.push_back(k == axis ? size : shape_i(x, k));
  return sizes;
}

Expr integer(const char* what, const Expr& x) {
  require_expr(what, x);
  if (x.ndim() != 0 || !is_discrete(x.dtype()))
    fail(Fault::Type, fmt::format("{}: a number of elements is a 0-d integer, not {}", what,
                                  snug::describe(x.type())));
  return cast(x, DType::I64);
}

bool is_constant(const Expr& x, std::int64_t value) {
  const Array* a = constant_value(x);
  return a && a->at_int(0) == value;
}

}  // namespace

// ---- axes ----

Expr moveaxis(const Arg& x, const std::vector<std::int64_t>& from,
              const std::vector<std::int64_t>& to) {
  Scope scope(x);
  require_expr("moveaxis", x.expr);
  if (from.size() != to.size())
    fail(Fault::Value, fmt::format("moveaxis: {} axes for {} places", from.size(), to.size()));
  const int ndim = x.expr.ndim();
  std::vector<std::int64_t> pattern(static_cast<std::size_t>(ndim), -1);
  std::vector<bool> moved(static_cast<std::size_t>(ndim), false);
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::int64_t a = normal_axis("moveaxis", from[k], ndim);
    const std::int64_t b = normal_axis("moveaxis", to[k], ndim);
    if (moved[at(a)] || pattern[at(b)] >= 0) fail(Fault::Value, "moveaxis: an axis is given twice");
    moved[at(a)] = true;
    pattern[at(b)] = a;
  }
  std::int64_t next = 0;
  for (std::int64_t& p : pattern) {
    if (p >= 0) continue;
    while (moved[at(next)]) ++next;
    p = next++;
  }
  return dimshuffle(x, pattern);
}

Expr squeeze(const Arg& x, const Axes& axes) {
  Scope scope(x);
  require_expr("squeeze", x.expr);
  const int ndim = x.expr.ndim();
  std::vector<bool> drop(static_cast<std::size_t>(ndim), false);
  for (int k = 0; axes.all && k < ndim; ++k) drop[at(k)] = x.expr.type().broadcastable(at(k));
  for (std::int64_t given : axes.list) {
    const std::int64_t a = normal_axis("squeeze", given, ndim);
    if (!x.expr.type().broadcastable(at(a)))
      fail(Fault::Type,
           fmt::format("squeeze: axis {} of {} does not always have size 1", given,
                       snug::describe(x.expr.type())),
           fmt::format("if it has, say so: squeeze(addbroadcast(x, {}), {})", a, given));
    drop[at(a)] = true;
  }
  std::vector<std::int64_t> pattern;
  for (int k = 0; k < ndim; ++k)
    if (!drop[at(k)]) pattern.push_back(k);
  return dimshuffle(x, pattern);
}

Expr atleast_1d(const Arg& x) {
  Scope scope(x);
  require_expr("atleast_1d", x.expr);
  return x.expr.ndim() == 0 ? with_new_axes(x.expr, {-1}) : x.expr;
}

Expr atleast_2d(const Arg& x) {
  Scope scope(x);
  require_expr("atleast_2d", x.expr);
  if (x.expr.ndim() == 0) return with_new_axes(x.expr, {-1, -1});
  return x.expr.ndim() == 1 ? with_new_axes(x.expr, {-1, 0}) : x.expr;
}

Expr atleast_3d(const Arg& x) {
  Scope scope(x);
  require_expr("atleast_3d", x.expr);
  switch (x.expr.ndim()) {
    case 0: return with_new_axes(x.expr, {-1, -1, -1});
    case 1: return with_new_axes(x.expr, {-1, 0, -1});
    case 2: return with_new_axes(x.expr, {0, 1, -1});
    default: return x.expr;
  }
}

std::vector<Expr> broadcast_arrays(const std::vector<Expr>& xs, Here where) {
  Scope scope(where);
  if (xs.empty()) return {};
  Expr all;  // only its sizes are used
  for (const Expr& x : xs) {
    require_expr("broadcast_arrays", x);
    const Expr one = cast(x, DType::Bool);
    all = all ? bit_or(all, one) : one;
  }
  std::vector<Expr> out;
  for (const Expr& x : xs) {
    const bool same = x.ndim() == all.ndim() && x.type().broadcast == all.type().broadcast;
    out.push_back(same ? x
                       : apply(ops::broadcast_to, {x, shape(all)},
                               {{"broadcast", std::int64_t{all.type().broadcast}}}));
  }
  return out;
}

// ---- parts ----

Expr flip(const Arg& x, const Axes& axes) {
  Scope scope(x);
  require_expr("flip", x.expr);
  std::vector<IndexItem> items(static_cast<std::size_t>(x.expr.ndim()));
  const IndexItem backwards = IndexItem::range({}, {}, Expr(-1));
  if (axes.all) std::fill(items.begin(), items.end(), backwards);
  for (std::int64_t a : axes.list) items[at(normal_axis("flip", a, x.expr.ndim()))] = backwards;
  return subtensor(x, items);
}

Expr roll(const Arg& x, const Arg& shift, std::optional<std::int64_t> axis) {
  Scope scope(x);
  require_expr("roll", x.expr);
  if (!axis) return ops::reshape_like(roll(flatten(x), shift, 0), x.expr);
  const std::int64_t a = normal_axis("roll", *axis, x.expr.ndim());
  if (x.expr.type().broadcastable(at(a))) return x.expr;
  const Expr size = shape_i(x, a);
  // Of an empty axis nothing moves.
  const Expr start = size - mod(integer("roll", shift.expr), maximum(size, int64_constant(1)));
  return concatenate({slice_axis(x, a, start, {}), slice_axis(x, a, {}, start)}, a);
}

Expr rot90(const Arg& x, std::int64_t k, std::int64_t axis1, std::int64_t axis2) {
  Scope scope(x);
  require_expr("rot90", x.expr);
  const std::int64_t a = normal_axis("rot90", axis1, x.expr.ndim());
  const std::int64_t b = normal_axis("rot90", axis2, x.expr.ndim());
  if (a == b) fail(Fault::Value, "rot90: the two axes are the same");
  switch ((k % 4 + 4) % 4) {
    case 1: return swapaxes(flip(x, b), a, b);
    case 2: return flip(x, Axes{a, b});
    case 3: return flip(swapaxes(x, a, b), b);
    default: return x.expr;
  }
}

std::vector<Expr> split(const Arg& x, const Sizes& sizes, std::int64_t axis) {
  Scope scope(x);
  require_expr("split", x.expr);
  axis = normal_axis("split", axis, x.expr.ndim());
  const std::size_t count = sizes.ndim();
  if (count == 0) fail(Fault::Value, "split: there are no parts");
  std::vector<Expr> parts;
  Expr start;
  for (std::size_t k = 0; k < count; ++k) {
    const Expr size = subtensor(sizes.vector, {IndexItem(static_cast<int>(k))});
    const bool last = k + 1 == count;
    const Expr stop = last ? Expr() : start ? start + size : size;
    Expr part = slice_axis(x, axis, start, stop);
    // The sizes add up to that of the axis.
    if (last)
      part = apply(
          ops::broadcast_to, {part, make_vector(sizes_with(part, axis, size))},
          {{"broadcast", std::int64_t{part.type().broadcast}}, {"for", std::string("split")}});
    parts.push_back(part);
    start = stop;
  }
  return parts;
}

Expr tile(const Arg& x, const std::vector<Expr>& repeats) {
  Scope scope(x);
  require_expr("tile", x.expr);
  const int ndim = std::max(x.expr.ndim(), static_cast<int>(repeats.size()));
  std::vector<std::int64_t> pattern(at(ndim - x.expr.ndim()), -1);
  for (int k = 0; k < x.expr.ndim(); ++k) pattern.push_back(k);
  Expr out = dimshuffle(x, pattern);
  const int first = ndim - static_cast<int>(repeats.size());
  for (int k = first; k < ndim; ++k) {
    const Expr times = integer("tile", repeats[at(k - first)]);
    if (is_constant(times, 1)) continue;
    const Expr size = shape_i(out, k);
    if (out.type().broadcastable(at(k))) {  // one element stretches
      out = broadcast_to(out, sizes_with(out, k, times));
      continue;
    }
    std::vector<Expr> wide = sizes_with(out, k, size);
    wide.insert(wide.begin() + k, times);
    const std::uint8_t kept = out.type().broadcast;
    const std::vector<Expr> joined = sizes_with(out, k, size * times);
    out = rebroadcast(reshape(broadcast_to(expand_dims(out, k), wide), joined), kept);
  }
  return out;
}

namespace {
/// The place on an axis of size n that element i of it, counted beyond its ends, shows.
Expr shown_place(const std::string& mode, const Expr& i, const Expr& n) {
  const Expr one = int64_constant(1);
  if (mode == "edge") return clip(i, int64_constant(0), n - 1);
  if (mode == "wrap") return mod(i, n);
  if (mode == "symmetric") {
    const Expr m = mod(i, n * 2);
    return minimum(m, n * 2 - 1 - m);
  }
  if (mode == "reflect") {
    const Expr turn = n * 2 - 2, m = mod(i, maximum(turn, one));
    return minimum(m, turn - m);
  }
  fail(Fault::Value, fmt::format("pad: there is no mode '{}'", mode),
       "choose 'constant', 'edge', 'reflect', 'symmetric' or 'wrap'");
}
}  // namespace

Expr pad(const Arg& x, const std::vector<Expr>& width, const std::string& mode, const Arg& value) {
  Scope scope(x);
  require_expr("pad", x.expr);
  const int ndim = x.expr.ndim();
  if (width.size() != at(2 * ndim))
    fail(Fault::Value,
         fmt::format("pad: {} widths for a value of {} dimensions", width.size(), ndim),
         "give a pair (before, after) per axis");
  for (const Expr& w : width) {
    integer("pad", w);
    if (const Array* known = constant_value(w); known && known->at_int(0) < 0)
      fail(Fault::Value,
           fmt::format("pad: a width is {}, it must not be negative", known->at_int(0)));
  }
  if (mode == "constant") {
    std::vector<Expr> sizes;
    std::vector<IndexItem> items;
    for (int k = 0; k < ndim; ++k) {
      const Expr before = integer("pad", width[at(2 * k)]), size = shape_i(x, k);
      sizes.push_back(before + size + integer("pad", width[at(2 * k + 1)]));
      items.push_back(IndexItem::range(before, before + size));
    }
    return set_subtensor(broadcast_to(cast(value, x.expr.dtype()), sizes), items, x);
  }
  Expr out = x.expr;
  for (int k = 0; k < ndim; ++k) {
    const Expr before = integer("pad", width[at(2 * k)]),
               after = integer("pad", width[at(2 * k + 1)]);
    if (is_constant(before, 0) && is_constant(after, 0)) continue;
    const Expr n = shape_i(out, k);
    out = take(out, shown_place(mode, arange(0 - before, n + after), n), k);
  }
  return out;
}

Expr diff(const Arg& x, std::int64_t n, std::int64_t axis) {
  Scope scope(x);
  require_expr("diff", x.expr);
  if (n < 0) fail(Fault::Value, fmt::format("diff: n is {}, it must not be negative", n));
  axis = normal_axis("diff", axis, x.expr.ndim());
  Expr out = x.expr;
  for (; n > 0; --n) {
    const Expr later = slice_axis(out, axis, Expr(1), {}),
               earlier = slice_axis(out, axis, {}, Expr(-1));
    out = out.dtype() == DType::Bool ? ne(later, earlier) : later - earlier;
  }
  return out;
}

// ---- joining ----

namespace {
std::vector<Expr> each(std::vector<Expr> xs, Expr (*f)(const Arg&)) {
  for (const Expr& x : xs) require_expr("stack", x);
  widen_numbers(xs);
  for (Expr& x : xs) x = f(x);
  return xs;
}
}  // namespace

Expr hstack(const std::vector<Expr>& xs, Here where) {
  Scope scope(where);
  const std::vector<Expr> wide = each(xs, atleast_1d);
  return concatenate(wide, !wide.empty() && wide[0].ndim() == 1 ? 0 : 1);
}

Expr vstack(const std::vector<Expr>& xs, Here where) {
  Scope scope(where);
  return concatenate(each(xs, atleast_2d), 0);
}

Expr dstack(const std::vector<Expr>& xs, Here where) {
  Scope scope(where);
  return concatenate(each(xs, atleast_3d), 2);
}

Expr column_stack(const std::vector<Expr>& xs, Here where) {
  Scope scope(where);
  return concatenate(
      each(xs, [](const Arg& x) { return x.expr.ndim() < 2 ? transpose(atleast_2d(x)) : x.expr; }),
      1);
}

// ---- making ----

Expr linspace(const Arg& start, const Arg& stop, const Arg& count, bool endpoint,
              std::optional<DType> dtype) {
  Scope scope(start);
  require_expr("linspace", start.expr);
  require_expr("linspace", stop.expr);
  const Expr n = integer("linspace", count.expr), one = int64_constant(1);
  DType out = upcast(start.expr.dtype(), stop.expr.dtype());
  if (!is_float(out)) out = default_float();
  const Expr first = cast(start, DType::F64), last = cast(stop, DType::F64);
  const Expr steps = endpoint ? maximum(n - 1, one) : maximum(n, one);
  const Expr k = arange(n);
  const Expr weight = cast(k, DType::F64) / cast(steps, DType::F64);
  Expr values = first + (last - first) * weight;
  // The last one is exact.
  if (endpoint) values = switch_(bit_and(eq(k, steps), gt(n, one)), last, values);
  return cast(values, dtype.value_or(out));
}

Expr logspace(const Arg& start, const Arg& stop, const Arg& count, bool endpoint, double base,
              std::optional<DType> dtype) {
  Scope scope(start);
  const Expr exponents = linspace(start, stop, count, endpoint);
  const Expr values = pow(typed_number(base, DType::F64), cast(exponents, DType::F64));
  return cast(values, dtype.value_or(exponents.dtype()));
}

std::vector<Expr> meshgrid(const std::vector<Expr>& xs, const std::string& indexing, bool sparse,
                           Here where) {
  Scope scope(where);
  if (indexing != "xy" && indexing != "ij")
    fail(Fault::Value, fmt::format("meshgrid: there is no indexing '{}'", indexing),
         "choose 'xy' or 'ij'");
  std::vector<Expr> grid;
  for (std::size_t k = 0; k < xs.size(); ++k) {
    require_expr("meshgrid", xs[k]);
    if (xs[k].ndim() > 1)
      fail(Fault::Type,
           fmt::format("meshgrid: takes vectors, not {}", snug::describe(xs[k].type())));
    const std::size_t axis = indexing == "xy" && xs.size() > 1 && k < 2 ? 1 - k : k;
    std::vector<std::int64_t> pattern(xs.size(), -1);
    pattern[axis] = 0;
    grid.push_back(dimshuffle(atleast_1d(xs[k]), pattern));
  }
  return sparse ? grid : broadcast_arrays(grid);
}

Expr tri(const Arg& n, const Arg& m, std::int64_t k, DType dtype) {
  Scope scope(n);
  const Expr rows = arange(n), columns = arange(m);
  const Expr number = dimshuffle(columns, {-1, 0}) - dimshuffle(rows, {0, -1});
  return cast(le(number, int64_constant(k)), dtype);
}

Expr bartlett(const Arg& n, DType dtype) {
  Scope scope(n);
  const Expr size = integer("bartlett", n.expr), one = int64_constant(1);
  const Expr k = cast(arange(size), DType::F64);
  const Expr half = cast(maximum(size - 1, one), DType::F64) * 0.5;
  const Expr rising = k / half;
  const Expr window = switch_(le(k, half), rising, typed_number(2, DType::F64) - rising);
  return cast(switch_(eq(size, one), typed_number(1, DType::F64), window), dtype);
}

}  // namespace snug
