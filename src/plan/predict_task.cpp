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

double predict_task_seconds(const Program& p, const TaskSizes& s, std::uint32_t task) {
  if (task < s.loop_seconds.size() && s.loop_seconds[task] > 0) return s.loop_seconds[task];
  const DeviceInfo& device = s.device ? *s.device : host_device();
  const std::span<const std::int64_t> sizes = s.sizes;
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
    work += predict_operations(node, in, out, dtypes) / operation_rate(device, node);
  }
  return device.launch_latency + std::max(bytes / device.bandwidth, work);
}

double predict_seconds(const Program& program, const TaskSizes& sizes) {
  double seconds = 0;
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t)
    seconds += predict_task_seconds(program, sizes, t);
  return seconds;
}

}  // namespace snug
