#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/opencl/find_devices.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// How the points of a fused loop nest go to the work items of a device.
struct OpenClMapping {
  enum class Kind : std::uint8_t {
    Item,   // an item has a point of the outer axes
    Group,  // a group has one, whose inner points its items share
    Rows,   // an item has one; what lies along its inner points comes and goes through local memory
    Tile,   // a group has a square of points; what lies across its rows goes through local memory
  };
  Kind kind = Kind::Item;
  bool wide = true;                   // indices have 64 bits; 32 serve below 2^31 elements
  bool ints_in_memory = false;        // the integers do not fit among the arguments of a kernel
  std::uint32_t items = 64;           // of a work group
  std::uint32_t vector = 1;           // Item: points of the last axis that an item has
  std::uint32_t columns = 0;          // Rows: inner points at most
  std::uint32_t across = 0;           // Tile: the axis of its rows; its columns are along the last
  std::vector<std::uint32_t> staged;  // operands that go through local memory
  /// float64, in which sums are added up, is a pair of float32: the device has none.
  bool pairs = false;

  static constexpr std::uint32_t kSide = 32;  // of a Tile
};

/// For sizes of at most `ints`, as KernelFn has them.
OpenClMapping map_kernel(const KernelSpec& spec, std::span<const std::int64_t> ints,
                         const OpenClFound& device);
/// Besides, where it may pay: items with vectors, for sizes and addresses that allow them.
std::optional<OpenClMapping> map_to_vectors(const KernelSpec& spec, const OpenClMapping& mapping,
                                            const OpenClFound& device);
/// Operands that are read and written by vectors.
bool is_vector(const KernelSpec& spec, const KernelSpec::Operand& operand);
bool allows_vectors(const KernelSpec& spec, const OpenClMapping& mapping,
                    std::span<const std::int64_t> ints, std::byte* const* operands);

/// The numbers of `ints` that code reads: extents and strides that are no constants.
std::vector<std::uint32_t> runtime_ints(const KernelSpec& spec);

/// Division of n in [0, 2^31) by a number that is known before: (mul_hi(n, factor) + n) >> shift.
struct Divisor {
  std::uint32_t factor = 1;
  std::int32_t shift = 0;
};
Divisor divisor_of(std::int64_t n);
/// Axes by whose extents code divides so; in units of vectors along the last one.
std::vector<std::uint32_t> divisor_axes(const KernelSpec& spec, const OpenClMapping& mapping);

}  // namespace snug
