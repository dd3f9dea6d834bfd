#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

constexpr std::string_view kRule = "max_pool(x)[0] -> max_pool(x, without_index)[0]";

/// By node: whether its second output is read.
std::vector<bool> second_outputs_read(const Graph& graph) {
  std::vector<bool> read(graph.nodes().size());
  const auto see = [&](Value v) {
    if (v.output == 1) read[v.node] = true;
  };
  for (const Node& n : graph.nodes())
    for (Value v : n.inputs) see(v);
  for (Value v : graph.outputs()) see(v);
  for (const Update& u : graph.updates()) see(u.value);
  return read;
}

}  // namespace

std::optional<Graph> pool_without_index(const Graph& graph, RuleCounts& counts) {
  const std::vector<bool> read = second_outputs_read(graph);
  std::vector<std::vector<Value>> map;
  Builder b(graph, map);
  map.resize(graph.nodes().size());
  std::size_t changed = 0;
  for (auto id = static_cast<std::uint32_t>(graph.inputs().size()); id < graph.nodes().size();
       ++id) {
    const Node& n = graph.node(id);
    if (n.op->name != "max_pool" || read[id] || n.attrs.has("without_index")) {
      b.keep_all(graph, id, map);
      continue;
    }
    OriginOverride origin(n.origin);
    Attrs attrs = n.attrs;
    attrs.set("without_index", true);
    const Value pooled = b.add(*n.op, {map[n.inputs[0].node][n.inputs[0].output]}, attrs);
    map[id] = {pooled, {pooled.node, 1}};
    ++changed;
  }
  if (changed == 0) return std::nullopt;
  counts.emplace_back(kRule, changed);
  return std::move(b).finish_as(graph, map);
}

}  // namespace snug
