#pragma once
#include "kernel/library.h"

namespace snug::native {

/// A slice of an array: its layout, and its first element, counted from that of the array.
struct SlicePlace {
  ArgDesc part;
  std::int64_t offset = 0;
};
/// `spec` as slice_set has it; `bounds`: per bound that it has, its value. An Index error names an
/// index that is outside.
SlicePlace place_slice(const Attrs::Ints& spec, const ArgDesc& x,
                       const std::int64_t* const* bounds);

/// y as if it had the shape of the slice: missing axes and axes of size 1 repeat.
ArgDesc stretch(const ArgDesc& y, const Dims& shape);

}  // namespace snug::native
