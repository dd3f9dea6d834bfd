#include "plan/predict_task.h"

#include <algorithm>

#include "place/place.h"

namespace snug {
namespace {

Dims shape_of(const Program& p, std::span<const std::int64_t> sizes, Value v) {
  Dims shape;
  for (SizeId d : p.type(v).dims) shape.push_back(sizes[d]);
  return shape;
}

}  // namespace

double predict_task_seconds(const DeviceInfo& device, const Program& p,
                            std::span<const std::int64_t> sizes, std::uint32_t task) {
  const Task& t = p.tasks[task];
  double bytes = 0, work = 0;
  for (Value v : t.reads) bytes += static_cast<double>(bytes_of(p, sizes, v));
  for (Value v : t.writes) bytes += static_cast<double>(bytes_of(p, sizes, v));
  std::vector<Dims> in, out;
  std::vector<DType> dtypes;
  for (std::uint32_t id : t.covers) {
    const Node& node = p.graph.node(id);
    if (has(*node.op, kLeaf | kView)) continue;
    in.clear();
    out.clear();
    dtypes.clear();
    for (Value v : node.inputs) {
      in.push_back(shape_of(p, sizes, v));
      dtypes.push_back(p.type(v).dtype);
    }
    for (std::uint32_t k = 0; k < node.types.size(); ++k)
      out.push_back(shape_of(p, sizes, {id, k}));
    work += predict_operations(node, in, out, dtypes);
  }
  return device.launch_latency + std::max(bytes / device.bandwidth, work / device.flops);
}

}  // namespace snug
