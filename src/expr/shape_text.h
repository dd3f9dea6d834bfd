#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/array.h"

namespace snug {

inline constexpr std::int64_t kUnknownSize = INT64_MIN;

/// Puts shapes into the text of an error: "{0}" is the first shape, "{1.0}" the first size of the
/// second, "?" where a size is kUnknownSize. A text without such places gets the shapes behind
/// it, but for those of 0-d operands, which say nothing:
///   "dot: inner sizes differ" -> "dot: inner sizes differ: (32, 10) and (4, 10)"
std::string with_shapes(const std::string& text, const std::vector<Dims>& shapes);

/// The same without shapes behind a text that has no places; for hints.
std::string fill_shapes(const std::string& text, const std::vector<Dims>& shapes);

}  // namespace snug
