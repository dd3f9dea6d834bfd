#pragma once
#include <span>
#include <string_view>

#include "backend/opencl/opencl_helpers.h"

namespace snug {

namespace math {
struct Pair;
struct Polynomial;
}  // namespace math

/// The functions of mathematics by operations that OpenCL rounds correctly: within 4 ULP on each
/// device where division and square roots are, too. float32 needs no float64. The largest errors
/// found, in ULP of float32 and float64: tan 3.3 and 3.5, erfc 3.4 and 3.1, erfcx 3.2 and 2.6, tanh
/// 2.1 and 2.5, pow 1.1, all others at most 2.3. Null if there is none of a name.
const OpenClHelper* find_opencl_function(std::string_view name);

/// Those of base/special.h and those they call; of float64 alone.
std::span<const OpenClHelper> special_opencl_functions();

/// What texts call a number or a polynomial of kernel/math_constants.h; null if there is none.
const math::Pair* find_math_constant(std::string_view name);
const math::Polynomial* find_math_polynomial(std::string_view name);

}  // namespace snug
