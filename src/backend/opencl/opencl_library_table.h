#pragma once
#include "kernel/library.h"

namespace snug {

/// The ops that OpenCL devices do by kernels of our own, besides those of fused loops.
LibraryTable opencl_library_table();

}  // namespace snug
