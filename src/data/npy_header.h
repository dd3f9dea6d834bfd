#pragma once
#include "data/raw_rows.h"

namespace snug::data {

/// The array whose .npy header begins `bytes`; of the header alone, the rows are not touched.
RawArray read_npy_header(BytesPtr bytes);

}  // namespace snug::data
