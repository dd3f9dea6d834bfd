#include "rewrite/rules.h"

#include <algorithm>

#include "base/interrupt.h"
#include "rewrite/values.h"

namespace snug {

Value Match::operator[](std::string_view name) const {
  for (std::size_t k = 0; k < formula->variables.size(); ++k)
    if (formula->variables[k] == name) return *variables[k];
  internal_error("rewrite/rules.cpp", fmt::format("a guard asks for {}", name));
}

namespace {

bool listed(std::string_view ops, const OpDef& op) {
  if (ops == "any") return !has(op, kLeaf);
  if (ops == "elementwise") return has(op, kElementwise);
  for (std::size_t at = 0; at < ops.size();) {
    std::size_t end = std::min(ops.find(' ', at), ops.size());
    if (ops.substr(at, end - at) == op.name) return true;
    at = end + 1;
  }
  return false;
}

/// The condition of a switch is bool whatever the dtype of the rest.
bool is_condition(const OpDef& op, std::size_t operand) {
  return op.name == "switch" && operand == 0;
}

bool fits(Match& m, const Formula& f, std::uint32_t at, Value v, bool free_dtype) {
  const Term& term = f.terms[at];
  switch (term.kind) {
    case Term::Kind::Number: return is_number(m.graph, v, term.number);
    case Term::Kind::Variable:
      if (m.variables[term.variable]) return *m.variables[term.variable] == v;
      m.variables[term.variable] = v;
      return true;
    case Term::Kind::Rest: return false;  // taken care of by its op
    case Term::Kind::Op: break;
  }
  const Node& node = m.graph.node(v);
  if (node.op != term.op) return false;
  if (!free_dtype && m.graph.type(v).dtype != m.dtype()) return false;
  m.nodes.push_back(v);
  for (std::size_t k = 0; k < term.operands.size(); ++k) {
    const Term& sub = f.terms[term.operands[k]];
    if (sub.kind == Term::Kind::Rest) {
      std::vector<Value> rest(
          node.inputs.begin() + static_cast<std::ptrdiff_t>(std::min(k, node.inputs.size())),
          node.inputs.end());
      if (m.rests[sub.variable]) return *m.rests[sub.variable] == rest;
      m.rests[sub.variable] = std::move(rest);
      return true;
    }
    if (k >= node.inputs.size()) return false;
    if (!fits(m, f, term.operands[k], node.inputs[k], is_condition(*term.op, k))) return false;
  }
  return node.inputs.size() == term.operands.size();
}

/// Builds the right side; nothing if an op of it comes out in another dtype than the root.
std::optional<Value> build(Match& m, const Formula& f, std::uint32_t at, bool free_dtype) {
  const Term& term = f.terms[at];
  switch (term.kind) {
    case Term::Kind::Number:
      return number(m.graph, term.number, m.dtype(), m.graph.type(m.root).ndim());
    case Term::Kind::Variable: return *m.variables[term.variable];
    case Term::Kind::Rest: return std::nullopt;
    case Term::Kind::Op: break;
  }
  std::vector<Value> inputs;
  for (std::size_t k = 0; k < term.operands.size(); ++k) {
    const Term& sub = f.terms[term.operands[k]];
    if (sub.kind == Term::Kind::Rest) {
      for (Value v : *m.rests[sub.variable]) inputs.push_back(v);
      continue;
    }
    std::optional<Value> v = build(m, f, term.operands[k], is_condition(*term.op, k));
    if (!v) return std::nullopt;
    inputs.push_back(*v);
  }
  Attrs attrs;
  for (Value v : m.nodes)
    if (m.graph.node(v).op == term.op) {
      attrs = m.graph.node(v).attrs;
      break;
    }
  Value v = m.graph.add(*term.op, std::move(inputs), std::move(attrs));
  if (!free_dtype && m.graph.type(v).dtype != m.dtype()) return std::nullopt;
  return v;
}

/// `v` with the sizes and the broadcast pattern of `root`: the rule may have dropped the operand
/// that stretched it.
std::optional<Value> adapt(Builder& b, Value v, Value root) {
  const Type want = b.type(root);
  if (b.type(v).dtype != want.dtype || b.type(v).ndim() != want.ndim()) return std::nullopt;
  if (!(b.type(v).dims == want.dims)) {
    for (std::size_t axis = 0; axis < want.dims.size(); ++axis)
      if (b.type(v).dims[axis] != want.dims[axis] && !b.type(v).broadcastable(axis))
        return std::nullopt;
    std::optional<Value> stretched = stretch(b, v, want);
    if (!stretched) return std::nullopt;
    v = *stretched;
  }
  if (b.type(v).broadcast != want.broadcast)
    v = call(b, "rebroadcast", {v},
             Attrs{{"broadcast", static_cast<std::int64_t>(want.broadcast)}});
  if (!(b.type(v) == want)) return std::nullopt;
  auto had = b.elements(root), now = b.elements(v);
  if (!had.empty() && !std::equal(had.begin(), had.end(), now.begin(), now.end()))
    return std::nullopt;
  return v;
}

}  // namespace

RuleTable::RuleTable(std::span<const Rule> rules, std::span<const CodeRule> code)
    : rules_(rules), code_(code) {
  for (const Rule& rule : rules) {
    formulas_.push_back(parse_formula(rule.formula));
    by_op_[&formulas_.back().root()].push_back(
        {&rule, nullptr, static_cast<std::uint32_t>(formulas_.size() - 1)});
  }
  for (const OpDef* op : all_ops())
    for (const CodeRule& rule : code)
      if (listed(rule.ops, *op)) by_op_[op].push_back({nullptr, &rule, 0});
}

std::span<const RuleTable::Candidate> RuleTable::for_op(const OpDef* op) const {
  auto it = by_op_.find(op);
  if (it == by_op_.end()) return {};
  return it->second;
}

std::vector<std::string_view> RuleTable::names() const {
  std::vector<std::string_view> names;
  for (const Rule& rule : rules_) names.push_back(rule.formula);
  for (const CodeRule& rule : code_) names.push_back(rule.name);
  return names;
}

namespace {

class Sweep {
 public:
  Sweep(const Graph& from, const RuleTable& rules, RuleCounts& counts)
      : from_(from),
        rules_(rules),
        counts_(counts),
        builder_(from, inputs_),
        first_(from.nodes().size()) {
    states_.reserve(from.nodes().size() + 64);
  }

