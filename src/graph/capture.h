#pragma once
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace snug {

struct CaptureArgs {
  std::span<const Expr> inputs, outputs;
  std::span<const std::pair<Expr, Expr>> updates = {}, givens = {};
  bool default_updates = true;
};

struct Captured {
  Graph graph;             // inputs: the arguments in order, then the shared variables by id
  std::vector<bool> used;  // per argument: something depends on it
  /// Expressions whose values decide sizes without a bound: they must run first, as a stage.
  std::vector<Expr> stages;
};

/// Copies what a function reaches into a Graph. Equal nodes merge; requirements that follow from
/// the shape rules are recorded and used to make sizes equal. Errors: missing inputs, cyclic
/// givens, updates that do not fit.
Captured capture(const CaptureArgs& args);

}  // namespace snug
