#pragma once
#include "ops/functions.h"

/// Sorting, searching, counting, and sums and products along an axis. An axis left out: the
/// elements in C order.
namespace snug {

/// The sum or product of the elements up to each one. Small integers add up in int64 or uint64.
Expr cumsum(const Arg& x, std::optional<std::int64_t> axis = {});
Expr cumprod(const Arg& x, std::optional<std::int64_t> axis = {});
/// y[k] = a[k] * y[k - 1] + b[k] along an axis, from y[0] = b[0].
Expr linear_recurrence(const Arg& a, const Arg& b, std::int64_t axis = 0);

/// In ascending order, nan last.
Expr sort(const Arg& x, std::optional<std::int64_t> axis = -1);
/// The places that sort x; equal elements keep their order.
Expr argsort(const Arg& x, std::optional<std::int64_t> axis = -1);
/// The k largest elements, the largest first, and their places; of a negative k the -k smallest,
/// the smallest first.
std::vector<Expr> topk_and_argtopk(const Arg& x, const Arg& k,
                                   std::optional<std::int64_t> axis = -1);
Expr topk(const Arg& x, const Arg& k, std::optional<std::int64_t> axis = -1);
Expr argtopk(const Arg& x, const Arg& k, std::optional<std::int64_t> axis = -1);
Expr median(const Arg& x, std::optional<std::int64_t> axis = {}, bool keepdims = false);

/// Where to insert the elements of v into the sorted vector x so that it stays sorted: before equal
/// elements (side "left") or behind them ("right"). `sorter`: the places that sort x.
Expr searchsorted(const Arg& x, const Arg& v, const std::string& side = "left",
                  const Expr& sorter = {});
/// How often 0, 1, ... occur in x, a vector of integers that are not negative; with weights, their
/// sums. The result has at least `minlength` elements.
Expr bincount(const Arg& x, const Expr& weights = {}, const Expr& minlength = {});
/// The different elements of x in ascending order.
struct UniqueResult {
  Expr values;
  Expr index;    // the first place of each in x, counted in C order
  Expr inverse;  // for each element of x, in C order, its place among the values
  Expr counts;   // how often each occurs
};
UniqueResult unique(const Arg& x);

/// Each element `repeats` times along an axis: a number, or a vector of one number per element.
Expr repeat(const Arg& x, const Arg& repeats, std::optional<std::int64_t> axis = {});

}  // namespace snug
