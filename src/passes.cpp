#include "passes.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/interrupt.h"
#include "base/spelling.h"
#include "kernel/program.h"
#include "place/place.h"
#include "rewrite/passes.h"

namespace snug {
namespace {

using enum PassStage;
using Switch = PassRow::Switch;

/// A pass that looks at the graph alone.
template <auto pass>
std::optional<Graph> graph_only(const Graph& graph, const PassContext&, PassNotes& notes) {
  return pass(graph, notes.counts);
}

std::optional<Graph> in_slices(const Graph& graph, const PassContext& c, PassNotes& notes) {
  return split_batch(graph, c.options.micro_batches, notes);
}
template <auto pass>
std::optional<Graph> with_library(const Graph& graph, const PassContext& c, PassNotes& notes) {
  return pass(graph, c.libraries, notes.counts);
}
std::optional<Graph> rounded(const Graph& graph, const PassContext& c, PassNotes& notes) {
  return round_activations(graph, c.libraries, {.strict_math = c.options.strict_math},
                           notes.counts);
}

constexpr PassRow kPasses[] = {
    {"canonicalize", Rewrite, graph_only<canonicalize>,
     "first: every later rule is written for one form only"},
    {"lift_shapes", Rewrite, graph_only<lift_shapes>,
     "before folding: sizes that become known are constants for it, and values that only their "
     "shape was asked of disappear before work goes into them"},
    {"fold_constants", Rewrite, graph_only<fold_constants>,
     "before the algebra: its rules look for numbers"},
    {"stabilize", Rewrite, graph_only<stabilize>,
     "before the algebra: it looks for the forms that users and gradients write"},
    {"simplify", Rewrite, graph_only<simplify>,
     "after the forms it could break have been recognised"},
    {"relu_behind_pool", Rewrite, graph_only<relu_behind_pool>,
     "after simplify: it looks for a relu in one form"},
    {"fold_constants", Rewrite, graph_only<fold_constants>,
     "again: what the rules before made of numbers"},
    {"lift_shapes", Rewrite, graph_only<lift_shapes>,
     "again: rules before ask for the shapes of what they replaced"},
    {"expand", Rewrite, graph_only<expand>, "last of the rules: all before see the whole op",
     Switch::Required},
    {"canonicalize", Rewrite, graph_only<canonicalize>,
     "then: equal parts of what was expanded become one node"},
    {"pool_without_index", Rewrite, graph_only<pool_without_index>,
     "after merging: equal pools of a loss and of its gradient are one node by now, and stay so"},
    {"multiply_in_bfloat16", Rewrite, graph_only<multiply_in_bfloat16>,
     "behind the rules, which know products of float32 only", Switch::Option, "precision",
     [](const CompileOptions& o) { return o.bfloat16_products; }},
    {"split_batch", Rewrite, in_slices,
     "last: sizes are lifted, and composite ops have become those with a rule for slices",
     Switch::Option, "micro_batches", [](const CompileOptions& o) { return o.micro_batches > 1; },
     false},
    {"prefer_channels_last", Layout, with_library<prefer_channels_last>,
     "first: it changes what library calls read and which copies they need"},
    {"absorb_bias", Layout, with_library<absorb_bias>,
     "before the copies: it changes what library calls read"},
    {"insert_copies", Layout, with_library<insert_copies>,
     "after all that changes library calls, whose operands it copies where they must be",
     Switch::Required},
    {"round_activations", Layout, rounded,
     "last: it fuses the graph to see what is kept for the backward part", Switch::Option,
     "activations", [](const CompileOptions& o) { return o.round == RoundActivations::Always; }},
};

bool disabled(const PassRow& row, const CompileOptions& options) {
  return std::find(options.disabled_passes.begin(), options.disabled_passes.end(), row.name) !=
         options.disabled_passes.end();
}

void check_names(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  std::set<std::string> optional;
  for (const PassRow& row : kPasses) {
    known.emplace_back(row.name);
    if (row.by == Switch::Name) optional.emplace(row.name);
  }
  const auto all = [&] { return fmt::format("these can: {}", fmt::join(optional, ", ")); };
  for (const std::string& name : names) {
    const auto* row = std::find_if(std::begin(kPasses), std::end(kPasses),
                                   [&](const PassRow& r) { return r.name == name; });
    if (row == std::end(kPasses)) {
      const std::string near = nearest(name, known);
      fail(Fault::Value, fmt::format("disabled_passes: there is no pass '{}'", name),
           near.empty() ? fmt::format("the passes are {}", fmt::join(optional, ", "))
                        : fmt::format("did you mean '{}'?", near));
    }
    if (row->by == Switch::Required)
      fail(Fault::Value, fmt::format("disabled_passes: the pass '{}' cannot be left out", name),
           all());
    if (row->by == Switch::Option)
      fail(Fault::Value, fmt::format("disabled_passes: '{}' is no pass to leave out", name),
           fmt::format("{} switches it", option(row->option)));
  }
}

void record(PassTrace::Pass& pass, std::string_view rule, std::size_t count) {
  for (PassTrace::RuleCount& r : pass.rules)
    if (r.rule == rule) {
      r.count += count;
      return;
    }
  pass.rules.push_back({std::string(rule), count});
}

class Runner {
 public:
  Runner(PassStage stage, const PassContext& context, PassTrace& trace, const PassOptions& options)
      : stage_(stage), context_(context), trace_(trace), options_(options) {}

