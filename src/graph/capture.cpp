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

}  // namespace

Captured capture(const CaptureArgs& args) {
  // Which shared variables are updated, with default updates added as they are reached.
  std::vector<std::pair<SharedVariable*, Expr>> updates;
  std::unordered_set<std::uint64_t> updated;  // by id: several variables may be of one value
  for (const auto& [target, value] : args.updates) {
    SharedVariable* shared = target ? as_shared(target) : nullptr;
    if (!shared)
      fail(Fault::Type, fmt::format("updates: {} is not a shared variable", label(target)),
           "only variables made by shared() keep a value between calls");
    if (!updated.insert(shared->id).second)
      fail(Fault::Value, fmt::format("updates: {} is updated twice", label(target)));
    if (!value)
      fail(Fault::Type,
           fmt::format("updates: the new value of {} is an empty expression", label(target)));
    updates.emplace_back(shared, value);
  }
  Walk walk(args);
  for (const Expr& out : args.outputs) walk.visit(out.get());
  for (std::size_t i = 0; i < updates.size(); ++i) walk.visit(updates[i].second.get());
  if (args.default_updates)
    for (std::size_t i = 0; i < walk.order.size(); ++i)  // grows while it runs
      if (auto* s = dynamic_cast<SharedVariable*>(walk.order[i]); s && !updated.count(s->id)) {
        Expr update = s->find_default_update();
        if (!update) continue;
        updated.insert(s->id);
        walk.visit(update.get());
        updates.emplace_back(s, std::move(update));
      }
  for (const auto& [shared, value] : updates) {
    const TensorType &a = shared->type, &b = value.type();
    if (a.dtype != b.dtype || a.ndim() != b.ndim())
      throw TypeError(
          fmt::format("updates: {} is {} with {} dimensions, its new value is {} with {}",
                      label(Expr(Ref<Variable>(shared))), name_of(a.dtype), a.ndim(),
                      name_of(b.dtype), b.ndim()),
          a.dtype != b.dtype ? "cast the new value: " + cast_of("value", a.dtype) : "",
          value->origin);
  }

  std::map<std::uint64_t, std::vector<SharedVariable*>> shared_by_id;  // twins are one input
  for (Variable* v : walk.order)
    if (auto* s = dynamic_cast<SharedVariable*>(v); s && walk.resolve(v) == v && !walk.is_input(v))
      shared_by_id[s->id].push_back(s);
  for (const auto& [s, value] : updates) shared_by_id[s->id].push_back(s);

  Builder b(true);
  std::unordered_map<Variable*, Value> values;
  std::unordered_map<Variable*, std::uint32_t> input_number;
  std::uint32_t n_inputs = 0;
  for (const Expr& in : args.inputs) {
    OriginOverride origin(in->origin);
    Value v = b.input(graph_type(b.sizes(), in.type(), n_inputs), in.name(), nullptr,
                      element_symbols(b.sizes(), in.type(), n_inputs));
    values[in.get()] = v;
    input_number[in.get()] = n_inputs++;
  }
  for (const auto& [id, twins] : shared_by_id) {
    SharedVariable* s = twins[0];
    OriginOverride origin(s->origin);
    Value v = b.input(graph_type(b.sizes(), s->type, n_inputs), s->name, Ref<SharedVariable>(s),
                      element_symbols(b.sizes(), s->type, n_inputs));
    for (SharedVariable* twin : twins) {
      values[twin] = v;
      input_number[twin] = n_inputs;
    }
    ++n_inputs;
  }
  std::vector<bool> used(args.inputs.size(), false);
  std::unordered_map<Apply*, Value> applied;
  std::unordered_map<const Lambda*, std::shared_ptr<const Graph>> inner_graphs;
  for (Variable* v : walk.order) {
    if (Variable* to = walk.resolve(v); to != v) {
      values[v] = values.at(to);
      continue;
    }
    if (auto it = input_number.find(v); it != input_number.end()) {
      if (it->second < used.size()) used[it->second] = true;
      continue;
    }
    OriginOverride origin(v->origin);
    if (auto* c = dynamic_cast<Constant*>(v)) {
      const bool pairs = is_complex(c->type.dtype);
      values[v] = b.constant(pairs ? std::make_shared<Array>(c->value->as_pairs()) : c->value);
      continue;
    }
    if (!v->owner)
      throw MissingError(
          fmt::format("{} ({}) is needed but is no input of the function",
                      v->name.empty() ? "an unnamed variable" : v->name, describe(v->type)),
          "add it to inputs, give it a value by givens, or use a shared variable", v->origin);
    Apply* a = v->owner.get();
    if (has(*a->op, kPairView)) {
      const Value pairs = values.at(a->inputs[0].get());
      if (is_complex(v->type.dtype) && !b.sizes().is(b.type(pairs).dims.back(), 2))
        throw ShapeError(fmt::format("{}: the last axis is not known to be 2", a->op->name),
                         spelled("make it known: specify_shape(x, {..., 2})",
                                 "make it known: specify_shape(x, (..., 2))"),
                         v->origin);
      values[v] = pairs;
      continue;
    }
    auto it = applied.find(a);
    if (it == applied.end()) {
      std::vector<Value> inputs;
      for (const Expr& x : a->inputs) inputs.push_back(values.at(x.get()));
      std::shared_ptr<const Graph> inner;
      Attrs attrs = a->attrs;
      if (has(*a->op, kInner)) {
        std::shared_ptr<const Lambda> body = a->attrs.lambda("body");
        attrs.erase("body");  // the inner graph stands for it, and a graph holds no expressions
        auto& slot = inner_graphs[body.get()];
        if (!slot)
          slot =
              std::make_shared<Graph>(capture({body->params, body->results, {}, {}, false}).graph);
        inner = slot;
        for (const auto& source : slot->runtime_sources())
          if (!source.extent && slot->sizes().symbol_of(source.symbol).high == SizeTable::kNoSize)
            throw UnsupportedError(
                "loop: a size inside the body depends on a value computed while it runs",
                "compute the size outside the loop", v->origin);
      }
      Value out = b.add(*a->op, std::move(inputs), std::move(attrs), inner);
      it = applied.emplace(a, out).first;
    }
    values[v] = {it->second.node, v->index};
  }

  std::vector<Value> outputs;
  for (const Expr& out : args.outputs) outputs.push_back(values.at(out.get()));
  std::vector<Update> graph_updates;
  for (const auto& [s, value] : updates)
    graph_updates.push_back({input_number.at(s), values.at(value.get())});
  std::sort(graph_updates.begin(), graph_updates.end(),
            [](const Update& x, const Update& y) { return x.input < y.input; });
  std::vector<Expr> exprs;
  for (const auto& source : b.runtime_sources()) {
    if (source.extent) continue;
    for (Variable* v : walk.order)
      if (values.at(v) == source.value) {
        exprs.push_back(Expr(Ref<Variable>(v)));
        break;
      }
  }
  Graph g = std::move(b).finish(std::move(outputs), std::move(graph_updates));
  return {substitute_sizes(g, equalities(g)), std::move(used), std::move(exprs)};
}

}  // namespace snug
