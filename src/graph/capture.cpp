#include "graph/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/spelling.h"
#include "graph/substitute_sizes.h"

namespace snug {
namespace {

/// The expressions of a function in topological order, with givens applied.
class Walk {
 public:
  Walk(const CaptureArgs& args) {
    for (const auto& [from, to] : args.givens) {
      if (!from || !to) fail(Fault::Type, "givens: an empty expression");
      if (!replaced_.try_emplace(from.get(), to).second)
        fail(Fault::Value, fmt::format("givens: {} is given twice", label(from)));
      if (from.type().dtype != to.type().dtype || from.ndim() != to.ndim())
        fail(Fault::Type,
             fmt::format("givens: {} is {}, what stands for it is {}", label(from),
                         describe(from.type()), describe(to.type())),
             from.ndim() == to.ndim()
                 ? "cast it: " + cast_of("value", from.type().dtype)
                 : spelled(
                       "give it the same number of dimensions by subtensor, dimshuffle or reshape",
                       "give it the same number of dimensions: value[0], "
                       "value.dimshuffle(...) or value.reshape(...)"));
    }
    for (const Expr& in : args.inputs) inputs_.insert(in.get());
  }

  Variable* resolve(Variable* v) const {
    auto it = replaced_.find(v);
    return it == replaced_.end() ? v : it->second.get();
  }
  bool is_input(Variable* v) const { return inputs_.count(v) != 0; }

  void visit(Variable* root) {
    struct Item {
      Variable* v;
      bool expanded;
    };
    std::vector<Item> stack{{root, false}};
    while (!stack.empty()) {
      Item item = stack.back();
      stack.pop_back();
      // A given chain: x -> y -> z. Each link is a node of the walk, so cycles show up as such.
      Variable* v = item.v;
      int& state = state_[v];
      if (state == 2) continue;
      if (item.expanded) {
        state = 2;
        order.push_back(v);
        continue;
      }
      if (state == 1)
        throw ValueError(fmt::format("givens: {} depends on itself", label(Expr(Ref<Variable>(v)))),
                         "a given must not reach the expression it stands for", v->origin);
      state = 1;
      stack.push_back({v, true});
      if (Variable* to = resolve(v); to != v) {
        stack.push_back({to, false});
        continue;
      }
      if (is_input(v) || !v->owner) continue;
      const auto& inputs = v->owner->inputs;
      for (std::size_t i = inputs.size(); i-- > 0;)
        if (state_[inputs[i].get()] != 2) stack.push_back({inputs[i].get(), false});
    }
  }

  std::vector<Variable*> order;

 private:
  std::unordered_map<Variable*, Expr> replaced_;
  std::unordered_set<Variable*> inputs_;
  std::unordered_map<Variable*, int> state_;  // 0 new, 1 open (an ancestor), 2 done
};

/// Requirements `a == b` on symbols: which symbol stands for which expression.
std::unordered_map<SizeId, SizeId> equalities(const Graph& g) {
  std::unordered_map<SizeId, SizeId> to;
  const SizeTable& sizes = g.sizes();
  auto find = [&](SizeId id) {
    while (to.count(id)) id = to[id];
    return id;
  };
  auto plain = [&](SizeId id) {
    return sizes.node(id).op == SizeOp::Symbol && sizes.symbol_of(id).kind == Symbol::Kind::Dim;
  };
  for (const auto& r : g.requirements()) {
    if (!r.equal) continue;
    SizeId a = find(r.a), b = find(r.b);
    if (a == b) continue;
    if (plain(a) && plain(b)) to[std::max(a, b)] = std::min(a, b);
  }
  for (auto& [from, target] : to) target = find(target);
  return to;
}

/// The type of an input. Complex numbers are floats with a last axis of size 2.
Type graph_type(SizeTable& sizes, const TensorType& t, std::uint32_t input) {
  Type type;
  type.dtype = real_of(t.dtype);
  type.broadcast = t.broadcast;
  for (std::size_t i = 0; i < t.shape.size(); ++i) {
    Symbol s;
    s.kind = Symbol::Kind::Dim;
    s.input = input;
    s.index = static_cast<std::uint32_t>(i);
    type.dims.push_back(t.broadcastable(i) ? sizes.one() : sizes.symbol(s));
  }
  if (is_complex(t.dtype)) type.dims.push_back(sizes.constant(2));
  return type;
}

std::vector<SizeId> element_symbols(SizeTable& sizes, const TensorType& t, std::uint32_t input) {
  if (!is_discrete(t.dtype) || t.dtype == DType::Bool || t.ndim() > 0) return {};
  Symbol s;
  s.kind = Symbol::Kind::Element;
  s.input = input;
  return {sizes.symbol(s)};
}

/// Copies what a function reaches, one kind of thing after the other.
class Capturer {
 public:
  explicit Capturer(const CaptureArgs& args) : args_(args), walk_(args), b_(true) {}

