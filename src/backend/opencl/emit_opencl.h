#pragma once
#include <string>

#include "backend/opencl/opencl_mapping.h"
#include "backend/opencl/opencl_text.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// The function's name for people: "snug_mul_add_tanh_f32_r2".
std::string opencl_name(const KernelSpec& spec);

/// A kernel as OpenCL C 1.2. Its arguments are
///   go, per operand its memory and the element of index 0 on all axes, the integers that are no
///   constants (runtime_ints; or a memory that holds them, and the element they begin at), a factor
///   and a shift per divisor (divisor_axes), end
/// `end` is the number of outer points, or of vectors of them; a Tile has no use for it. 16-bit
/// floats are float in registers and rounded by Cast and Store. Throws Unsupported for what OpenCL
/// C cannot do.
OpenClText emit_opencl(const KernelSpec& spec, const OpenClMapping& mapping);

}  // namespace snug
