#pragma once
#include "graph/graph.h"

namespace snug {

/// The same function with products and convolutions of float32 done in bfloat16, which some CPUs do
/// many times as fast: their operands are rounded, sums are float32, the result is rounded. All
/// else, parameters and their updates included, stays float32. Lossy: only if asked for.
Graph multiply_in_bfloat16(const Graph& graph);

}  // namespace snug
