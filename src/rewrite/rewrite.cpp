#include "rewrite/rewrite.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/interrupt.h"

namespace snug {
namespace {

constexpr PassRow kPasses[] = {
    {"canonicalize", canonicalize, "first: every later rule is written for one form only"},
    {"lift_shapes", lift_shapes,
     "before folding: sizes that become known are constants for it, and values that only their "
     "shape was asked of disappear before work goes into them"},
    {"fold_constants", fold_constants, "before the algebra: its rules look for numbers"},
    {"stabilize", stabilize,
     "before the algebra: it looks for the forms that users and gradients write"},
    {"simplify", simplify, "after the forms it could break have been recognised"},
    {"relu_behind_pool", relu_behind_pool, "after simplify: it looks for a relu in one form"},
    {"fold_constants", fold_constants, "again: what the rules before made of numbers"},
    {"lift_shapes", lift_shapes, "again: rules before ask for the shapes of what they replaced"},
    {"expand", expand, "last but one: every rule before sees the whole op", true},
    {"canonicalize", canonicalize, "then: equal parts of what was expanded become one node"},
    {"pool_without_index", pool_without_index,
     "last: equal pools of a loss and of its gradient are one node by now, and stay so"},
};

class Runner {
 public:
  Runner(const RewriteOptions& options, RewriteTrace& trace) : options_(options), trace_(trace) {
    std::vector<std::string> known;
    std::set<std::string> optional;
    for (const PassRow& row : kPasses) {
      known.emplace_back(row.name);
      if (!row.required) optional.emplace(row.name);
    }
    for (const std::string& name : options.disabled_passes) {
      auto row = std::find_if(std::begin(kPasses), std::end(kPasses),
                              [&](const PassRow& r) { return r.name == name; });
      if (row == std::end(kPasses)) {
        std::string near = nearest(name, known);
        fail(Fault::Value, fmt::format("disabled_passes: there is no pass '{}'", name),
             near.empty() ? fmt::format("the passes are {}", fmt::join(optional, ", "))
                          : fmt::format("did you mean '{}'?", near));
      }
      if (row->required)
        fail(Fault::Value, fmt::format("disabled_passes: the pass '{}' cannot be left out", name),
             fmt::format("these can: {}", fmt::join(optional, ", ")));
    }
    for (const PassRow& row : kPasses) {
      RewriteTrace::Pass& pass = trace.passes.emplace_back();
      pass.name = row.name;
      pass.why_here = row.why_here;
      pass.skipped = disabled(row);
    }
  }

  Graph run(Graph graph, bool outer) {
    if (std::optional<Graph> changed = inner_graphs(graph)) graph = *std::move(changed);
    std::size_t changes = 0;
    // Passes come to a fixed point: one that saw this very graph has nothing left to do.
    std::unordered_map<decltype(PassRow::run), std::size_t> done_at;  // number of changes
    for (std::size_t k = 0; k < std::size(kPasses); ++k) {
      check_interrupt();
      const PassRow& row = kPasses[k];
      RewriteTrace::Pass& pass = trace_.passes[k];
      pass.nodes_before += graph.nodes().size();
      auto done = done_at.find(row.run);
      if (!pass.skipped && (done == done_at.end() || done->second != changes)) {
        auto begin = std::chrono::steady_clock::now();
        RuleCounts counts;
        std::optional<Graph> changed = row.run(graph, counts);
        pass.seconds +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (changed) {
          ++changes;
          graph = *std::move(changed);
          if (options_.verify) verify(graph, row.name);
          if (options_.keep_graphs && outer) pass.graph = print(graph);
        }
        for (const auto& [rule, count] : counts) record(pass, rule, count);
        done_at[row.run] = changes;
      }
      pass.nodes_after += graph.nodes().size();
    }
    return graph;
  }

 private:
  bool disabled(const PassRow& row) const {
    return std::find(options_.disabled_passes.begin(), options_.disabled_passes.end(), row.name) !=
           options_.disabled_passes.end();
  }

  static void record(RewriteTrace::Pass& pass, std::string_view rule, std::size_t count) {
    for (RewriteTrace::RuleCount& r : pass.rules)
      if (r.rule == rule) {
        r.count += count;
        return;
      }
    pass.rules.push_back({std::string(rule), count});
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

  const RewriteOptions& options_;
  RewriteTrace& trace_;
};

}  // namespace

std::span<const PassRow> rewrite_passes() { return kPasses; }

Graph rewrite(const Graph& graph, const RewriteOptions& options, RewriteTrace& trace) {
  trace.passes.clear();
  return Runner(options, trace).run(graph, true);
}

std::string RewriteTrace::describe() const {
  std::string text;
  for (const Pass& pass : passes) {
    if (pass.skipped) {
      text += fmt::format("{:<16} disabled\n", pass.name);
      continue;
    }
    text += fmt::format("{:<16} {:>6} -> {:<6} nodes  {:>8.3f} ms\n", pass.name, pass.nodes_before,
                        pass.nodes_after, pass.seconds * 1e3);
    for (const RuleCount& r : pass.rules) text += fmt::format("  {:>5} x  {}\n", r.count, r.rule);
  }
  return text;
}

}  // namespace snug
