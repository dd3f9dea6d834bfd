#pragma once
#include <optional>

#include "rewrite/rules.h"

namespace snug {

// The passes, in the order of `kPasses`. Each gives the graph it makes, or nothing if no rule
// fitted. The tables of rules are in the file of the same name.

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

/// The rules of each pass, for listings and tests.
const RuleTable& canonicalize_rules();
const RuleTable& lift_shapes_rules();
const RuleTable& fold_constants_rules();
const RuleTable& stabilize_rules();
const RuleTable& simplify_rules();
const RuleTable& expand_rules();

}  // namespace snug
