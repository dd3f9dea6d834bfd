#include "rewrite/bfloat16.h"

#include <algorithm>

#include "rewrite/values.h"

namespace snug {
namespace {

bool is_product(const Node& n) {
  constexpr std::string_view kOps[] = {"batched_dot", "conv2d", "conv2d_grad_input",
                                       "conv2d_grad_weight", "dot"};
  return std::find(std::begin(kOps), std::end(kOps), n.op->name) != std::end(kOps) &&
         n.types[0].dtype == DType::F32;
}

}  // namespace

Graph multiply_in_bfloat16(const Graph& graph) {
  std::vector<std::vector<Value>> map;
  Builder b(graph, map);
  map.resize(graph.nodes().size());
  std::unordered_map<const Graph*, std::shared_ptr<const Graph>> inner;
  for (auto id = static_cast<std::uint32_t>(graph.inputs().size()); id < graph.nodes().size();
       ++id) {
    const Node& n = graph.node(id);
    if (!is_product(n)) {
      std::shared_ptr<const Graph>* body = n.inner ? &inner[n.inner.get()] : nullptr;
      if (body && !*body) *body = std::make_shared<Graph>(multiply_in_bfloat16(*n.inner));
      b.keep_all(graph, id, map, body ? *body : nullptr);
      continue;
    }
    OriginOverride origin(n.origin);
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const Value v = map[n.inputs[i].node][n.inputs[i].output];
      inputs.push_back(i < data_inputs(n) ? cast(b, v, DType::BF16) : v);
    }
    map[id] = {cast(b, b.add(*n.op, std::move(inputs), n.attrs), DType::F32)};
  }
  return std::move(b).finish_as(graph, map);
}

}  // namespace snug
