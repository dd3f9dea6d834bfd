#include "cost/tasks.h"

#include <algorithm>

#include "cost/nodes.h"

namespace snug {
namespace {

Dims shape_of(const Program& p, std::span<const std::int64_t> sizes, Value v) {
  Dims shape;
  for (SizeId d : p.type(v).dims) shape.push_back(sizes[d]);
  return shape;
}

/// What a reduction along consecutive elements costs besides what it does per element, in
/// additions: its lanes are joined once per result.
constexpr double kJoinLanes = 4000;

/// What a row of the innermost axis costs, whatever its length, in additions.
constexpr double kRow = 1000;

/// Counts what the loops of a kernel do.
class KernelWork {
 public:
  KernelWork(const Kernel& kernel, std::span<const std::int64_t> sizes)
      : spec_(kernel.spec), ints_(kernel.ints), sizes_(sizes) {
    for (std::size_t axis = 0; axis < spec_.rank(); ++axis)
      (axis < spec_.outer ? outer_ : inner_) *= extent(axis);
    // Each block runs over its part of the first inner axis.
    if (spec_.block > 0 && spec_.outer > 0) inner_ /= std::max(1.0, extent(0));
  }

  double points() const { return outer_ * inner_; }

  /// In additions.
  double operations() const {
    double sum = 0;
    for (const KernelSpec::Phase& phase : spec_.phases) {
      double each = 0, joins = 0;
      for (std::uint32_t i = phase.begin; i < phase.end; ++i) {
        each += kernel_cost(spec_.body[i].prim);
        joins += spec_.body[i].prim == Prim::Reduce ? 1 : 0;
      }
      sum += each * outer_ * (phase.inner ? inner_ : 1);
      if (joins_lanes()) sum += joins * kJoinLanes * outer_;
    }
    return sum + kRow * rows();
  }

  double bytes() const {
    double sum = 0;
    for (std::size_t i = 0; i < spec_.operands.size(); ++i)
      sum += elements(i) * static_cast<double>(size_of(spec_.operands[i].dtype));
    return sum;
  }

  /// Elements of operands that do not lie one behind the other where those of the others do.
  double strided_elements() const {
    const std::size_t along = main_axis();
    double sum = 0;
    for (std::size_t i = 0; i < spec_.operands.size(); ++i)
      if (const std::size_t axis = unit_axis(i); axis != kNone && axis != along) sum += elements(i);
    return sum;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  double extent(std::size_t axis) const { return static_cast<double>(sizes_[ints_[axis]]); }
  std::int64_t stride(std::size_t operand, std::size_t axis) const {
    return sizes_[ints_[spec_.rank() * (1 + operand) + axis]];
  }
  double elements(std::size_t operand) const {
    double n = 1;
    for (std::size_t axis = 0; axis < spec_.rank(); ++axis)
      if (stride(operand, axis) != 0) n *= extent(axis);
    return n;
  }
  /// The axis along which the elements of an operand lie one behind the other.
  std::size_t unit_axis(std::size_t operand) const {
    for (std::size_t axis = spec_.rank(); axis-- > 0;)
      if (stride(operand, axis) == 1 && extent(axis) > 1) return axis;
    return kNone;
  }
  /// That of the largest operand, the last of several.
  std::size_t main_axis() const {
    std::size_t best = kNone;
    double most = 0;
    for (std::size_t i = 0; i < spec_.operands.size(); ++i)
      if (const std::size_t axis = unit_axis(i); axis != kNone && elements(i) >= most) {
        most = elements(i);
        best = axis;
      }
    return best;
  }
  /// Rows that are computed one after another: those of one axis, or whose length the code knows,
  /// are not.
  double rows() const {
    if (spec_.rank() < 2 || spec_.extents[spec_.rank() - 1] != KernelSpec::kRuntime) return 0;
    return points() / std::max(1.0, extent(spec_.rank() - 1));
  }
  bool joins_lanes() const {
    constexpr double kShort = 64;  // shorter rows of known length are computed side by side
    const std::size_t axis = main_axis();
    if (axis == kNone || axis < spec_.outer) return false;
    return spec_.extents[axis] == KernelSpec::kRuntime || extent(axis) > kShort;
  }

  const KernelSpec& spec_;
  const std::vector<SizeId>& ints_;
  std::span<const std::int64_t> sizes_;
  double outer_ = 1, inner_ = 1;
};

double kernel_seconds(const DeviceInfo& d, const KernelWork& k) {
  const double bytes = k.bytes(), flops = d.kernel_flops > 0 ? d.kernel_flops : d.flops;
  const double strided = d.strided_elements > 0 ? k.strided_elements() / d.strided_elements : 0;
  const double busy = std::max(bytes / bandwidth_for(d, bytes) + strided, k.operations() / flops);
  if (k.points() >= kParallelPoints) return d.parallel_latency + busy;
  return d.launch_latency + d.cores * busy;
}

/// Whether no other task reads what `t` would write over. Values that come from outside stay.
bool last_reader(const Program& p, const Task& t) {
  const auto place = p.places.find(p.graph.node(t.index).inputs[0]);
  if (place == p.places.end()) return false;
  const Value root = place->second.root;
  if (has(*p.graph.node(root.node).op, kLeaf)) return false;
  int readers = 0;
  for (const Task& other : p.tasks) {
    readers += std::find(other.reads.begin(), other.reads.end(), root) != other.reads.end();
    if (readers > 1) return false;
  }
  return true;
}

}  // namespace

double predict_task_seconds(const Program& p, const TaskSizes& s, std::uint32_t task) {
  if (task < s.loop_seconds.size() && s.loop_seconds[task] > 0) return s.loop_seconds[task];
  const DeviceInfo& device = s.device ? *s.device : host_device();
  const Task& t = p.tasks[task];
  if (t.kind == Task::Kind::Kernel)
    return kernel_seconds(device, KernelWork(p.kernels[t.index], s.sizes));
  if (t.kind != Task::Kind::Library) return device.launch_latency;
  const Node& node = p.graph.node(t.index);
  std::vector<Dims> in, out;
  std::vector<DType> dtypes;
  for (Value v : node.inputs) {
    in.push_back(shape_of(p, s.sizes, v));
    dtypes.push_back(p.type(v).dtype);
  }
  for (std::uint32_t k = 0; k < node.types.size(); ++k)
    out.push_back(shape_of(p, s.sizes, {t.index, k}));
  double seconds = predict_seconds(device, node, in, out, dtypes);
  if (has(*node.op, kInPlace) && !last_reader(p, t)) {
    const double copied = 2 * static_cast<double>(bytes_of(p, s.sizes, t.writes[0]));
    seconds += copied / bandwidth_for(device, copied);
  }
  return seconds;
}

double predict_seconds(const Program& program, const TaskSizes& sizes) {
  double seconds = 0;
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t)
    seconds += predict_task_seconds(program, sizes, t);
  return seconds;
}

}  // namespace snug