  std::optional<Graph> run() {
    std::vector<Graph::RuntimeSource> sources = sources_by_node(from_);
    std::size_t next = 0;
    for (std::uint32_t id = 0; id < from_.nodes().size(); ++id) {
      if (id < from_.inputs().size()) {
        first_[id] = {id, 0};
      } else {
        const Node& node = from_.node(id);
        std::vector<Value> inputs;
        inputs.reserve(node.inputs.size());
        for (Value v : node.inputs) inputs.push_back(mapped(v));
        fired_here_ = 0;
        first_[id] = normal(builder_.keep(from_, id, std::move(inputs)));
      }
      for (; next < sources.size() && sources[next].value.node == id; ++next) {
        const Graph::RuntimeSource& s = sources[next];
        builder_.add_runtime_source({s.symbol, mapped(s.value), s.extent, s.element});
      }
    }
    if (fired_ == 0) return std::nullopt;
    std::vector<Value> outputs;
    for (Value v : from_.outputs()) outputs.push_back(mapped(v));
    std::vector<Update> updates;
    for (const Update& u : from_.updates()) updates.push_back({u.input, mapped(u.value)});
    return std::move(builder_).finish(std::move(outputs), std::move(updates));
  }

 private:
  struct State {
    bool done = false, forwarded = false, open = false;
    Value to;  // done: the final form. forwarded: what stands for it
  };
  static constexpr std::size_t kMaxFirings = 10'000;  // for one node of the graph

  /// Nodes of one output may become any value, others stay whole.
  Value mapped(Value v) const {
    return from_.node(v).types.size() == 1 ? first_[v.node] : Value{first_[v.node].node, v.output};
  }
  State& state(std::uint32_t node) {
    if (node >= states_.size()) states_.resize(std::max(builder_.size() + 16, 2 * states_.size()));
    return states_[node];
  }
  Value resolve(Value v) {
    Value to = state(v.node).to;
    return builder_.node(v).types.size() == 1 ? to : Value{to.node, v.output};
  }

  /// The final form of `v`.
  Value normal(Value v) {
    if (state(v.node).done) return resolve(v);
    std::vector<std::uint32_t>& stack = stack_;
    stack.assign(1, v.node);
    while (!stack.empty()) {
      check_interrupt();
      std::uint32_t node = stack.back();
      if (node < from_.inputs().size()) {
        state(node) = {true, false, false, {node, 0}};
      }
      if (state(node).done) {
        stack.pop_back();
        continue;
      }
      if (state(node).forwarded) {
        Value to = state(node).to;
        if (state(to.node).done) {
          state(node) = {true, false, false, resolve(to)};
          stack.pop_back();
        } else {
          if (state(to.node).open) endless();
          stack.push_back(to.node);
        }
        continue;
      }
      state(node).open = true;
      bool ready = true;
      for (Value in : builder_.node({node, 0}).inputs)
        if (!state(in.node).done) {
          ready = false;
          stack.push_back(in.node);
        }
      if (!ready) continue;
      std::optional<Value> next = with_final_inputs(node);
      if (!next) next = fire({node, 0});
      if (next)
        state(node) = {false, true, true, *next};
      else
        state(node) = {true, false, false, {node, 0}};
    }
    return resolve(v);
  }

