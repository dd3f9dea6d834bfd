#include "kernel/cluster.h"

namespace snug {
namespace {

int source_axis(const Graph& g, const Node& view, std::size_t axis) {
  return view.op->source_axis({view.attrs, g.type(view.inputs[0]), view.types[0]}, axis);
}

}  // namespace

AxisMap above_view(const Graph& g, std::uint32_t view, const AxisMap& base) {
  const Node& n = g.node(view);
  AxisMap map(n.types[0].dims.size(), kUnitAxis);
  for (std::size_t i = 0; i < map.size(); ++i)
    if (int from = source_axis(g, n, i); from != kRepeated) map[i] = base[from];
  return map;
}

AxisMap below_view(const Graph& g, std::uint32_t view, const AxisMap& result) {
  const Node& n = g.node(view);
  AxisMap map(g.type(n.inputs[0]).dims.size(), kUnitAxis);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (int from = source_axis(g, n, i); from != kRepeated) map[from] = result[i];
  return map;
}

std::uint32_t Cluster::required_axes(const SizeTable& sizes) const {
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < space.size(); ++i)
    if (!sizes.is(space[i], 1)) all |= 1u << i;
  return all;
}

std::span<const Value> Units::data_of(const Graph& g, std::uint32_t id) const {
  if (kind[id] == NodeKind::Sizes) return {};
  const Node& n = g.node(id);
  std::span<const Value> inputs(n.inputs.data(), data_inputs(n));
  return kind[id] == NodeKind::Loop ? inputs.subspan(1) : inputs;
}

Value Units::below_index_views(const Graph& g, Value v) const {
  while (kind[v.node] == NodeKind::IndexView) v = g.node(v).inputs[0];
  return v;
}

ScalarBody scalar_body(const Graph& g, const Node& n) {
  ScalarBuilder s;
  s.result = n.types[0].dtype;
  for (Value v : n.inputs) s.arg_types.push_back(g.type(v).dtype);
  Scalar result = n.op->scalar(s, n.attrs);
  return {std::move(s.body), result.id};
}

}  // namespace snug
