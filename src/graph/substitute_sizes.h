#pragma once
#include <unordered_map>

#include "graph/graph.h"

namespace snug {

/// The same graph with size symbols replaced by other symbols or by constants (ids of its table).
/// Requirements keep asking for the original symbols, `more` of them are added.
///   x.0 := 60000,  y.0 := x.0
Graph substitute_sizes(const Graph& graph, const std::unordered_map<SizeId, SizeId>& replaced,
                       std::span<const Infer::Requirement> more = {});

}  // namespace snug
