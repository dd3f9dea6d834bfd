#pragma once
#include "data/file.h"
#include "data/source.h"

namespace snug::data {

/// Where a format keeps the elements of an array: from byte `offset` on, row after row or, in
/// Fortran order, column after column.
struct RawArray {
  BytesPtr bytes;
  std::int64_t offset = 0;
  DType dtype = DType::U8;
  bool swapped = false;  // the other byte order
  bool fortran = false;
  Dims shape;  // with the axis of rows
};
/// Checks shape and offset against the bytes that are there. A 0-d array is refused.
SourcePtr raw_rows(const RawArray& array, std::string name);

}  // namespace snug::data
