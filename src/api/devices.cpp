#include "api/devices.h"

#include "compile.h"

namespace snug {

FoundDevices devices() { return devices_of_machine(); }

}  // namespace snug
