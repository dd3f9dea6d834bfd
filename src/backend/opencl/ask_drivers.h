#pragma once
#include <string>
#include <vector>

namespace snug {

/// What the drivers of this process say, as JSON: devices, and why there may be others.
std::string ask_drivers(const std::string& devices_folder);

}  // namespace snug
