#pragma once
#include <string>

#include "base/origin_marks.h"
#include "target/found_device.h"

namespace snug {

/// The devices of this machine that functions can run on (FunctionOptions::device), the host first;
/// others are looked for once per process, in a process of their own.
FoundDevices devices();

/// Expressions and shared variables that are built on this thread while it lives are on a device
/// ("cpu", "opencl:0"), in whatever function they are, and so are gradients of them; all else is
/// where the function is. A Device error if there is no such device.
class OnDevice {
 public:
  explicit OnDevice(const std::string& device);

 private:
  DeviceMarkScope scope_;
};

}  // namespace snug
