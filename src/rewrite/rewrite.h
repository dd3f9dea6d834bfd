#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "rewrite/passes.h"

namespace snug {

struct RewriteOptions {
  std::vector<std::string> disabled_passes = {};
  bool verify = true;        // check the graph after each pass that changed it
  bool keep_graphs = false;  // print the graph into the trace after each pass that changed it
};

/// What happened, pass by pass; inner graphs of loops are added to the same rows.
struct RewriteTrace {
  struct RuleCount {
    std::string rule;
    std::size_t count = 0;
  };
  struct Pass {
    std::string name, why_here;
    bool skipped = false;  // disabled by name
    double seconds = 0;
    std::size_t nodes_before = 0, nodes_after = 0;
    std::vector<RuleCount> rules;
    std::string graph;  // of the outer graph; empty if the pass changed nothing
  };
  std::vector<Pass> passes;
  /// One line per pass, with the rules that fired below it.
  std::string describe() const;
};

struct PassRow {
  std::string_view name;
  std::optional<Graph> (*run)(const Graph&, RuleCounts&);
  std::string_view why_here;
  bool required = false;  // later stages count on it: it cannot be disabled
};

/// All passes in their order.
std::span<const PassRow> rewrite_passes();

/// The same function in a better form. Inner graphs of loops first, then the passes in order.
/// A Value error names an unknown pass in `disabled_passes`.
Graph rewrite(const Graph& graph, const RewriteOptions& options, RewriteTrace& trace);

}  // namespace snug
