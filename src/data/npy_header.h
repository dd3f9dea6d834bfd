#pragma once
#include <functional>
#include <utility>

#include "data/raw_rows.h"

namespace snug::data {

/// The array whose .npy header begins `bytes`; of the header alone, the rows are not touched.
RawArray read_npy_header(BytesPtr bytes);

/// The arrays of a .npz file by name, in their order; those that are not wanted are left empty.
std::vector<std::pair<std::string, RawArray>> npz_arrays(
    const std::string& path, const std::function<bool(const std::string& name)>& wanted);

}  // namespace snug::data
