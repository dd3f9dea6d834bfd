#pragma once
#include <optional>

#include "rewrite/rules.h"

namespace snug {

// The passes before placement, in the order of `all_passes()`. Each gives the graph it makes, or
// nothing if no rule fitted. The tables of rules are in the file of the same name.

/// One form for what can be written in several ways.   transpose(transpose(x)) -> x,  1 + x -> x +
/// 1 Gives: constants last and operands by age in commutative ops; no chain of dimshuffles, of
/// broadcasts or of reshapes; no view or cast that changes nothing.
std::optional<Graph> canonicalize(const Graph&, RuleCounts&);

/// Sizes do not keep values alive.   shape(tanh(x)) -> [shape(x)[0], shape(x)[1]]
/// Gives: no `shape` of a computed value, unless its size is decided while running.
std::optional<Graph> lift_shapes(const Graph&, RuleCounts&);

/// A node whose operands are constants becomes its value.   2 + 3 -> 5
/// Skips what is random, may fail, generates, stretches, or has more than kMaxFoldBytes.
std::optional<Graph> fold_constants(const Graph&, RuleCounts&);
inline constexpr std::int64_t kMaxFoldBytes = 1 << 20;

/// Forms that neither overflow nor cancel.   log(softmax(x)) -> log_softmax(x)
/// Needs: canonical form. Results differ only where the old form lost accuracy.
std::optional<Graph> stabilize(const Graph&, RuleCounts&);

/// Algebra that is exact for every value, NaN, infinities, -0 and wrapping integers included.
/// x * 1 -> x,  pow(x, 2) -> sqr(x)
std::optional<Graph> simplify(const Graph&, RuleCounts&);

/// relu works on what max_pool leaves.   max_pool(relu(x)) -> relu(max_pool(x))
/// Exact. Gradients are taken of this form, so no image of full size is kept for them.
std::optional<Graph> relu_behind_pool(const Graph&, RuleCounts&);

/// max_pool writes no index that nobody reads.   max_pool(x) -> max_pool(x, without_index)
/// Gives: an index only where a gradient asks for it.
std::optional<Graph> pool_without_index(const Graph&, RuleCounts&);

/// Ops that exist for the sake of the rules before become loops.   softmax(x) -> exp(x - max(x)) /
/// ..
std::optional<Graph> expand(const Graph&, RuleCounts&);

/// Products and convolutions of float32 done in bfloat16, which some CPUs do many times as fast:
/// dot(a, b) -> float32(dot(bfloat16(a), bfloat16(b)))
/// Sums stay float32, and so does all else, parameters and their updates included. Lossy: only if
/// asked for.
std::optional<Graph> multiply_in_bfloat16(const Graph&, RuleCounts&);

/// The batch runs in `count` slices of equal size (the last may be smaller): what depends on its
/// rows becomes a loop over slices, so that it needs the memory of one.
/// sum(f(x)) -> loop over rows b of x: s = s + sum(f(b))
/// Sums over the batch are added up slice by slice, so they round differently; random numbers are
/// the same. The batch is axis 0 of the first argument that has an axis, and of all values of its
/// size; with no such argument, axis 0 of the slices of shared variables (`data[i*n:(i+1)*n]`).
/// A Value error names what needs more than its own row (batch normalisation, a sort of rows).
/// Needs: lifted sizes, and ops with a rule for slices.
std::optional<Graph> split_batch(const Graph&, std::int64_t count, PassNotes&);

/// The rules of each pass, for listings and tests.
const RuleTable& canonicalize_rules();
const RuleTable& lift_shapes_rules();
const RuleTable& fold_constants_rules();
const RuleTable& stabilize_rules();
const RuleTable& simplify_rules();
const RuleTable& expand_rules();

}  // namespace snug
