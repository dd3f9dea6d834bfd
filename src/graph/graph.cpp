#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/origin_marks.h"
#include "expr/loop_shape.h"

namespace snug {

std::span<const SizeId> Graph::elements(Value v) const {
  auto it = elements_.find(v);
  if (it == elements_.end()) return {};
  return it->second;
}

std::vector<std::string> Graph::input_names() const {
  std::vector<std::string> names;
  for (const GraphInput& in : inputs_) names.push_back(in.name);
  return names;
}

namespace {
std::size_t hash_of(const OpDef* op, std::span<const Value> inputs, const Attrs& attrs) {
  std::size_t h = reinterpret_cast<std::size_t>(op) ^ attrs.hash();
  for (Value v : inputs) h = (h ^ ValueHash{}(v)) * 0x9e3779b97f4a7c15ull, h ^= h >> 31;
  return h * 0x9e3779b97f4a7c15ull;
}
}  // namespace

std::uint32_t Builder::find(std::size_t hash, const Node& like, std::span<const Value> inputs,
                            const Graph* inner, DeviceId device) const {
  if (slots_.empty()) return kNone;
  // What the user has put on different devices is not one.
  const OriginId put_on = (like.origin ? like.origin : current_origin()) & kDeviceMask;
  for (std::size_t at = hash >> 20;; ++at) {
    std::uint32_t id = slots_[at & (slots_.size() - 1)];
    if (id == kNone) return kNone;
    if (hashes_[id] != hash) continue;
    const Node& n = graph_.nodes_[id];
    if (n.op == like.op && n.inner.get() == inner && n.device == device &&
        (n.origin & kDeviceMask) == put_on &&
        std::equal(n.inputs.begin(), n.inputs.end(), inputs.begin(), inputs.end()) &&
        n.attrs == like.attrs)
      return id;
  }
}

void Builder::remember(std::size_t hash, std::uint32_t id) {
  if (2 * (remembered_ + 1) > slots_.size()) {
    std::vector<std::uint32_t> old(std::max<std::size_t>(64, 2 * slots_.size()), kNone);
    old.swap(slots_);
    remembered_ = 0;
    for (std::uint32_t other : old)
      if (other != kNone) remember(hashes_[other], other);
  }
  if (hashes_.size() <= id) hashes_.resize(std::max<std::size_t>(id + 1, 2 * hashes_.size()), 0);
  hashes_[id] = hash;
  std::size_t at = hash >> 20;
  while (slots_[at & (slots_.size() - 1)] != kNone) ++at;
  slots_[at & (slots_.size() - 1)] = id;
  ++remembered_;
}

Builder::Builder(bool record_requirements) : record_requirements_(record_requirements) {
  graph_.sizes_ = std::make_shared<SizeTable>();
}

Builder::Builder(const Graph& from, std::vector<std::vector<Value>>& map)
    : record_requirements_(false) {
  graph_.sizes_ = from.sizes_;  // only ever appended to
  graph_.requirements_ = from.requirements_;
  map.assign(from.nodes_.size(), {});
  for (const GraphInput& in : from.inputs_) {
    const Node& node = from.node(in.value);
    OriginOverride origin(node.origin);
    auto e = from.elements(in.value);
    map[in.value.node] = {input(node.types[0], in.name, in.shared, {e.begin(), e.end()})};
    graph_.inputs_.back().state = in.state;
    graph_.nodes_.back().device = node.device;
  }
}

Value Builder::input(Type type, std::string name, Ref<SharedVariable> shared,
                     std::vector<SizeId> elements) {
  SNUG_CHECK(graph_.nodes_.size() == graph_.inputs_.size(), "inputs come first");
  Node node;
  node.op = &find_op(shared ? "shared" : "input");
  node.types = {type};
  node.origin = current_origin();
  Value v{static_cast<std::uint32_t>(graph_.nodes_.size()), 0};
  graph_.nodes_.push_back(std::move(node));
  graph_.inputs_.push_back({v, std::move(name), std::move(shared)});
  if (!elements.empty()) graph_.elements_[v] = std::move(elements);
  return v;
}

namespace {

/// The types of an inner graph's results with its size symbols replaced by the outer operands'.
/// Loop bodies see, per operand of the loop, one element (or block) of it; the rule of the op
/// knows the axes, so only sizes that come from operands as a whole are translated here and the
/// others stay unknown until the rule replaces them.
std::vector<Type> import_results(SizeTable& sizes, const Graph& inner,
                                 const std::vector<const Type*>& operands,
                                 const std::vector<std::vector<SizeId>>& elements,
                                 const LoopShape& shape, SizeId block_size) {
  std::vector<SizeId> memo(inner.sizes().nodes().size(), SizeTable::kNoSize);
  std::size_t result = 0;
  auto map_symbol = [&](const Symbol& s, SizeId) -> SizeId {
    if (s.kind == Symbol::Kind::Dim && s.input >= 1) {
      const Type& outer = *operands[s.input];
      const bool sequence = s.input < shape.state(0);
      if (!sequence) return outer.dims[s.index];
      if (!shape.blocks) return outer.dims[s.index + 1];
      return s.index == 0 ? block_size : outer.dims[s.index];
    }
    const bool captured = s.kind == Symbol::Kind::Element && s.input >= shape.first_seen_by_all();
    if (captured && s.index < elements[s.input].size()) return elements[s.input][s.index];
    if (captured)
      fail(Fault::Unsupported,
           "loop: a size inside the body depends on a value computed while it runs",
           "compute the size outside the loop");
    const bool state = result < shape.states;
    fail(Fault::Shape,
         fmt::format("loop: {} {} changes its size from iteration to iteration",
                     state ? "state" : "output", result - (state ? 0 : shape.states)),
         "give it one size, with zeros or a mask for what is not used");
  };
  std::vector<Type> types;
  for (; result < inner.outputs().size(); ++result) {
    Type t = inner.type(inner.outputs()[result]);
    for (SizeId& d : t.dims) d = sizes.import(inner.sizes(), d, memo, map_symbol);
    types.push_back(t);
  }
  return types;
}

/// The first of equal nodes says where they are from, but what the user has built is no derivative
/// though autodiff builds it, too.
void merge_origin(Node& node, OriginId other) {
  if (!is_derivative(node.origin)) return;
  if (!other) other = current_origin();
  if (!is_derivative(other)) node.origin = other;
}

}  // namespace

Value Builder::add(const OpDef& op, std::vector<Value> inputs, Attrs attrs,
                   std::shared_ptr<const Graph> inner) {
  const DeviceId device = inputs.empty() ? DeviceId{0} : node(inputs[0]).device;
  return add_on(device, op, std::move(inputs), std::move(attrs), std::move(inner));
}

Value Builder::add_on(DeviceId device, const OpDef& op, std::vector<Value> inputs, Attrs attrs,
                      std::shared_ptr<const Graph> inner) {
  Node like;
  like.op = &op;
  like.attrs = std::move(attrs);
  like.inner = std::move(inner);
  like.device = device;
  return copy(like, std::move(inputs));
}

Value Builder::copy(const Node& from, std::vector<Value> inputs) {
  const OpDef& op = *from.op;
  std::size_t hash = hash_of(&op, inputs, from.attrs);
  if (std::uint32_t id = find(hash, from, inputs, from.inner.get(), from.device); id != kNone) {
    merge_origin(graph_.nodes_[id], from.origin);
    return {id, 0};
  }
  OriginOverride origin(from.origin ? from.origin : current_origin());

  SizeTable& sizes = *graph_.sizes_;
  Infer infer(op, from.attrs, sizes);
  std::vector<Type> input_types;  // copied: nodes_ may move
  input_types.reserve(inputs.size());
  std::vector<std::vector<SizeId>> input_elements;
  input_elements.reserve(inputs.size());
  for (Value v : inputs) {
    input_types.push_back(graph_.type(v));
    auto e = graph_.elements(v);
    input_elements.emplace_back(e.begin(), e.end());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    infer.inputs.push_back(&input_types[i]);
    infer.input_elements.push_back(input_elements[i]);
  }
  infer.stage_symbol = [&](std::size_t input, std::size_t element) -> SizeId {
    for (const auto& s : graph_.runtime_sources_)
      if (!s.extent && s.value == inputs[input] && s.element == element) return s.symbol;
    Symbol symbol;
    symbol.kind = Symbol::Kind::Runtime;
    // What is made of a bool is 0 or 1; of other values nothing is known.
    const Node& maker = graph_.node(inputs[input]);
    const bool small = maker.op->name == "cast" && type(maker.inputs[0]).dtype == DType::Bool;
    symbol.low = sizes.zero();
    symbol.high = small ? sizes.one() : SizeTable::kNoSize;
    SizeId id = sizes.symbol(symbol);
    graph_.runtime_sources_.push_back(
        {id, inputs[input], false, static_cast<std::uint32_t>(element)});
    return id;
  };
  for (const Type& t : from.types)  // a copied node keeps its run-time symbols
    for (SizeId d : t.dims)
      if (sizes.node(d).op == SizeOp::Symbol && sizes.is_runtime(d) &&
          std::find(infer.known_runtime.begin(), infer.known_runtime.end(), d) ==
              infer.known_runtime.end())
        infer.known_runtime.push_back(d);
  if (from.inner) {
    const LoopShape shape = LoopShape::of(from.attrs);
    SizeId rows = shape.blocks ? sizes.ceil_div(input_types[1].dims[0], infer.size_element(0)) : 0;
    infer.inner_results =
        import_results(sizes, *from.inner, infer.inputs, input_elements, shape, rows);
  }
  run_infer(infer);

  Node node;
  node.op = &op;
  node.inputs = std::move(inputs);
  node.attrs = from.attrs;
  node.inner = from.inner;
  node.device = from.device;
  node.origin = current_origin();
  std::uint32_t id = static_cast<std::uint32_t>(graph_.nodes_.size());
  for (std::size_t k = 0; k < infer.results.size(); ++k) {
    const Infer::Result& r = infer.results[k];
    node.types.push_back(r.type);
    if (!r.elements.empty()) graph_.elements_[{id, static_cast<std::uint32_t>(k)}] = r.elements;
  }
  for (const Infer::Result& r : infer.results)
    for (SizeId d : r.type.dims) {
      if (sizes.node(d).op != SizeOp::Symbol || !sizes.is_runtime(d)) continue;
      bool known = false;
      for (const auto& s : graph_.runtime_sources_) known |= s.symbol == d;
      if (!known && !from.inner) graph_.runtime_sources_.push_back({d, {id, 0}, true, 0});
    }
  if (record_requirements_) record(std::move(infer.requirements));
  graph_.nodes_.push_back(std::move(node));
  remember(hash, id);
  return {id, 0};
}

void Builder::record(std::vector<Infer::Requirement> requirements) {
  if (requirements.empty()) return;
  if (!graph_.requirements_)
    graph_.requirements_ = std::make_shared<std::vector<Infer::Requirement>>();
  for (Infer::Requirement& r : requirements)
    if (recorded_[r.equal].insert(std::uint64_t{r.a} << 32 | r.b).second)
      graph_.requirements_->push_back(std::move(r));
}

Value Builder::keep(const Graph& from, std::uint32_t id, std::vector<Value> inputs,
                    std::shared_ptr<const Graph> inner, std::optional<DeviceId> device) {
  const Node& old = from.node(id);
  if (!inner) inner = old.inner;
  if (!device) device = old.device;
  std::size_t hash = hash_of(old.op, inputs, old.attrs);
  if (std::uint32_t other = find(hash, old, inputs, inner.get(), *device); other != kNone) {
    merge_origin(graph_.nodes_[other], old.origin);
    return {other, 0};
  }
  std::uint32_t fresh = static_cast<std::uint32_t>(graph_.nodes_.size());
  remember(hash, fresh);
  Node node;
  node.op = old.op;
  node.inputs = std::move(inputs);
  node.types = old.types;
  node.attrs = old.attrs;
  node.inner = std::move(inner);
  node.device = *device;
  node.origin = old.origin;
  for (std::uint32_t k = 0; k < node.types.size(); ++k)
    if (auto e = from.elements({id, k}); !e.empty())
      graph_.elements_[{fresh, k}] = std::vector<SizeId>(e.begin(), e.end());
  graph_.nodes_.push_back(std::move(node));
  return {fresh, 0};
}

void Builder::keep_all(const Graph& from, std::uint32_t id, std::vector<std::vector<Value>>& map,
                       std::shared_ptr<const Graph> inner) {
  const Node& node = from.node(id);
  std::vector<Value> inputs;
  for (Value v : node.inputs) inputs.push_back(map[v.node][v.output]);
  Value v = keep(from, id, std::move(inputs), std::move(inner));
  map[id].clear();
  for (std::uint32_t k = 0; k < node.types.size(); ++k) map[id].push_back({v.node, k});
  for (const Graph::RuntimeSource& s : from.runtime_sources())
    if (s.value.node == id)
      add_runtime_source({s.symbol, map[id][s.value.output], s.extent, s.element});
}

void Builder::add_runtime_source(const Graph::RuntimeSource& source) {
  for (const Graph::RuntimeSource& s : graph_.runtime_sources_)
    if (s.symbol == source.symbol) return;
  graph_.runtime_sources_.push_back(source);
}

Value Builder::constant(std::shared_ptr<const Array> value) {
  Value v = add(find_op("constant"), {}, Attrs{{"value", std::move(value)}});
  return v;
}

Value Builder::constant(double value, const Type& like) {
  auto a = std::make_shared<Array>(Array::empty(like.dtype, {}));
  is_float(like.dtype) ? a->set_double(0, value) : a->set_int(0, static_cast<std::int64_t>(value));
  return constant(a);
}

Graph Builder::finish(std::vector<Value> outputs, std::vector<Update> updates) && {
  Graph& g = graph_;
  std::vector<bool> live(g.nodes_.size(), false);
  std::vector<bool> live_size(g.sizes_->nodes().size(), false);
  auto mark = [&](Value v) { live[v.node] = true; };
  for (const GraphInput& in : g.inputs_) mark(in.value);
  for (Value v : outputs) mark(v);
  for (const Update& u : updates) mark(u.value);
  for (const auto& r : g.requirements()) live_size[r.a] = live_size[r.b] = true;
  // What decides a live run-time size is live; one more round whenever that adds a node.
  for (bool changed = true; changed;) {
    for (std::size_t id = g.nodes_.size(); id-- > 0;) {
      if (!live[id]) continue;
      for (Value v : g.nodes_[id].inputs) mark(v);
      for (const Type& t : g.nodes_[id].types)
        for (SizeId d : t.dims) live_size[d] = true;
      for (std::uint32_t k = 0; k < g.nodes_[id].types.size(); ++k)
        for (SizeId e : g.elements({static_cast<std::uint32_t>(id), k})) live_size[e] = true;
    }
    for (std::size_t s = live_size.size(); s-- > 0;) {
      if (!live_size[s]) continue;
      const SizeNode& n = g.sizes_->node(static_cast<SizeId>(s));
      if (n.op == SizeOp::Const || n.op == SizeOp::Symbol) continue;
      live_size[n.a] = live_size[n.b] = true;
      if (n.op == SizeOp::Select) live_size[n.c] = true;
    }
    changed = false;
    for (const auto& s : g.runtime_sources_)
      if (live_size[s.symbol] && !live[s.value.node]) {
        live[s.value.node] = true;
        changed = true;
      }
  }

  std::vector<std::uint32_t> renamed(g.nodes_.size(), 0);
  Graph out;
  out.sizes_ = g.sizes_;
  out.requirements_ = std::move(g.requirements_);
  for (std::size_t id = 0; id < g.nodes_.size(); ++id) {
    if (!live[id]) continue;
    renamed[id] = static_cast<std::uint32_t>(out.nodes_.size());
    Node node = std::move(g.nodes_[id]);
    for (Value& v : node.inputs) v.node = renamed[v.node];
    out.nodes_.push_back(std::move(node));
  }
  auto rename = [&](Value v) { return Value{renamed[v.node], v.output}; };
  for (GraphInput& in : g.inputs_) {
    in.value = rename(in.value);
    out.inputs_.push_back(std::move(in));
  }
  for (Value v : outputs) out.outputs_.push_back(rename(v));
  for (Update u : updates) out.updates_.push_back({u.input, rename(u.value)});
  for (auto& [v, e] : g.elements_)
    if (live[v.node]) out.elements_[rename(v)] = std::move(e);
  for (auto s : g.runtime_sources_)
    if (live[s.value.node]) {
      s.value = rename(s.value);
      out.runtime_sources_.push_back(s);
    }
  return out;
}

Graph Builder::finish_as(const Graph& from, const std::vector<std::vector<Value>>& map) && {
  std::vector<Value> outputs;
  for (Value v : from.outputs()) outputs.push_back(map[v.node][v.output]);
  std::vector<Update> updates;
  for (const Update& u : from.updates())
    updates.push_back({u.input, map[u.value.node][u.value.output]});
  return std::move(*this).finish(std::move(outputs), std::move(updates));
}

Graph states_as_updates(const Node& loop) {
  const Graph& body = *loop.inner;
  const LoopShape shape = LoopShape::of(loop.attrs);
  const auto first = static_cast<std::uint32_t>(shape.state(0)),
             count = static_cast<std::uint32_t>(shape.states);
  std::vector<std::vector<Value>> map;
  Builder b(body, map);
  for (std::uint32_t k = 0; k < count; ++k) b.set_state(first + k);
  for (auto id = static_cast<std::uint32_t>(body.inputs().size()); id < body.nodes().size(); ++id)
    b.keep_all(body, id, map);
  std::vector<Value> outputs;
  std::vector<Update> updates;
  for (std::uint32_t k = 0; k < body.outputs().size(); ++k) {
    Value v = body.outputs()[k];
    if (k >= count)
      outputs.push_back(map[v.node][v.output]);
    else if (v != body.inputs()[first + k].value)  // a state that stays needs no update
      updates.push_back({first + k, map[v.node][v.output]});
  }
  return std::move(b).finish(std::move(outputs), std::move(updates));
}

namespace {

std::string type_text(const Graph& g, const Type& t, std::span<const std::string> names) {
  std::string text = fmt::format("{} (", name_of(t.dtype));
  for (std::size_t i = 0; i < t.dims.size(); ++i)
    text += fmt::format("{}{}{}", i ? ", " : "", g.sizes().describe(t.dims[i], names),
                        t.broadcastable(i) ? "*" : "");
  return text + ")";
}

std::string node_text(const Graph& g, std::uint32_t id, std::span<const std::string> names) {
  const Node& n = g.node(id);
  std::string text = fmt::format("%{} = {}", id, n.op->name);
  if (id < g.inputs().size()) text += fmt::format(" {}", g.inputs()[id].name);
  std::string args;
  for (Value v : n.inputs) {
    if (!args.empty()) args += ", ";
    args += v.output ? fmt::format("%{}.{}", v.node, v.output) : fmt::format("%{}", v.node);
  }
  if (!n.attrs.empty()) args += (args.empty() ? "" : "; ") + n.attrs.describe();
  text += fmt::format("({}) : ", args);
  for (std::size_t k = 0; k < n.types.size(); ++k)
    text += (k ? ", " : "") + type_text(g, n.types[k], names);
  if (std::string where = describe(n.origin); !where.empty()) text += "   # " + where;
  return text + "\n";
}

}  // namespace

std::string print(const Graph& g) {
  std::vector<std::string> names = g.input_names();
  std::string text;
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id) text += node_text(g, id, names);
  auto value = [](Value v) {
    return v.output ? fmt::format("%{}.{}", v.node, v.output) : fmt::format("%{}", v.node);
  };
  text += "return";
  for (std::size_t i = 0; i < g.outputs().size(); ++i)
    text += (i ? ", " : " ") + value(g.outputs()[i]);
  text += "\n";
  for (const Update& u : g.updates())
    text += fmt::format("update {} := {}\n", g.inputs()[u.input].name, value(u.value));
  return text;
}

