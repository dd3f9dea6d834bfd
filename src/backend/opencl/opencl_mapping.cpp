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

Divisor divisor_of(std::int64_t n) {
  const auto d = static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1));
  Divisor out;
  out.shift = static_cast<std::int32_t>(std::bit_width(d - 1));
  const std::uint64_t power = std::uint64_t{1} << out.shift;
  out.factor = static_cast<std::uint32_t>(((power - d) << 32) / d + 1);
  return out;
}

std::vector<std::uint32_t> divisor_axes(const KernelSpec& spec, const OpenClMapping& mapping) {
  using Kind = OpenClMapping::Kind;
  if (mapping.wide || mapping.ints_in_memory || mapping.kind == Kind::Tile) return {};
  std::vector<std::uint32_t> out;
  const auto add = [&](std::size_t begin, std::size_t end) {
    for (std::size_t axis = begin; axis < end; ++axis)
      if (spec.extents[axis] == KernelSpec::kRuntime)
        out.push_back(static_cast<std::uint32_t>(axis));
  };
  const std::size_t rank = spec.rank();
  add(1, spec.outer);
  if (mapping.kind == Kind::Group) add(spec.outer + 1, rank);
  if (mapping.kind == Kind::Rows) add(rank - spec.outer == 1 ? spec.outer : spec.outer + 1, rank);
  return out;
}

namespace {

using Kind = OpenClMapping::Kind;
using Operand = KernelSpec::Operand;

constexpr std::int64_t kShortRow = 32;  // elements that go through local memory
constexpr std::uint32_t kOfATree = 16;  // bytes of an item at most
constexpr std::size_t kLongBody = 100;  // instructions that are not written several times
constexpr std::uint32_t kVector = 4;

/// The sizes that a kernel has at most.
struct Bounds {
  const KernelSpec& spec;
  std::span<const std::int64_t> ints;

  std::int64_t stride(std::size_t operand, std::size_t axis) const {
    return ints[spec.rank() * (1 + operand) + axis];
  }
  std::int64_t inner() const {
    std::int64_t n = 1;
    for (std::size_t axis = spec.outer; axis < spec.rank(); ++axis)
      n *= spec.block && axis == spec.outer ? std::min(ints[axis], spec.block) : ints[axis];
    return n;
  }
};

bool has_inner(const KernelSpec& spec) {
  return spec.outer < spec.rank() &&
         std::any_of(spec.phases.begin(), spec.phases.end(),
                     [](const KernelSpec::Phase& p) { return p.inner; });
}

/// Whether neighbours along the last inner axis lie beside each other in memory, as those along the
/// last outer one do not.
bool lies_along_rows(const Bounds& b) {
  const KernelSpec& spec = b.spec;
  int along = 0, across = 0;
  for (std::size_t o = 0; o < spec.operands.size(); ++o) {
    along += b.stride(o, spec.rank() - 1) == 1;
    across +=
        spec.outer > 0 && b.stride(o, spec.outer - 1) == 1 && b.stride(o, spec.rank() - 1) != 1;
  }
  return along >= across;
}

/// In an inner phase, of an operand: it is loaded or stored.
bool is_used_inside(const KernelSpec& spec, std::size_t operand) {
  for (const KernelSpec::Phase& p : spec.phases)
    for (std::uint32_t i = p.begin; p.inner && i < p.end; ++i) {
      const Instr& in = spec.body[i];
      if ((in.prim == Prim::Load || in.prim == Prim::Store) &&
          in.integer == static_cast<std::int64_t>(operand))
        return true;
    }
  return false;
}

std::uint64_t local_bytes(const KernelSpec& spec, const OpenClMapping& m, std::uint64_t elements) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t o : m.staged)
    bytes += elements * static_cast<std::uint64_t>(size_of(spec.operands[o].dtype));
  return bytes;
}

/// Rows that are shorter than the items that run together.
bool map_to_rows(const Bounds& b, const OpenClFound& device, OpenClMapping& m) {
  const KernelSpec& spec = b.spec;
  const std::int64_t inner = b.inner();
  if (spec.block || spec.outer == 0 || inner < 2 || inner > kShortRow) return false;
  OpenClMapping rows = m;
  rows.kind = Kind::Rows;
  rows.columns = static_cast<std::uint32_t>(inner);
  for (std::uint32_t o = 0; o < spec.operands.size(); ++o) {
    bool whole = true;  // each of its elements has an inner point
    for (std::size_t axis = spec.outer; axis < spec.rank(); ++axis)
      whole = whole && (b.stride(o, axis) != 0 || b.ints[axis] == 1);
    if (whole && b.stride(o, spec.rank() - 1) == 1 && b.stride(o, spec.outer - 1) != 1 &&
        is_used_inside(spec, o))
      rows.staged.push_back(o);
  }
  if (rows.staged.empty() ||
      local_bytes(spec, rows, rows.items * (rows.columns | 1U)) > device.local_memory / 2)
    return false;
  m = rows;
  return true;
}

