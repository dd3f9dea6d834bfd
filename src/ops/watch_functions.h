#pragma once
#include <functional>
#include <string>
#include <vector>

#include "expr/expr.h"

/// Values that are what they were, with a meaning of their own: for the gradient, or for whoever
/// watches the run.
namespace snug {

/// x; its gradient is 0. `disconnected_grad`: as if nothing depended on x; differentiating by what
/// is only reached through it is an error.
Expr stop_gradient(const Arg& x);
Expr disconnected_grad(const Arg& x);
/// x; asking for its gradient is an error.
Expr undefined_grad(const Arg& x);
/// x; its gradient is clipped to [lower, upper], or multiplied.
Expr grad_clip(const Arg& x, double lower, double upper);
Expr grad_scale(const Arg& x, double multiplier);

/// x on a device ("cpu", "opencl:0"), where what is made of it is, too, unless it is put elsewhere.
/// A function with such an expression uses the device.
Expr on_device(const Arg& x, const std::string& device);

/// x; when it runs, `show` gets its value, once per call or iteration of a loop and before any
/// shared variable is changed. `show` must not call functions that use the same shared variables,
/// which are locked; what it throws ends the call. A null `show` does nothing.
Expr print(const Arg& x, std::string message, std::function<void(const Array&)> show);
/// x; the call fails with the message if one of the 0-d conditions is 0, before any shared variable
/// is changed.
Expr assert_(const Arg& x, const std::vector<Expr>& conditions, std::string message = {});

}  // namespace snug
