#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

constexpr std::string_view kRule = "max_pool(relu(x)) -> relu(max_pool(x))";

/// The x of switch(x <= 0, 0, x).
std::optional<Value> relu_operand(const Builder& b, Value v) {
  if (!is(b, v, "switch") || !is(b, operand(b, v, 0), "le")) return std::nullopt;
  const Value test = operand(b, v, 0), x = operand(b, v, 2);
  const bool fits = operand(b, test, 0) == x && is_number(b, operand(b, test, 1), 0) &&
                    is_number(b, operand(b, v, 1), 0) && b.type(v) == b.type(x);
  return fits ? std::optional(x) : std::nullopt;
}

}  // namespace

std::optional<Graph> relu_behind_pool(const Graph& graph, RuleCounts& counts) {
  std::vector<std::vector<Value>> map;
  Builder b(graph, map);
  map.resize(graph.nodes().size());
  std::size_t moved = 0;
  for (auto id = static_cast<std::uint32_t>(graph.inputs().size()); id < graph.nodes().size();
       ++id) {
    const Node& n = graph.node(id);
    std::optional<Value> x;
    if (n.op->name == "max_pool") {
      const Value in = map[n.inputs[0].node][n.inputs[0].output];
      if ((x = relu_operand(b, in))) {
        const Value zero = operand(b, in, 1);
        const Value pooled = [&] {
          const OriginOverride of_pool(n.origin);
          return b.add(*n.op, {*x}, n.attrs);
        }();
        const OriginOverride of_relu(graph.node(n.inputs[0].node).origin);
        const Value below = call(b, "le", {pooled, zero});
        map[id] = {call(b, "switch", {below, zero, pooled}), {pooled.node, 1}};
        ++moved;
      }
    }
    if (!x) b.keep_all(graph, id, map);
  }
  if (moved == 0) return std::nullopt;
  counts.emplace_back(kRule, moved);
  return std::move(b).finish_as(graph, map);
}

}  // namespace snug
