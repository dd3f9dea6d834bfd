#pragma once
#include <cstdint>
#include <string>

#include "base/inline_vec.h"

namespace snug {

/// While a batch runs in slices: the number of the slice's first row, for messages.
inline thread_local std::int64_t first_row_of_slice = 0;

/// An Index error: "cross_entropy: label -1 of row 17 is not one of the 3 classes 0 to 2".
/// `element` is the place of the label among those of shape `labels`, in C order.
[[noreturn]] void fail_label(const std::string& what, std::int64_t label, const Dims& labels,
                             std::int64_t element, std::int64_t classes);

}  // namespace snug
