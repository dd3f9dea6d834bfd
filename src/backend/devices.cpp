#include "backend/devices.h"

#include <fmt/format.h>

#include <cstdlib>

#include "backend/host_library.h"
#include "backend/sim/sim_device.h"

namespace snug {
namespace {

class Host : public Device {
 public:
  const DeviceInfo& info() const override { return host_device(); }
  LibraryTable library() const override { return host_library(); }
  bool runs(const Graph&, const Node&) const override { return true; }
};

const Device& host() {
  static const Host device;
  return device;
}

}  // namespace

std::shared_ptr<const DeviceList> host_only() {
  static const std::shared_ptr<const DeviceList> list = host_and({});
  return list;
}

std::shared_ptr<const DeviceList> host_and(std::vector<std::shared_ptr<Accelerator>> others) {
  return std::make_shared<const DeviceList>(host(), std::move(others));
}

std::shared_ptr<const DeviceList> devices_of_process() {
  static const auto list = [] {
    std::vector<std::shared_ptr<Accelerator>> others;
    const char* const sims = std::getenv("SNUG_SIMS");
    for (int k = 0; sims && k < std::atoi(sims); ++k)
      others.push_back(
          std::make_shared<SimDevice>(SimDevice::Options{.name = fmt::format("sim:{}", k)}));
    return others.empty() ? host_only() : host_and(std::move(others));
  }();
  return list;
}

}  // namespace snug