  std::optional<Value> with_final_inputs(std::uint32_t node) {
    std::vector<Value> inputs = builder_.node({node, 0}).inputs;
    bool changed = false;
    for (Value& in : inputs) {
      Value to = resolve(in);
      changed |= !(to == in);
      in = to;
    }
    if (!changed) return std::nullopt;
    return builder_.keep(node, std::move(inputs));
  }

  std::optional<Value> fire(Value root) {
    const Node& node = builder_.node(root);
    std::span<const RuleTable::Candidate> candidates = rules_.for_op(node.op);
    if (candidates.empty() || node.types.size() != 1) return std::nullopt;
    OriginOverride origin(node.origin);
    for (const RuleTable::Candidate& c : candidates) {
      std::optional<Value> v = attempt(c, root);
      if (!v || *v == root) continue;
      count(c.rule ? c.rule->formula : c.code->name);
      return v;
    }
    return std::nullopt;
  }

  std::optional<Value> attempt(const RuleTable::Candidate& c, Value root) {
    try {
      return c.rule ? try_formula(*c.rule, rules_.formula(c), root) : try_code(*c.code, root);
    } catch (const Error& e) {
      // The right side has no meaning for these types: the rule does not fit.
      if (e.fault() == Fault::Internal) throw;
      return std::nullopt;
    }
  }

  std::optional<Value> try_formula(const Rule& rule, const Formula& f, Value root) {
    for (std::uint32_t left : f.left) {
      if (!may_fit(f.terms[left], f, root)) continue;
      match_.root = root;
      match_.formula = &f;
      match_.variables.assign(f.variables.size(), std::nullopt);
      match_.rests.assign(f.variables.size(), std::nullopt);
      match_.nodes.clear();
      if (!fits(match_, f, left, root, true)) continue;
      if (rule.when && !rule.when(match_)) continue;
      std::optional<Value> v = build(match_, f, f.right, false);
      if (!v) continue;
      if (f.terms[f.right].kind == Term::Kind::Variable)
        v = cast(builder_, *v, match_.dtype());  // as the op does with its operand
      if ((v = adapt(builder_, *v, root))) return v;
    }
    return std::nullopt;
  }

  /// A quick look at the operands' ops, which rules most candidates out.
  bool may_fit(const Term& left, const Formula& f, Value root) const {
    const std::vector<Value>& inputs = builder_.node(root).inputs;
    for (std::size_t k = 0; k < left.operands.size() && k < inputs.size(); ++k) {
      const Term& term = f.terms[left.operands[k]];
      if (term.kind == Term::Kind::Op && builder_.node(inputs[k]).op != term.op) return false;
    }
    return true;
  }

  std::optional<Value> try_code(const CodeRule& rule, Value root) {
    std::optional<Value> v = rule.apply(builder_, root);
    return v ? adapt(builder_, *v, root) : v;
  }

  void count(std::string_view name) {
    ++fired_;
    before_last_ = last_;
    last_ = name;
    if (++fired_here_ > kMaxFirings) endless();
    auto it = std::find_if(counts_.begin(), counts_.end(),
                           [&](const auto& c) { return c.first == name; });
    if (it == counts_.end())
      counts_.emplace_back(name, 1);
    else
      ++it->second;
  }
  [[noreturn]] void endless() const {
    internal_error("rewrite/rules.cpp",
                   fmt::format("rules do not come to an end; the last two are \"{}\" and \"{}\"",
                               before_last_, last_));
  }

  const Graph& from_;
  const RuleTable& rules_;
  RuleCounts& counts_;
  std::vector<std::vector<Value>> inputs_;  // inputs keep their places
  Builder builder_;
  std::vector<Value> first_;  // by node of from_: its output 0
  Match match_{builder_, {}};
  std::vector<State> states_;
  std::vector<std::uint32_t> stack_;
  std::size_t fired_ = 0, fired_here_ = 0;
  std::string_view last_, before_last_;
};

}  // namespace

std::vector<Graph::RuntimeSource> sources_by_node(const Graph& graph) {
  std::vector<Graph::RuntimeSource> sources(graph.runtime_sources().begin(),
                                            graph.runtime_sources().end());
  std::stable_sort(sources.begin(), sources.end(),
                   [](const auto& a, const auto& b) { return a.value.node < b.value.node; });
  return sources;
}

std::optional<Graph> apply_rules(const Graph& graph, const RuleTable& rules, RuleCounts& counts) {
  bool any = false;
  for (const Node& node : graph.nodes()) any = any || !rules.for_op(node.op).empty();
  if (!any) return std::nullopt;
  return Sweep(graph, rules, counts).run();
}

}  // namespace snug