  Graph run(Graph graph, bool outer) {
    if (stage_ == Rewrite)
      if (std::optional<Graph> changed = inner_graphs(graph)) graph = *std::move(changed);
    std::size_t changes = 0;
    // Passes come to a fixed point: one that saw this very graph has nothing left to do.
    std::unordered_map<decltype(PassRow::run), std::size_t> done_at;  // number of changes
    for (std::size_t k = 0; k < std::size(kPasses); ++k) {
      const PassRow& row = kPasses[k];
      if (row.stage != stage_ || (row.wanted && !row.wanted(context_.options))) continue;
      if (!outer && !row.in_bodies) continue;
      check_interrupt();
      PassTrace::Pass& pass = trace_.passes[k];
      pass.nodes_before += graph.nodes().size();
      auto done = done_at.find(row.run);
      if (!pass.skipped && (done == done_at.end() || done->second != changes)) {
        auto begin = std::chrono::steady_clock::now();
        PassNotes notes;
        std::optional<Graph> changed = row.run(graph, context_, notes);
        pass.seconds +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (changed) {
          ++changes;
          graph = *std::move(changed);
          if (options_.verify) check(graph, row);
          if (options_.keep_graphs && outer) pass.graph = print(graph);
        }
        for (const auto& [rule, count] : notes.counts) record(pass, rule, count);
        if (!notes.text.empty()) pass.note = std::move(notes.text);
        done_at[row.run] = changes;
      }
      pass.nodes_after += graph.nodes().size();
    }
    return graph;
  }

 private:
  void check(const Graph& graph, const PassRow& row) const {
    verify(graph, row.name);
    if (stage_ == Layout) verify_placement(graph, row.name);
  }

  /// The graph with the bodies of its loops rewritten; nothing if it has none. Loops nest by the
  /// user's code, so this recursion is shallow.
  std::optional<Graph> inner_graphs(const Graph& graph) {
    bool any = false;
    for (const Node& node : graph.nodes()) any |= node.inner != nullptr;
    if (!any) return std::nullopt;
    std::vector<std::vector<Value>> map;
    Builder b(graph, map);
    std::unordered_map<const Graph*, std::shared_ptr<const Graph>> done;
    for (auto id = static_cast<std::uint32_t>(graph.inputs().size()); id < graph.nodes().size();
         ++id) {
      const Node& node = graph.node(id);
      std::shared_ptr<const Graph> inner;
      if (node.inner) {
        std::shared_ptr<const Graph>& slot = done[node.inner.get()];
        if (!slot) slot = std::make_shared<Graph>(run(*node.inner, false));
        inner = slot;
      }
      b.keep_all(graph, id, map, std::move(inner));
    }
    return std::move(b).finish_as(graph, map);
  }

  PassStage stage_;
  const PassContext& context_;
  PassTrace& trace_;
  const PassOptions& options_;
};

}  // namespace

std::span<const PassRow> all_passes() { return kPasses; }

PassTrace begin_passes(const CompileOptions& options) {
  check_names(options.disabled_passes);
  PassTrace trace;
  for (const PassRow& row : kPasses) {
    PassTrace::Pass& pass = trace.passes.emplace_back();
    pass.name = row.name;
    pass.why_here = row.why_here;
    pass.stage = row.stage;
    pass.skipped = disabled(row, options);
    pass.unwanted = row.wanted && !row.wanted(options);
  }
  return trace;
}

Graph run_passes(PassStage stage, const Graph& graph, const PassContext& context, PassTrace& trace,
                 const PassOptions& options) {
  return Runner(stage, context, trace, options).run(graph, true);
}

std::string PassTrace::describe(std::optional<PassStage> stage) const {
  std::string text;
  for (const Pass& pass : passes) {
    if (pass.unwanted || (stage && pass.stage != *stage)) continue;
    if (pass.skipped) {
      text += fmt::format("{:<20} disabled\n", pass.name);
      continue;
    }
    text += fmt::format("{:<20} {:>6} -> {:<6} nodes  {:>8.3f} ms   {}\n", pass.name,
                        pass.nodes_before, pass.nodes_after, pass.seconds * 1e3, pass.why_here);
    for (const RuleCount& r : pass.rules) text += fmt::format("  {:>5} x  {}\n", r.count, r.rule);
    if (!pass.note.empty()) text += fmt::format("           {}\n", pass.note);
  }
  return text;
}

}  // namespace snug
