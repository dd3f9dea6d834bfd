#pragma once
#include <cstddef>

#include "kernel/library.h"

namespace snug::native {

/// Copies elements between two arrays of one dtype and shape with any strides; they do not overlap.
/// Strides of `to` are not 0 where its size is above 1.
void copy(const ArgDesc& to, std::byte* to_data, const ArgDesc& from, const std::byte* from_data,
          int threads);

/// memcpy, on several threads if it is large.
void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, int threads);

}  // namespace snug::native
