#include "backend/opencl/opencl_mapping.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace snug {

std::vector<std::uint32_t> runtime_ints(const KernelSpec& spec) {
  std::vector<std::uint32_t> out;
  const auto rank = static_cast<std::uint32_t>(spec.rank());
  for (std::uint32_t axis = 0; axis < rank; ++axis)
    if (spec.extents[axis] == KernelSpec::kRuntime) out.push_back(axis);
  for (std::uint32_t o = 0; o < spec.operands.size(); ++o)
    for (std::uint32_t axis = 0; axis < rank; ++axis)
      if (spec.operands[o].strides[axis] == KernelSpec::Operand::kRuntimeStride)
        out.push_back(rank * (1 + o) + axis);
  return out;
}

namespace {

constexpr std::uint32_t kItemsOfARow = 128;

/// Whether there are many inner points, which lie beside each other in memory as the outer ones do
/// not: neighbours read what neighbours in memory need.
bool runs_along_rows(const KernelSpec& spec, std::span<const std::int64_t> ints) {
  const std::size_t rank = spec.rank();
  const bool has_inner = std::any_of(spec.phases.begin(), spec.phases.end(),
                                     [](const KernelSpec::Phase& p) { return p.inner; });
  if (!has_inner || spec.outer == rank) return false;
  std::int64_t inner = 1;
  for (std::size_t axis = spec.outer; axis < rank; ++axis)
    inner *= spec.block && axis == spec.outer ? std::min(ints[axis], spec.block) : ints[axis];
  if (inner < kItemsOfARow / 2) return false;
  int along = 0, across = 0;
  for (std::size_t o = 0; o < spec.operands.size(); ++o) {
    const std::int64_t* const strides = &ints[rank * (1 + o)];
    along += strides[rank - 1] == 1;
    across += spec.outer > 0 && strides[spec.outer - 1] == 1 && strides[rank - 1] != 1;
  }
  return along >= across;
}

}  // namespace

OpenClMapping map_kernel(const KernelSpec& spec, std::span<const std::int64_t> ints,
                         const OpenClFound& device) {
  OpenClMapping m;
  // With room for a group that goes beyond the end.
  constexpr double kMost = (1LL << 31) - 4096.0;
  const std::size_t rank = spec.rank();
  double points = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) points *= std::max<double>(ints[axis], 1);
  double reach = points;
  for (std::size_t o = 0; o < spec.operands.size(); ++o) {
    double far = 0;
    for (std::size_t axis = 0; axis < rank; ++axis)
      far += static_cast<double>(std::max<std::int64_t>(ints[axis] - 1, 0)) *
             std::abs(static_cast<double>(ints[rank * (1 + o) + axis]));
    reach = std::max(reach, far);
  }
  m.wide = reach >= kMost;
  m.pairs = !device.fp64;
  const std::size_t width = m.wide ? 8 : 4;
  const std::size_t bytes = 16 + 16 * spec.operands.size() + width * runtime_ints(spec).size();
  m.ints_in_memory = bytes > device.argument_bytes;
  const auto trees = static_cast<std::uint64_t>(std::count_if(
      spec.body.begin(), spec.body.end(), [](const Instr& in) { return in.prim == Prim::Reduce; }));
  constexpr std::uint64_t kOfATree = 16;  // bytes of an item at most
  m.group = device.gpu && runs_along_rows(spec, ints) &&
            trees * kOfATree * kItemsOfARow <= device.local_memory;
  m.items = static_cast<std::uint32_t>(std::bit_floor(  // halves of a tree are whole
      std::min<std::uint64_t>(m.group ? kItemsOfARow : 64, device.most_items)));
  return m;
}

}  // namespace snug