bool map_to_group(const Bounds& b, const OpenClFound& device, OpenClMapping& m) {
  const KernelSpec& spec = b.spec;
  const std::int64_t inner = b.inner();
  if (inner <= kShortRow) return false;
  const std::uint64_t items = inner <= 256 ? 64 : inner <= 2048 ? 128 : 256;
  const auto trees = static_cast<std::uint64_t>(std::count_if(
      spec.body.begin(), spec.body.end(), [](const Instr& in) { return in.prim == Prim::Reduce; }));
  if (trees * kOfATree * items > device.local_memory) return false;
  m.kind = Kind::Group;
  m.items = static_cast<std::uint32_t>(items);
  return true;
}

/// Operands that lie along another axis than the last are read and written along that.
bool map_to_tile(const Bounds& b, const OpenClFound& device, OpenClMapping& m) {
  const KernelSpec& spec = b.spec;
  const std::size_t rank = spec.rank();
  if (rank < 2 || spec.outer != rank) return false;
  constexpr std::int64_t kLeast = OpenClMapping::kSide / 4;
  OpenClMapping tile = m;
  tile.kind = Kind::Tile;
  const std::size_t last = rank - 1;
  for (std::uint32_t o = 0; o < spec.operands.size(); ++o) {
    bool whole = true;
    for (std::size_t axis = 0; axis < rank; ++axis)
      whole = whole && (b.stride(o, axis) != 0 || b.ints[axis] == 1);
    if (!whole || b.stride(o, last) == 1) continue;
    for (std::uint32_t axis = 0; axis < last; ++axis)
      if (b.stride(o, axis) == 1 && b.ints[axis] >= kLeast && b.ints[last] >= kLeast &&
          (tile.staged.empty() || tile.across == axis)) {
        tile.across = axis;
        tile.staged.push_back(o);
        break;
      }
  }
  constexpr std::uint64_t kElements = OpenClMapping::kSide * (OpenClMapping::kSide + 1);
  if (tile.staged.empty() || local_bytes(spec, tile, kElements) > device.local_memory / 2)
    return false;
  tile.items = 256;
  m = tile;
  return true;
}

}  // namespace

OpenClMapping map_kernel(const KernelSpec& spec, std::span<const std::int64_t> ints,
                         const OpenClFound& device) {
  OpenClMapping m;
  // With room for a group that goes beyond the end.
  constexpr double kMost = (1LL << 31) - 65536.0;
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
  const std::size_t bytes =
      16 + 16 * spec.operands.size() + width * runtime_ints(spec).size() + 8 * rank;
  m.ints_in_memory = bytes > device.argument_bytes;
  m.items = static_cast<std::uint32_t>(
      std::bit_floor(std::min<std::uint64_t>(m.items, device.most_items)));
  if (!device.gpu || device.most_items < 256) return m;
  const Bounds bounds{spec, ints};
  if (!has_inner(spec))
    map_to_tile(bounds, device, m);
  else if (lies_along_rows(bounds))
    map_to_rows(bounds, device, m) || map_to_group(bounds, device, m);
  return m;
}

bool is_vector(const KernelSpec& spec, const Operand& operand) {
  return spec.rank() > 0 && operand.strides[spec.rank() - 1] == 1;
}

std::optional<OpenClMapping> map_to_vectors(const KernelSpec& spec, const OpenClMapping& mapping,
                                            const OpenClFound& device) {
  const std::int64_t last = spec.rank() ? spec.extents[spec.rank() - 1] : 1;
  if (!device.gpu || mapping.kind != Kind::Item || mapping.ints_in_memory || has_inner(spec) ||
      spec.outer != spec.rank() || spec.rank() == 0 || spec.body.size() > kLongBody ||
      (last != KernelSpec::kRuntime && last % kVector != 0))
    return {};
  std::vector<bool> is_written(spec.operands.size());
  for (const Instr& in : spec.body) {
    if (in.prim == Prim::Store) is_written[in.integer] = true;
    if (in.prim == Prim::Load && is_written[in.integer]) return {};  // what it has stored itself
  }
  const auto some = [&](auto what) {
    return std::any_of(spec.operands.begin(), spec.operands.end(), what);
  };
  const bool pairs =
      mapping.pairs && std::any_of(spec.body.begin(), spec.body.end(),
                                   [](const Instr& in) { return in.dtype == DType::F64; });
  if (pairs || some([](const Operand& o) { return o.dtype == DType::F16; }) ||
      !some([&](const Operand& o) { return is_vector(spec, o); }))
    return {};
  OpenClMapping out = mapping;
  out.vector = kVector;
  return out;
}

bool allows_vectors(const KernelSpec& spec, const OpenClMapping& mapping,
                    std::span<const std::int64_t> ints, std::byte* const* operands) {
  const std::int64_t vector = mapping.vector;
  const std::size_t rank = spec.rank();
  if (ints[rank - 1] % vector != 0) return false;
  for (std::size_t o = 0; o < spec.operands.size(); ++o) {
    if (!is_vector(spec, spec.operands[o])) continue;
    const std::int64_t bytes = vector * size_of(spec.operands[o].dtype);
    if (reinterpret_cast<std::uintptr_t>(operands[o]) % static_cast<std::uint64_t>(bytes) != 0)
      return false;
    for (std::size_t axis = 0; axis + 1 < rank; ++axis)
      if (ints[axis] > 1 && ints[rank * (1 + o) + axis] % vector != 0) return false;
  }
  return true;
}

}  // namespace snug
