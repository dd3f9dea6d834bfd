#include "ops/sort_functions.h"

#include "ops/arguments.h"
#include "ops/index_functions.h"

namespace snug {
namespace {

/// x and the axis to work along: without one, x in one line.
struct Line {
  Expr x;
  std::int64_t axis;
};
Line line_of(const char* what, const Expr& x, std::optional<std::int64_t> axis) {
  require_expr(what, x);
  if (!axis) return {flatten(x), 0};
  return {x, normal_axis(what, *axis, x.ndim())};
}

Expr cumulate(const OpDef& op, const Expr& x, std::optional<std::int64_t> axis) {
  Line line = line_of(op.name.data(), x, axis);
  return apply(op, {cast(line.x, sum_dtype(x.dtype()))}, {{"axis", line.axis}, {"reverse", false}});
}

void require_vector(const char* what, const Expr& x) {
  require_expr(what, x);
  if (x.ndim() != 1)
    fail(Fault::Type, fmt::format("{}: takes a vector, not {}", what, snug::describe(x.type())));
}

void require_integers(const char* what, const Expr& x) {
  if (!is_discrete(x.dtype()))
    fail(Fault::Type, fmt::format("{}: takes integers, not {}", what, name_of(x.dtype())),
         "cast them to int64");
}

/// x, after a check that its integers are not negative.
Expr nonnegative(const char* what, const Expr& x) {
  return apply(ops::check_index, {x, int64_constant(INT64_MAX)}, {{"for", std::string(what)}});
}

}  // namespace

Expr cumsum(const Arg& x, std::optional<std::int64_t> axis) {
  Scope scope(x);
  return cumulate(ops::cumsum, x.expr, axis);
}

Expr cumprod(const Arg& x, std::optional<std::int64_t> axis) {
  Scope scope(x);
  return cumulate(ops::cumprod, x.expr, axis);
}

Expr linear_recurrence(const Arg& a, const Arg& b, std::int64_t axis) {
  Scope scope(a);
  require_expr("linear_recurrence", a.expr);
  require_expr("linear_recurrence", b.expr);
  const DType dtype = sum_dtype(upcast(a.expr.dtype(), b.expr.dtype()));
  return apply(
      ops::linear_recurrence, {cast(a, dtype), cast(b, dtype)},
      {{"axis", normal_axis("linear_recurrence", axis, a.expr.ndim())}, {"reverse", false}});
}

Expr sort(const Arg& x, std::optional<std::int64_t> axis) {
  Scope scope(x);
  Line line = line_of("sort", x.expr, axis);
  return apply(ops::sort, {line.x}, {{"axis", line.axis}});
}

Expr argsort(const Arg& x, std::optional<std::int64_t> axis) {
  Scope scope(x);
  Line line = line_of("argsort", x.expr, axis);
  return apply(ops::argsort, {line.x}, {{"axis", line.axis}});
}

Expr argtopk(const Arg& x, const Arg& k, std::optional<std::int64_t> axis) {
  Scope scope(x);
  Line line = line_of("topk", x.expr, axis);
  require_expr("topk", k.expr);
  if (k.expr.ndim() != 0 || !is_discrete(k.expr.dtype()))
    fail(Fault::Type, fmt::format("topk: the number of elements is a 0-d integer, not {}",
                                  snug::describe(k.expr.type())));
  if (const Array* known = constant_value(k.expr); known && known->at_int(0) == 0)
    fail(Fault::Value, "topk: the number of elements must not be 0");
  return apply(ops::argtopk, {line.x, cast(k, DType::I64)}, {{"axis", line.axis}});
}

std::vector<Expr> topk_and_argtopk(const Arg& x, const Arg& k, std::optional<std::int64_t> axis) {
  Scope scope(x);
  Line line = line_of("topk", x.expr, axis);
  Expr places = argtopk(line.x, k, line.axis);
  return {take_along_axis(line.x, places, line.axis), places};
}

Expr topk(const Arg& x, const Arg& k, std::optional<std::int64_t> axis) {
  Scope scope(x);
  return topk_and_argtopk(x, k, axis)[0];
}

Expr median(const Arg& x, std::optional<std::int64_t> axis, bool keepdims) {
  Scope scope(x);
  Line line = line_of("median", x.expr, axis);
  const Expr sorted = sort(line.x, line.axis), n = shape_i(line.x, line.axis);
  auto at = [&](const Expr& place) { return slice_axis(sorted, line.axis, place, place + 1); };
  Expr middle =
      mean(concatenate({at(floor_div(n - 1, 2)), at(floor_div(n, 2))}, line.axis), Axes(line.axis));
  if (is_float(x.expr.dtype())) {  // nan comes last: a line with one has no median
    const Expr last = max(at(n - 1), Axes(line.axis));
    middle = switch_(isnan(last), last, middle);
  }
  if (!keepdims) return middle;
  if (axis) return expand_dims(middle, line.axis);
  return dimshuffle(middle, std::vector<std::int64_t>(static_cast<std::size_t>(x.expr.ndim()), -1));
}

Expr searchsorted(const Arg& x, const Arg& v, const std::string& side, const Expr& sorter) {
  Scope scope(x);
  require_vector("searchsorted", x.expr);
  require_expr("searchsorted", v.expr);
  if (side != "left" && side != "right")
    fail(Fault::Value, fmt::format("searchsorted: there is no side '{}'", side),
         "choose 'left' or 'right'");
  Expr sorted = x.expr;
  if (sorter) {
    require_vector("searchsorted", sorter);
    require_integers("searchsorted", sorter);
    sorted = take(sorted, sorter);
  }
  const DType dtype = upcast(x.expr.dtype(), v.expr.dtype());
  return apply(ops::searchsorted, {cast(sorted, dtype), cast(v, dtype)},
               {{"right", side == "right"}});
}

Expr bincount(const Arg& x, const Expr& weights, const Expr& minlength) {
  Scope scope(x);
  require_vector("bincount", x.expr);
  require_integers("bincount", x.expr);
  const Expr places = nonnegative("bincount", x.expr);
  // An empty x has no largest element; minlength - 1 is one more.
  const Expr least =
      minlength ? maximum(cast(minlength, DType::I64), int64_constant(0)) - 1 : int64_constant(-1);
  const Expr size = max(concatenate({cast(x, DType::I64), make_vector({least})})) + 1;
  const Expr ones = weights ? weights : ones_like(places);
  if (weights) require_vector("bincount", weights);
  const Expr zeros = broadcast_to(typed_number(0, sum_dtype(ones.dtype())), {size});
  return apply(ops::scatter_add, {zeros, cast(ones, zeros.dtype()), places});
}

UniqueResult unique(const Arg& x) {
  Scope scope(x);
  require_expr("unique", x.expr);
  const Expr flat = flatten(x), order = argsort(flat);
  const Expr sorted = take(flat, order);
  const Expr left = slice_axis(sorted, 0, {}, Expr(-1)), right = slice_axis(sorted, 0, Expr(1), {});
  Expr differs = ne(left, right);
  if (is_float(flat.dtype()))
    differs = bit_and(differs, invert(bit_and(isnan(left), isnan(right))));
  // The first element is new; there may be none.
  const Expr first = ones_like(slice_axis(sorted, 0, {}, Expr(1)), DType::Bool);
  const Expr is_new = concatenate({first, differs});
  const Expr starts = nonzero(is_new)[0], size = make_vector({shape_i(flat, 0)});
  UniqueResult r;
  r.values = take(sorted, starts);
  r.index = take(order, starts);
  r.inverse = set_subtensor(zeros_like(order), {IndexItem(order)}, cumsum(is_new) - 1);
  r.counts = concatenate({slice_axis(starts, 0, Expr(1), {}),
                          slice_axis(size, 0, {}, shape_i(starts, 0))}) -
             starts;
  return r;
}

Expr repeat(const Arg& x, const Arg& repeats, std::optional<std::int64_t> axis) {
  Scope scope(x);
  Line line = line_of("repeat", x.expr, axis);
  require_expr("repeat", repeats.expr);
  require_integers("repeat", repeats.expr);
  const Expr& count = repeats.expr;
  if (count.ndim() > 1)
    fail(Fault::Type, fmt::format("repeat: repeats is a number or a vector, not {}",
                                  snug::describe(count.type())));
  if (count.ndim() == 1 && !count.type().broadcastable(0)) {
    // As many numbers as elements.
    const Expr each = apply(ops::broadcast_to, {count, make_vector({shape_i(line.x, line.axis)})},
                            {{"broadcast", std::int64_t{0}}, {"for", std::string("repeat")}});
    const Expr ends = cumsum(nonnegative("repeat", each), 0);
    return take(line.x, searchsorted(ends, arange(sum(each)), "right"), line.axis);
  }
  const Expr times = count.ndim() == 1 ? dimshuffle(count, {}) : count;
  std::vector<Expr> wide, joined;
  for (int i = 0; i < line.x.ndim(); ++i) {
    const Expr size = shape_i(line.x, i);
    wide.push_back(size);
    joined.push_back(i == line.axis ? size * times : size);
    if (i == line.axis) wide.push_back(times);
  }
  const std::uint8_t kept = line.x.type().broadcast & ~(1u << line.axis);
  const Expr stretched = broadcast_to(expand_dims(line.x, line.axis + 1), wide);
  return rebroadcast(reshape(stretched, joined), kept);
}

}  // namespace snug
