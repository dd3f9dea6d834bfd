#pragma once
#include <memory>

#include "kernel/library.h"

/// Calls of the table of OpenCL devices, whose text is here.
namespace snug::opencl_routines {

using Prepared = std::unique_ptr<PreparedCall>;

Prepared prepare_affine(const CallSite& site);
Prepared prepare_dot(const CallSite& site);

}  // namespace snug::opencl_routines
