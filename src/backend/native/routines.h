#pragma once
#include <memory>

#include "kernel/library.h"

namespace snug::native {

// What the table of the CPU's library calls lists besides oneDNN; each is described at the op.
using Prepared = std::unique_ptr<PreparedCall>;

Prepared prepare_check_index(const CallSite& site);
Prepared prepare_cholesky(const CallSite& site);
Prepared prepare_concatenate(const CallSite& site);
Prepared prepare_conv2d(const CallSite& site);
Prepared prepare_conv2d_grad_input(const CallSite& site);
Prepared prepare_conv2d_grad_weight(const CallSite& site);
Prepared prepare_dot(const CallSite& site);  // and batched_dot
Prepared prepare_fft(const CallSite& site);
Prepared prepare_gather(const CallSite& site);
Prepared prepare_irfft(const CallSite& site);
Prepared prepare_nonzero(const CallSite& site);
Prepared prepare_pair(const CallSite& site);
Prepared prepare_rfft(const CallSite& site);
Prepared prepare_scatter_add(const CallSite& site);
Prepared prepare_scatter_set(const CallSite& site);
Prepared prepare_slice_inc(const CallSite& site);
Prepared prepare_slice_set(const CallSite& site);
Prepared prepare_solve(const CallSite& site);

}  // namespace snug::native
