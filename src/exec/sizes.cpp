#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "exec/executable.h"
#include "expr/evaluate_sizes.h"
#include "expr/loop_shape.h"

namespace snug {

namespace {

using Int = std::int64_t;

std::pair<Int, Int> bound(const SizeNode& n, const SizeBounds& b) {
  auto lo = [&](SizeId id) { return b.low[id]; };
  auto hi = [&](SizeId id) { return b.high[id]; };
  auto corners = [&](auto f) {
    Int v[4] = {f(lo(n.a), lo(n.b)), f(lo(n.a), hi(n.b)), f(hi(n.a), lo(n.b)), f(hi(n.a), hi(n.b))};
    return std::pair{*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
  };
  switch (n.op) {
    case SizeOp::Add: return {lo(n.a) + lo(n.b), hi(n.a) + hi(n.b)};
    case SizeOp::Sub: return {lo(n.a) - hi(n.b), hi(n.a) - lo(n.b)};
    case SizeOp::Mul: return corners([](Int x, Int y) { return x * y; });
    case SizeOp::FloorDiv: {
      auto [low, high] = corners([](Int x, Int y) { return floor_div(x, y); });
      // Around a divisor of 0 the quotient is largest; by 0 it is 0.
      for (Int y : {-1, 0, 1})
        if (lo(n.b) <= y && y <= hi(n.b))
          for (Int x : {lo(n.a), hi(n.a)}) {
            low = std::min(low, floor_div(x, y));
            high = std::max(high, floor_div(x, y));
          }
      return {low, high};
    }
    case SizeOp::Mod: {
      Int m = std::max(std::abs(lo(n.b)), std::abs(hi(n.b)));
      return {lo(n.b) < 0 ? -m : 0, m};
    }
    case SizeOp::Min: return {std::min(lo(n.a), lo(n.b)), std::min(hi(n.a), hi(n.b))};
    case SizeOp::Max: return {std::max(lo(n.a), lo(n.b)), std::max(hi(n.a), hi(n.b))};
    case SizeOp::Less:
    case SizeOp::Equal: return {0, 1};
    case SizeOp::Select: return {std::min(lo(n.b), lo(n.c)), std::max(hi(n.b), hi(n.c))};
    default: return {0, 0};
  }
}

}  // namespace

SizeBounds bound_sizes(const SizeTable& table, std::span<const std::int64_t> low,
                       std::span<const std::int64_t> high) {
  SizeBounds b;
  b.low.resize(table.nodes().size());
  b.high.resize(table.nodes().size());
  for (SizeId id = 0; id < table.nodes().size(); ++id) {
    const SizeNode& n = table.node(id);
    if (n.op == SizeOp::Const) {
      b.low[id] = b.high[id] = n.value;
    } else if (n.op == SizeOp::Symbol) {
      const Symbol& s = table.symbol_of(id);
      bool bounded = s.kind == Symbol::Kind::Runtime && s.high != SizeTable::kNoSize;
      b.low[id] = bounded ? b.low[s.low] : low[static_cast<std::size_t>(n.value)];
      b.high[id] = bounded ? b.high[s.high] : high[static_cast<std::size_t>(n.value)];
    } else {
      auto open = [&](SizeId x) { return b.low[x] != b.high[x]; };
      if (open(n.a) || open(n.b) || (n.op == SizeOp::Select && open(n.c)))
        std::tie(b.low[id], b.high[id]) = bound(n, b);
      else
        b.low[id] = b.high[id] = evaluate(n, b.high);
    }
  }
  return b;
}

std::int64_t read_integer(const std::byte* data, DType dtype, std::size_t element) {
  auto at = [&]<class T>(const T*) {
    T value;  // the memory may be the caller's, of any alignment
    std::memcpy(&value, data + element * sizeof(T), sizeof(T));
    return static_cast<std::int64_t>(value);
  };
  switch (dtype) {
    case DType::I8: return at(static_cast<const std::int8_t*>(nullptr));
    case DType::I16: return at(static_cast<const std::int16_t*>(nullptr));
    case DType::I32: return at(static_cast<const std::int32_t*>(nullptr));
    case DType::Bool:
    case DType::U8: return at(static_cast<const std::uint8_t*>(nullptr));
    case DType::U16: return at(static_cast<const std::uint16_t*>(nullptr));
    case DType::U32: return at(static_cast<const std::uint32_t*>(nullptr));
    default: return at(static_cast<const std::int64_t*>(nullptr));
  }
}

void check_requirements(const Graph& g, std::span<const std::uint32_t> which,
                        std::span<const std::int64_t> values) {
  for (std::uint32_t i : which) check(g.requirements()[i], values);
}

namespace {

/// The inputs whose values some sizes are made of.
std::set<std::uint32_t> inputs_in(const SizeTable& table, std::vector<SizeId> sizes) {
  std::set<std::uint32_t> inputs;
  table.walk(std::move(sizes), [&](SizeId id) {
    if (table.node(id).op == SizeOp::Symbol && table.symbol_of(id).kind == Symbol::Kind::Element)
      inputs.insert(table.symbol_of(id).input);
    return true;
  });
  return inputs;
}

}  // namespace

bool requirements_vary(const Lowered& body) {
  std::vector<SizeId> sizes;
  for (std::uint32_t r : body.early_requirements) {
    sizes.push_back(body.program.graph.requirements()[r].a);
    sizes.push_back(body.program.graph.requirements()[r].b);
  }
  return !inputs_in(body.program.graph.sizes(), std::move(sizes)).empty();
}

void finish_lowered(Lowered& l) {
  const Program& p = l.program;
  const SizeTable& table = p.graph.sizes();
  std::set<SizeId> key;
  auto add = [&](SizeId id) {
    if (!table.known(id)) key.insert(id);
  };
  auto add_type = [&](Value v) {
    for (SizeId d : p.type(v).dims) add(d);
  };
  for (const GraphInput& in : p.graph.inputs()) add_type(in.value);
  for (const Task& t : p.tasks) {
    for (Value v : t.writes) add_type(v);
    if (t.kind == Task::Kind::Kernel && t.device != 0)  // its sizes choose how it is laid out
      for (const SizeId id : p.kernels[t.index].ints) add(id);
    if (t.kind != Task::Kind::Library && t.kind != Task::Kind::Loop) continue;
    const Node& n = p.graph.node(t.index);
    for (std::size_t i = 0; i < data_inputs(n); ++i) {
      auto it = p.places.find(n.inputs[i]);
      if (it == p.places.end()) continue;
      add_type(n.inputs[i]);
      for (SizeId s : it->second.layout.strides) add(s);
    }
    if (t.kind == Task::Kind::Loop) {
      for (SizeId e : p.graph.elements(n.inputs[0])) add(e);
      const Lowered& body = *l.inner.at(t.index);
      const std::size_t shared = LoopShape::of(n.attrs).first_seen_by_all();
      for (std::uint32_t i : inputs_in(body.program.graph.sizes(), body.key))
        if (i >= shared)  // what all iterations see
          for (SizeId e : p.graph.elements(n.inputs[i])) add(e);
    }
  }
  // Run-time sizes enter by what bounds them.
  std::set<SizeId> wanted;
  for (SizeId id : key)
    if (!table.is_runtime(id)) wanted.insert(id);
  for (SizeId id = 0; id < table.nodes().size(); ++id)
    if (table.node(id).op == SizeOp::Symbol && table.is_runtime(id)) {
      const Symbol& s = table.symbol_of(id);
      if (s.high != SizeTable::kNoSize && !table.known(s.high)) wanted.insert(s.high);
    }
  l.key.assign(wanted.begin(), wanted.end());
  l.runtime.clear();
  for (SizeId id = 0; id < table.nodes().size(); ++id)
    if (table.is_runtime(id) && table.node(id).op != SizeOp::Symbol) l.runtime.push_back(id);
  l.early_requirements.clear();
  l.late_requirements.clear();
  for (std::uint32_t i = 0; i < p.graph.requirements().size(); ++i) {
    const auto& r = p.graph.requirements()[i];
    bool late = table.is_runtime(r.a) || table.is_runtime(r.b);
    (late ? l.late_requirements : l.early_requirements).push_back(i);
  }
}

}  // namespace snug