void verify(const Graph& g, std::string_view where) {
  auto bad = [&](std::uint32_t id, std::string what) {
    std::vector<std::string> names = g.input_names();
    std::string text;
    for (std::uint32_t k = id > 5 ? id - 5 : 0; k < g.nodes().size() && k < id + 5; ++k)
      text += (k == id ? "> " : "  ") + node_text(g, k, names);
    internal_error(where, fmt::format("node %{}: {}\n{}", id, what, text));
  };
  auto valid = [&](Value v, std::uint32_t limit) {
    return v.node < limit && v.output < g.node(v).types.size();
  };
  SizeTable scratch = g.sizes();
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id) {
    const Node& n = g.node(id);
    if (!n.op) bad(id, "no op");
    if (n.types.empty() && n.op->outputs != 0) bad(id, "no type");
    for (Value v : n.inputs)
      if (!valid(v, id)) bad(id, "an input does not come before it");
    if (has(*n.op, kLeaf)) continue;
    Infer infer(*n.op, n.attrs, scratch);
    for (Value v : n.inputs) {
      infer.inputs.push_back(&g.type(v));
      infer.input_elements.push_back(g.elements(v));
    }
    infer.stage_symbol = [&](std::size_t, std::size_t) { return scratch.symbol({}); };
    if (n.inner) {
      verify(*n.inner, where);
      for (Value v : n.inner->outputs()) {
        Type t = n.inner->type(v);
        for (SizeId& d : t.dims)
          d = n.inner->sizes().known(d) ? scratch.constant(*n.inner->sizes().known(d))
                                        : scratch.symbol({});
        infer.inner_results.push_back(t);
      }
    }
    run_infer(infer);
    if (infer.results.size() != n.types.size()) bad(id, "wrong number of outputs");
    for (std::size_t k = 0; k < n.types.size(); ++k) {
      const Type& t = infer.results[k].type;
      if (t.dtype != n.types[k].dtype || t.ndim() != n.types[k].ndim() ||
          t.broadcast != n.types[k].broadcast)
        bad(id, "its type differs from what its rule says");
    }
  }
  for (Value v : g.outputs())
    if (!valid(v, static_cast<std::uint32_t>(g.nodes().size())))
      internal_error(where, "an output does not exist");
  for (const Update& u : g.updates()) {
    if (!valid(u.value, static_cast<std::uint32_t>(g.nodes().size())) ||
        u.input >= g.inputs().size() || !(g.inputs()[u.input].shared || g.inputs()[u.input].state))
      internal_error(where, "an update of nothing");
    const Type& a = g.type(g.inputs()[u.input].value);
    const Type& b = g.type(u.value);
    if (a.dtype != b.dtype || a.ndim() != b.ndim())
      internal_error(where, "an update of another type");
  }
}

}  // namespace snug
