#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "rewrite/formula.h"

namespace snug {

/// What a guard sees: a left side that fits.
struct Match {
  Builder& graph;
  Value root;
  const Formula* formula = nullptr;
  std::vector<std::optional<Value>> variables = {};  // by index into formula->variables
  std::vector<std::optional<std::vector<Value>>> rests = {};
  std::vector<Value> nodes = {};  // values of the ops that fit, root first

  Value operator[](std::string_view variable) const;
  const Type& type(std::string_view variable) const { return graph.type((*this)[variable]); }
  DType dtype() const { return graph.type(root).dtype; }
};

/// The text is the rule. All ops of both sides have the dtype of the root (what stands in the
/// condition of a switch is free), so integers wrap and floats round alike before and after. An op
/// of the right side takes its attributes from the op of the same name on the left.
struct Rule {
  std::string_view formula;
  bool (*when)(const Match&) = nullptr;
  std::string_view why = {};
};

/// A rule that a formula cannot say. `ops`: names with spaces between, or "elementwise", or "any".
struct CodeRule {
  std::string_view name;  // reads like a formula
  std::string_view ops;
  std::optional<Value> (*apply)(Builder&, Value root) = nullptr;
  std::string_view why = {};
};

/// How often each rule fired, by its text.
using RuleCounts = std::vector<std::pair<std::string_view, std::size_t>>;

/// What a pass says of what it did.
struct PassNotes {
  RuleCounts counts;
  std::string text;
};

/// A family of rules, parsed and sorted by the op of the root. Rules are tried in their order,
/// formulas first.
class RuleTable {
 public:
  RuleTable(std::span<const Rule> rules, std::span<const CodeRule> code);
  struct Candidate {
    const Rule* rule = nullptr;  // or
    const CodeRule* code = nullptr;
    std::uint32_t formula = 0;
  };
  std::span<const Candidate> for_op(const OpDef* op) const;
  const Formula& formula(const Candidate& c) const { return formulas_[c.formula]; }
  std::vector<std::string_view> names() const;

 private:
  std::span<const Rule> rules_;
  std::span<const CodeRule> code_;
  std::vector<Formula> formulas_;
  std::unordered_map<const OpDef*, std::vector<Candidate>> by_op_;
};

/// The runtime sources of a graph in the order of the nodes that decide them.
std::vector<Graph::RuntimeSource> sources_by_node(const Graph& graph);

/// Applies rules until none fits, in one forward sweep with a worklist: operands are in their final
/// form before a node is looked at, and what a rule builds is looked at again. A replacement has
/// the dtype, sizes, broadcast pattern and elements of what it replaces, and its origin. Empty if
/// no rule fitted. An internal error names the last two rules if they do not come to an end.
std::optional<Graph> apply_rules(const Graph& graph, const RuleTable& rules, RuleCounts& counts);

}  // namespace snug
