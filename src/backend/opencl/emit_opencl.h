#pragma once
#include <string>

#include "kernel/kernel_spec.h"

namespace snug {

/// The function's name in the source: "snug_mul_add_tanh_f32_r2".
std::string opencl_name(const KernelSpec& spec);

/// A kernel as OpenCL C 1.2, one work item per point of the flattened outer axes:
///   __kernel void snug_name(__global T* p0, long o0, ..., __global const long* ints, long end)
/// `o` is the element of index 0 on all axes, `ints` as in KernelFn; constants are folded in. Work
/// items at `end` and beyond do nothing. 16-bit floats are float in registers and rounded by Cast
/// and Store. Throws Unsupported for what OpenCL C cannot do.
std::string emit_opencl(const KernelSpec& spec);

}  // namespace snug
