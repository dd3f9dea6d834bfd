#pragma once
#include <string>

namespace snug {

/// "412 us", "391 ms", "23.4 s", "35 min", "14 h", "43 days"
std::string describe_seconds(double seconds);

}  // namespace snug
