#pragma once
#include <memory>

#include "kernel/library.h"

/// Calls of the table of OpenCL devices, whose text is here.
namespace snug::opencl_routines {

using Prepared = std::unique_ptr<PreparedCall>;

Prepared prepare_affine(const CallSite& site);
Prepared prepare_average_pool(const CallSite& site);
Prepared prepare_average_pool_grad(const CallSite& site);
Prepared prepare_concatenate(const CallSite& site);
Prepared prepare_conv(const CallSite& site);
Prepared prepare_conv_grad_input(const CallSite& site);
Prepared prepare_conv_grad_weight(const CallSite& site);
Prepared prepare_dot(const CallSite& site);
Prepared prepare_gather(const CallSite& site);
Prepared prepare_max_pool(const CallSite& site);
Prepared prepare_max_pool_take(const CallSite& site);
Prepared prepare_max_unpool(const CallSite& site);
Prepared prepare_scatter_add(const CallSite& site);
Prepared prepare_scatter_set(const CallSite& site);
Prepared prepare_slice_inc(const CallSite& site);
Prepared prepare_slice_set(const CallSite& site);

}  // namespace snug::opencl_routines
