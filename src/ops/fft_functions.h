#pragma once
#include <string>
#include <vector>

#include "expr/expr.h"

namespace snug {

/// Discrete Fourier transforms with NumPy's meaning. `n`: the number of points, of which missing
/// ones are 0 and further ones are left out; for irfft, of the result. `norm`: "backward" (1/n on
/// inverse transforms), "ortho" (1/sqrt(n) on both), "forward" (1/n on the others) or "no_norm".
struct Points {
  Expr count;  // int64, 0-d; null: as many as there are
  Points() = default;
  Points(int n) : Points(static_cast<std::int64_t>(n)) {}
  Points(std::int64_t n);
  Points(const Expr& n);
};
Expr fft(const Arg& x, const Points& n = {}, std::int64_t axis = -1,
         const std::string& norm = "backward");
Expr ifft(const Arg& x, const Points& n = {}, std::int64_t axis = -1,
          const std::string& norm = "backward");
/// Of real values: the first n / 2 + 1 elements, which say all.
Expr rfft(const Arg& x, const Points& n = {}, std::int64_t axis = -1,
          const std::string& norm = "backward");
/// The real values; n is even unless given.
Expr irfft(const Arg& x, const Points& n = {}, std::int64_t axis = -1,
           const std::string& norm = "backward");
/// Along several axes. `sizes`: as `n`, one per axis, or none. Without axes: as many last axes as
/// there are sizes, or all.
Expr fftn(const Arg& x, const std::vector<std::int64_t>& sizes = {},
          const std::vector<std::int64_t>& axes = {}, const std::string& norm = "backward");
Expr ifftn(const Arg& x, const std::vector<std::int64_t>& sizes = {},
           const std::vector<std::int64_t>& axes = {}, const std::string& norm = "backward");
/// Moves the element of frequency 0 to the middle of the axes (none given: of all), and back.
Expr fftshift(const Arg& x, const std::vector<std::int64_t>& axes = {});
Expr ifftshift(const Arg& x, const std::vector<std::int64_t>& axes = {});

}  // namespace snug
