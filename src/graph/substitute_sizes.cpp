#include "graph/substitute_sizes.h"

namespace snug {

Graph substitute_sizes(const Graph& g, const std::unordered_map<SizeId, SizeId>& same,
                       std::span<const Infer::Requirement> more) {
  if (same.empty()) return g;
  Builder b;
  SizeTable& sizes = b.sizes();
  std::vector<SizeId> memo(g.sizes().nodes().size(), SizeTable::kNoSize);
  std::vector<SizeId> raw(g.sizes().nodes().size(), SizeTable::kNoSize);
  auto map_raw = [&](const Symbol& s, SizeId) { return sizes.symbol(s); };
  auto map_same = [&](const Symbol& s, SizeId id) {
    auto it = same.find(id);
    if (it == same.end()) return sizes.symbol(s);
    if (auto known = g.sizes().known(it->second)) return sizes.constant(*known);
    return sizes.symbol(g.sizes().symbol_of(it->second));
  };
  std::vector<std::vector<Value>> map(g.nodes().size());
  for (const GraphInput& in : g.inputs()) {
    const Node& n = g.node(in.value);
    Type t = n.types[0];
    for (SizeId& d : t.dims) d = sizes.import(g.sizes(), d, memo, map_same);
    OriginOverride origin(n.origin);
    std::vector<SizeId> elements;
    for (SizeId e : g.elements(in.value))
      elements.push_back(sizes.import(g.sizes(), e, memo, map_same));
    map[in.value.node] = {b.input(t, in.name, in.shared, std::move(elements))};
  }
  for (std::uint32_t id = static_cast<std::uint32_t>(g.inputs().size()); id < g.nodes().size();
       ++id) {
    Node n = g.node(id);
    std::vector<Value> inputs;
    for (Value v : n.inputs) inputs.push_back(map[v.node][v.output]);
    std::size_t outputs = n.types.size();
    n.types.clear();  // run-time symbols are of the old table
    Value v = b.copy(n, std::move(inputs));
    for (std::uint32_t k = 0; k < outputs; ++k) map[id].push_back({v.node, k});
  }
  // Run-time symbols of requirements: those of the same node in the new graph.
  std::unordered_map<SizeId, SizeId> runtime;
  for (const auto& s : g.runtime_sources())
    for (const auto& t : b.runtime_sources())
      if (t.value == map[s.value.node][s.value.output] && t.extent == s.extent &&
          t.element == s.element)
        runtime[s.symbol] = t.symbol;
  auto map_requirement = [&](const Symbol& s, SizeId id) {
    auto it = runtime.find(id);
    return it != runtime.end() ? it->second : map_raw(s, id);
  };
  std::vector<Infer::Requirement> requirements;
  std::vector<Infer::Requirement> all(g.requirements().begin(), g.requirements().end());
  all.insert(all.end(), more.begin(), more.end());
  for (Infer::Requirement& r : all) {
    r.a = sizes.import(g.sizes(), r.a, raw, map_requirement);
    r.b = sizes.import(g.sizes(), r.b, raw, map_requirement);
    for (SizeDims& dims : r.shapes)
      for (SizeId& d : dims) d = sizes.import(g.sizes(), d, raw, map_requirement);
    requirements.push_back(std::move(r));
  }
  b.set_requirements(std::move(requirements));
  return std::move(b).finish_as(g, map);
}

}  // namespace snug