  Captured run() {
    take_updates();
    reach_everything();
    for (const auto& [shared, value] : updates_) check_update(*shared, value);
    add_inputs();
    used_.resize(args_.inputs.size(), false);
    for (Variable* v : walk_.order) add(v);
    std::vector<Expr> stages = sizes_without_bound();
    Graph g = finish();
    return {substitute_sizes(g, equalities(g)), std::move(used_), std::move(stages)};
  }

 private:
  void take_updates() {
    for (const auto& [target, value] : args_.updates) {
      SharedVariable* shared = target ? as_shared(target) : nullptr;
      if (!shared)
        fail(Fault::Type, fmt::format("updates: {} is not a shared variable", label(target)),
             "only variables made by shared() keep a value between calls");
      if (!updated_.insert(shared->id).second)
        fail(Fault::Value, fmt::format("updates: {} is updated twice", label(target)));
      if (!value)
        fail(Fault::Type,
             fmt::format("updates: the new value of {} is an empty expression", label(target)));
      updates_.emplace_back(shared, value);
    }
  }

  /// Default updates are added as their variables are reached.
  void reach_everything() {
    for (const Expr& out : args_.outputs) walk_.visit(out.get());
    for (std::size_t i = 0; i < updates_.size(); ++i) walk_.visit(updates_[i].second.get());
    if (!args_.default_updates) return;
    for (std::size_t i = 0; i < walk_.order.size(); ++i)  // grows while it runs
      if (auto* s = dynamic_cast<SharedVariable*>(walk_.order[i]); s && !updated_.count(s->id)) {
        Expr update = s->find_default_update();
        if (!update) continue;
        updated_.insert(s->id);
        walk_.visit(update.get());
        updates_.emplace_back(s, std::move(update));
      }
  }

  static void check_update(SharedVariable& shared, const Expr& value) {
    const TensorType &a = shared.type, &b = value.type();
    if (a.dtype == b.dtype && a.ndim() == b.ndim()) return;
    throw TypeError(fmt::format("updates: {} is {} with {} dimensions, its new value is {} with {}",
                                label(Expr(Ref<Variable>(&shared))), name_of(a.dtype), a.ndim(),
                                name_of(b.dtype), b.ndim()),
                    a.dtype != b.dtype ? "cast the new value: " + cast_of("value", a.dtype) : "",
                    value->origin);
  }

  /// The arguments, then the shared variables by id.
  void add_inputs() {
    for (const Expr& in : args_.inputs) {
      OriginOverride origin(in->origin);
      add_input({in.get()}, in.type(), in.name(), nullptr);
    }
    std::map<std::uint64_t, std::vector<SharedVariable*>> by_id;  // twins are one input
    for (Variable* v : walk_.order)
      if (auto* s = dynamic_cast<SharedVariable*>(v);
          s && walk_.resolve(v) == v && !walk_.is_input(v))
        by_id[s->id].push_back(s);
    for (const auto& [s, value] : updates_) by_id[s->id].push_back(s);
    for (const auto& [id, twins] : by_id) {
      SharedVariable* s = twins[0];
      OriginOverride origin(s->origin);
      add_input({twins.begin(), twins.end()}, s->type, s->name, Ref<SharedVariable>(s));
    }
  }

  void add_input(const std::vector<Variable*>& variables, const TensorType& type,
                 const std::string& name, Ref<SharedVariable> shared) {
    const Value v = b_.input(graph_type(b_.sizes(), type, n_inputs_), name, std::move(shared),
                             element_symbols(b_.sizes(), type, n_inputs_));
    for (Variable* variable : variables) {
      values_[variable] = v;
      input_number_[variable] = n_inputs_;
    }
    ++n_inputs_;
  }

