#include <algorithm>

#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

constexpr std::string_view kRule = "a * b -> float32(bfloat16(a) * bfloat16(b))";

bool is_product(const Node& n) {
  constexpr std::string_view kOps[] = {"batched_dot", "conv2d", "conv2d_grad_input",
                                       "conv2d_grad_weight", "dot"};
  return std::find(std::begin(kOps), std::end(kOps), n.op->name) != std::end(kOps) &&
         n.types[0].dtype == DType::F32;
}

}  // namespace

std::optional<Graph> multiply_in_bfloat16(const Graph& graph, RuleCounts& counts) {
  std::vector<std::vector<Value>> map;
  Builder b(graph, map);
  map.resize(graph.nodes().size());
  std::size_t changed = 0;
  for (auto id = static_cast<std::uint32_t>(graph.inputs().size()); id < graph.nodes().size();
       ++id) {
    const Node& n = graph.node(id);
    if (!is_product(n)) {
      b.keep_all(graph, id, map);
      continue;
    }
    OriginOverride origin(n.origin);
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const Value v = map[n.inputs[i].node][n.inputs[i].output];
      inputs.push_back(i < data_inputs(n) ? cast(b, v, DType::BF16) : v);
    }
    map[id] = {cast(b, b.add(*n.op, std::move(inputs), n.attrs), DType::F32)};
    ++changed;
  }
  if (changed == 0) return std::nullopt;
  counts.emplace_back(kRule, changed);
  return std::move(b).finish_as(graph, map);
}

}  // namespace snug
