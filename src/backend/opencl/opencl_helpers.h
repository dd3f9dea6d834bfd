#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace snug {

/// Functions in OpenCL C that kernels use. The order of the keys is one in which each stands behind
/// those it calls.
using OpenClHelpers = std::map<std::string, std::string>;

/// The text of a function, of which some have another one for float64. In it
///   $T $U $I         the type, the unsigned and the signed integers of its size
///   $W               the unsigned type that integers of this type wrap in
///   $(1.5) $(1, 2)   a number of the type; for float32, for float64
///   $ln2 $P(sine, z) a number, a polynomial of z of kernel/math_constants.h
///   $exp(            another function, of the same type
/// The name of the type is appended to that of the function if there is $T in the text.
struct OpenClHelper {
  const char* name;
  const char* text;
  const char* of_float64 = nullptr;
};

/// Adds a function and all that it calls; gives its name in the text.
std::string add_helper(OpenClHelpers& helpers, std::string_view name, DType t = DType::F32);

}  // namespace snug
