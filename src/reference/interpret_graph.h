#pragma once
#include <functional>
#include <span>
#include <vector>

#include "expr/evaluate_sizes.h"
#include "graph/graph.h"

namespace snug {

struct InterpretOptions {
  /// Called after each node of the outer graph that is no input, with its outputs.
  std::function<void(std::uint32_t node, std::span<const RefTensor> outputs)> on_node = {};
};

/// Runs a graph node by node, floats in double, integers exactly: the oracle of every other way to
/// run it. `inputs` are all of graph.inputs(), shared variables included. Gives the outputs, then
/// the values of the updates. Throws what a compiled call would: Shape errors first, then what a
/// node raises, each at the line of the user's code.
std::vector<RefTensor> interpret(const Graph& graph, const std::vector<RefTensor>& inputs,
                                 const InterpretOptions& options = {});

/// Runs one node that is no input. `shapes` are those of its outputs, run-time sizes at their
/// bound; the results have the actual ones.
std::vector<RefTensor> interpret_node(const Node& node, std::span<const RefTensor* const> inputs,
                                      std::span<const Dims> shapes);

}  // namespace snug