  void add(Variable* v) {
    if (Variable* to = walk_.resolve(v); to != v) {
      values_[v] = values_.at(to);
      return;
    }
    if (auto it = input_number_.find(v); it != input_number_.end()) {
      if (it->second < used_.size()) used_[it->second] = true;
      return;
    }
    OriginOverride origin(v->origin);
    if (auto* c = dynamic_cast<Constant*>(v)) {
      const bool pairs = is_complex(c->type.dtype);
      values_[v] = b_.constant(pairs ? std::make_shared<Array>(c->value->as_pairs()) : c->value);
      return;
    }
    if (!v->owner)
      throw MissingError(
          fmt::format("{} ({}) is needed but is no input of the function",
                      v->name.empty() ? "an unnamed variable" : v->name, describe(v->type)),
          "add it to inputs, give it a value by givens, or use a shared variable", v->origin);
    Apply* a = v->owner.get();
    if (has(*a->op, kPairView)) return add_pair_view(v, *a);
    auto it = applied_.find(a);
    if (it == applied_.end()) it = applied_.emplace(a, apply(*a, v->origin)).first;
    values_[v] = {it->second.node, v->index};
  }

  void add_pair_view(Variable* v, const Apply& a) {
    const Value pairs = values_.at(a.inputs[0].get());
    if (is_complex(v->type.dtype) && !b_.sizes().is(b_.type(pairs).dims.back(), 2))
      throw ShapeError(fmt::format("{}: the last axis is not known to be 2", a.op->name),
                       spelled("make it known: specify_shape(x, {..., 2})",
                               "make it known: specify_shape(x, (..., 2))"),
                       v->origin);
    values_[v] = pairs;
  }

  Value apply(const Apply& a, OriginId origin) {
    std::vector<Value> inputs;
    for (const Expr& x : a.inputs) inputs.push_back(values_.at(x.get()));
    if (!has(*a.op, kInner)) return b_.add(*a.op, std::move(inputs), a.attrs, nullptr);
    std::shared_ptr<const Graph> inner = inner_graph(*a.attrs.lambda("body"), origin);
    Attrs attrs = a.attrs;
    attrs.erase("body");  // the inner graph stands for it, and a graph holds no expressions
    return b_.add(*a.op, std::move(inputs), std::move(attrs), std::move(inner));
  }

  std::shared_ptr<const Graph> inner_graph(const Lambda& body, OriginId origin) {
    std::shared_ptr<const Graph>& slot = inner_graphs_[&body];
    if (!slot)
      slot = std::make_shared<Graph>(capture({body.params, body.results, {}, {}, false}).graph);
    for (const auto& source : slot->runtime_sources())
      if (!source.extent && slot->sizes().symbol_of(source.symbol).high == SizeTable::kNoSize)
        throw UnsupportedError(
            "loop: a size inside the body depends on a value computed while it runs",
            "compute the size outside the loop", origin);
    return slot;
  }

  std::vector<Expr> sizes_without_bound() const {
    std::vector<Expr> found;
    for (const auto& source : b_.runtime_sources()) {
      if (source.extent) continue;
      for (Variable* v : walk_.order)
        if (values_.at(v) == source.value) {
          found.push_back(Expr(Ref<Variable>(v)));
          break;
        }
    }
    return found;
  }

  Graph finish() {
    std::vector<Value> outputs;
    for (const Expr& out : args_.outputs) outputs.push_back(values_.at(out.get()));
    std::vector<Update> updates;
    for (const auto& [s, value] : updates_)
      updates.push_back({input_number_.at(s), values_.at(value.get())});
    std::sort(updates.begin(), updates.end(),
              [](const Update& x, const Update& y) { return x.input < y.input; });
    return std::move(b_).finish(std::move(outputs), std::move(updates));
  }

  const CaptureArgs& args_;
  Walk walk_;
  std::vector<std::pair<SharedVariable*, Expr>> updates_;
  std::unordered_set<std::uint64_t> updated_;  // by id: several variables may be of one value
  Builder b_;
  std::unordered_map<Variable*, Value> values_;
  std::unordered_map<Variable*, std::uint32_t> input_number_;
  std::uint32_t n_inputs_ = 0;
  std::vector<bool> used_;
  std::unordered_map<Apply*, Value> applied_;
  std::unordered_map<const Lambda*, std::shared_ptr<const Graph>> inner_graphs_;
};

}  // namespace

Captured capture(const CaptureArgs& args) { return Capturer(args).run(); }

}  // namespace snug
