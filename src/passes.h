#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "kernel/library.h"
#include "rewrite/rules.h"
#include "target/compile_options.h"

namespace snug {

/// When a pass runs.
enum class PassStage : std::uint8_t {
  Rewrite,  // before nodes have devices: what is computed
  Layout,   // behind placement, before fusion: how it lies in memory
};

/// What a pass may look at besides the graph.
struct PassContext {
  const CompileOptions& options;
  Libraries libraries;
};

struct PassRow {
  std::string_view name;
  PassStage stage;
  /// The graph it makes, or nothing if there was nothing to do.
  std::optional<Graph> (*run)(const Graph&, const PassContext&, PassNotes&);
  std::string_view why_here;
  enum class Switch : std::uint8_t {
    Name,      // `disabled_passes` leaves it out
    Required,  // later stages count on it
    Option,    // it runs if `wanted`, which follows from `option`
  };
  Switch by = Switch::Name;
  std::string_view option = {};
  bool (*wanted)(const CompileOptions&) = nullptr;
  bool in_bodies = true;  // also on the bodies of loops
};

/// All passes over graphs, in their order.
std::span<const PassRow> all_passes();

/// What happened, pass by pass; bodies of loops are added to the same rows.
struct PassTrace {
  struct RuleCount {
    std::string rule;
    std::size_t count = 0;
  };
  struct Pass {
    std::string_view name, why_here;
    PassStage stage = PassStage::Rewrite;
    bool skipped = false;   // disabled by name
    bool unwanted = false;  // by the options
    double seconds = 0;
    std::size_t nodes_before = 0, nodes_after = 0;
    std::vector<RuleCount> rules;
    std::string note;
    std::string graph;  // of the outer graph; empty if the pass changed nothing
  };
  std::vector<Pass> passes;  // one per row of all_passes()
  /// One line per pass of a stage, with what it did below it; all stages if none is given.
  std::string describe(std::optional<PassStage> stage = {}) const;
};

struct PassOptions {
  bool verify = true;        // check the graph after each pass that changed it
  bool keep_graphs = false;  // print the graph into the trace after each pass that changed it
};

/// A trace with a row for each pass. A Value error names a pass in `disabled_passes` that is
/// unknown or has no such switch.
PassTrace begin_passes(const CompileOptions& options);

/// The same function after the passes of a stage, in order. The bodies of loops go through those
/// of `Rewrite` first; those of `Layout` have them when a body is lowered.
Graph run_passes(PassStage stage, const Graph& graph, const PassContext& context, PassTrace& trace,
                 const PassOptions& options = {});

}  // namespace snug
