#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/device.h"
#include "target/found_device.h"

namespace snug {

/// The processor of this machine, alone.
std::shared_ptr<const DeviceList> host_only();
/// With others behind it.
std::shared_ptr<const DeviceList> host_and(std::vector<std::shared_ptr<Accelerator>> others);
/// With the devices of these names ("opencl:0"), in their order, each opened once per process;
/// "cpu": none. A Device error names those that there are.
std::shared_ptr<const DeviceList> host_and_named(const std::vector<std::string>& names);
/// The Device error of `host_and_named`; opens nothing.
void require_device_named(const std::string& name);
/// All devices of this machine; the others than the host are looked for once per process.
FoundDevices find_devices();
/// With as many simulated ones as SNUG_SIMS says, over which all is scattered: for tests.
std::shared_ptr<const DeviceList> devices_of_process();

}  // namespace snug
