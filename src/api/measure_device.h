#pragma once
#include <string>

#include "target/device_info.h"

namespace snug {

/// This machine's processor as `host_device` has it, with the rates of our own kernels and of the
/// libraries measured: what predictions of time stand on. Measuring takes some seconds, never more
/// than five and a probe, once per machine and version: the rates are kept in the directory of the
/// code cache. If others used the machine all the while, they say so, serve for an hour only, and
/// are measured again as soon as a process needs them and finds the machine idle.
const DeviceInfo& measured_host();

/// The same if it was measured before; null if not.
const DeviceInfo* measured_host_if_known();

/// The same, measured if need be; null if the limits of the process leave too little for that.
const DeviceInfo* measured_host_if_possible();

/// Measures now, and says so on a terminal. On a busy machine it measures less, and `rate_factor`
/// is larger.
DeviceInfo measure_host();

/// Whether nobody else uses the machine, as /proc/loadavg has it.
bool machine_is_idle(const std::string& file, int cores);

}  // namespace snug
