#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/kernel_spec.h"

namespace snug {

/// How a kernel is shared among threads: pieces of one of its outer axes that begin at multiples of
/// `grain`.
struct KernelCut {
  std::size_t axis = 0;
  std::int64_t grain = 1;
};

/// The first outer axis, unless it has too few pieces for the threads and there is a longer one
/// that may be cut. An axis along which operands lie in memory is cut in pieces of whole vectors.
/// `extents` are those of the outer axes in this run.
KernelCut choose_cut(const KernelSpec& spec, const std::int64_t* extents, int threads);

}  // namespace snug
