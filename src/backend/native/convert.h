#pragma once
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace snug::native {

/// Contiguous float16 or bfloat16 elements to float and back (round to nearest even).
void widen(DType dtype, const std::byte* from, float* to, std::int64_t count, int threads = 1);
void narrow(DType dtype, const float* from, std::byte* to, std::int64_t count, int threads = 1);

}  // namespace snug::native
