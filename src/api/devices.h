#pragma once
#include "target/found_device.h"

namespace snug {

/// The devices of this machine that functions can run on (FunctionOptions::device), the host first;
/// others are looked for once per process, in a process of their own.
FoundDevices devices();

}  // namespace snug
