#include "backend/devices.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "backend/host_library.h"
#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_device.h"
#include "backend/sim/sim_device.h"
#include "base/error.h"
#include "base/fork.h"

namespace snug {
namespace {

class Host : public Device {
 public:
  const DeviceInfo& info() const override { return host_device(); }
  LibraryTable library() const override { return host_library(); }
  bool runs(const Graph&, const Node&, bool) const override { return true; }
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

namespace {

/// OpenCL devices of this machine, each opened when it is first asked for.
class OpenClDevices {
 public:
  std::shared_ptr<Accelerator> named(const std::string& name) {
    const std::lock_guard lock(mutex_);
    search();
    for (const OpenClFound& f : found_->devices) {
      if (f.name != name) continue;
      std::shared_ptr<Accelerator>& device = open_[name];
      if (!device) device = std::make_shared<OpenClDevice>(f);
      return device;
    }
    std::string there = "cpu";
    for (const OpenClFound& f : found_->devices) there += fmt::format(", {} ({})", f.name, f.model);
    fail(Fault::Device,
         fmt::format("there is no device '{}'; there are: {}{}{}", name, there,
                     found_->trouble.empty() ? "" : "; ", found_->trouble),
         "snug devices lists them, and why others cannot be used");
  }

  OpenClSearch all() {
    const std::lock_guard lock(mutex_);
    search();
    return *found_;
  }

 private:
  void search() {
    if (!found_) found_ = find_opencl_devices();
  }
  LongMutex mutex_;
  std::optional<OpenClSearch> found_;
  std::map<std::string, std::shared_ptr<Accelerator>> open_;
};

/// They stay open to the end of the process: drivers unload themselves in any order.
OpenClDevices& opencl_devices() {
  static auto* const devices = new OpenClDevices;
  return *devices;
}

}  // namespace

std::shared_ptr<const DeviceList> host_and_named(const std::string& name) {
  if (name == "cpu" || name == "cpu:0") return host_only();
  return host_and({opencl_devices().named(name)});
}

FoundDevices find_devices() {
  const DeviceInfo& host = host_device();
  FoundDevices out;
  out.devices.push_back({.name = "cpu",
                         .model = host.model,
                         .driver = {},
                         .units = host.cores,
                         .memory = static_cast<std::uint64_t>(host.memory_bytes)});
  OpenClSearch found = opencl_devices().all();
  out.trouble = std::move(found.trouble);
  for (const OpenClFound& f : found.devices)
    out.devices.push_back({f.name, f.model, fmt::format("{}, driver {}", f.version, f.driver),
                           f.gpu, f.fp64, f.fp16, f.units, f.memory, f.largest_allocation});
  return out;
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
