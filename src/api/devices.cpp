#include "api/devices.h"

#include "compile.h"

namespace snug {
namespace {

const std::string& required(const std::string& device) {
  require_device(device);
  return device;
}

}  // namespace

FoundDevices devices() { return devices_of_machine(); }

OnDevice::OnDevice(const std::string& device) : scope_(required(device)) {}

}  // namespace snug
