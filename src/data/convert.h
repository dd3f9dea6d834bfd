#pragma once
#include <span>

#include "base/array.h"

namespace snug::data {

/// Real numbers of one dtype as another, as NumPy's astype. The memory need not be aligned.
void convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count);

/// out = in * scale + offset, computed in float64 if `to` is float64, in float32 otherwise.
/// `to` is a float.
void scale(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
           double scale, double offset);

}  // namespace snug::data
