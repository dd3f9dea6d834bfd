#pragma once
#include "data/file.h"
#include "data/source.h"

namespace snug::data {

/// Where a format keeps the rows of an array: one after the other from byte `offset` on.
struct RawArray {
  BytesPtr bytes;
  std::int64_t offset = 0;
  DType dtype = DType::U8;
  bool swapped = false;  // the other byte order
  Dims shape;            // with the axis of rows
};
/// Checks shape and offset against the bytes that are there. A 0-d array is refused.
SourcePtr raw_rows(const RawArray& array, std::string name);

}  // namespace snug::data
