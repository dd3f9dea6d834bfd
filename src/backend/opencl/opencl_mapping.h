#pragma once
#include <cstdint>
#include <span>

#include "backend/opencl/find_devices.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// How the points of a fused loop nest go to the work items of a device.
struct OpenClMapping {
  bool wide = true;             // indices have 64 bits; 32 serve below 2^31 elements
  bool ints_in_memory = false;  // the integers do not fit among the arguments of a kernel
  std::uint32_t items = 64;     // of a work group
  /// A group has a point of the outer axes, whose inner points its items share; else an item has
  /// one.
  bool group = false;
  /// float64, in which sums are added up, is a pair of float32: the device has none.
  bool pairs = false;
};

/// For sizes of at most `ints`, as KernelFn has them.
OpenClMapping map_kernel(const KernelSpec& spec, std::span<const std::int64_t> ints,
                         const OpenClFound& device);

/// The numbers of `ints` that code reads: extents and strides that are no constants.
std::vector<std::uint32_t> runtime_ints(const KernelSpec& spec);

}  // namespace snug
