#pragma once
#include "target/device_info.h"

namespace snug {

/// This machine's processor as `host_device` has it, with the rates of our own kernels and of the
/// libraries measured: what predictions of time stand on. Measuring takes a second or two, once per
/// machine and version: the rates are kept in the directory of the code cache. If others used the
/// machine all the while, they serve for an hour only.
const DeviceInfo& measured_host();

/// The same if it was measured before; null if not.
const DeviceInfo* measured_host_if_known();

/// The same, measured if need be; null if the limits of the process leave too little for that.
const DeviceInfo* measured_host_if_possible();

/// Measures now.
DeviceInfo measure_host();

}  // namespace snug
