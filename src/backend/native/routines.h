#pragma once
#include <memory>

#include "kernel/library.h"

namespace snug::native {

// What the table of the CPU's library calls lists besides oneDNN; each is described at the op.
using Prepared = std::unique_ptr<PreparedCall>;

Prepared prepare_argsort(const CallSite& site);
Prepared prepare_argtopk(const CallSite& site);
Prepared prepare_assert(const CallSite& site);
Prepared prepare_average_pool(const CallSite& site);
Prepared prepare_average_pool_grad(const CallSite& site);
Prepared prepare_check_index(const CallSite& site);
Prepared prepare_cholesky(const CallSite& site);
Prepared prepare_concatenate(const CallSite& site);
Prepared prepare_conv2d(const CallSite& site);
Prepared prepare_conv2d_grad_input(const CallSite& site);
Prepared prepare_conv2d_grad_weight(const CallSite& site);
Prepared prepare_cumprod(const CallSite& site);
Prepared prepare_cumsum(const CallSite& site);
Prepared prepare_det(const CallSite& site);
Prepared prepare_dot(const CallSite& site);  // and batched_dot
Prepared prepare_eig(const CallSite& site);
Prepared prepare_eigh(const CallSite& site);
Prepared prepare_eigvalsh(const CallSite& site);
Prepared prepare_expm(const CallSite& site);
Prepared prepare_fft(const CallSite& site);
Prepared prepare_gather(const CallSite& site);
Prepared prepare_inverse(const CallSite& site);
Prepared prepare_irfft(const CallSite& site);
Prepared prepare_linear_recurrence(const CallSite& site);
Prepared prepare_lstsq(const CallSite& site);
Prepared prepare_max_pool(const CallSite& site);
Prepared prepare_max_pool_take(const CallSite& site);
Prepared prepare_max_unpool(const CallSite& site);
Prepared prepare_nonzero(const CallSite& site);
Prepared prepare_pair(const CallSite& site);
Prepared prepare_print(const CallSite& site);
Prepared prepare_qr(const CallSite& site);
Prepared prepare_qr_r(const CallSite& site);
Prepared prepare_rfft(const CallSite& site);
Prepared prepare_scatter_add(const CallSite& site);
Prepared prepare_scatter_set(const CallSite& site);
Prepared prepare_searchsorted(const CallSite& site);
Prepared prepare_slice_inc(const CallSite& site);
Prepared prepare_slice_set(const CallSite& site);
Prepared prepare_slogdet(const CallSite& site);
Prepared prepare_solve(const CallSite& site);
Prepared prepare_sort(const CallSite& site);
Prepared prepare_svd(const CallSite& site);
Prepared prepare_svdvals(const CallSite& site);

}  // namespace snug::native
