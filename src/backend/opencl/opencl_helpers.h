#pragma once
#include <string>

namespace snug {

/// A function of the prelude in OpenCL C. $T stands for its type, whose name is appended to that of
/// the function, $W for the unsigned type that integers of this type wrap in.
std::string opencl_helper(const std::string& name);

}  // namespace snug
