#include "backend/devices.h"

#include <fmt/format.h>

#include <algorithm>
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
    return open(described(name));
  }

  void require(const std::string& name) {
    const std::lock_guard lock(mutex_);
    search();
    described(name);
  }

  OpenClSearch all() {
    const std::lock_guard lock(mutex_);
    search();
    return *found_;
  }

 private:
  std::shared_ptr<Accelerator> open(const OpenClFound& found) {
    std::shared_ptr<OpenClDevice>& device = open_[found.name];
    if (!device) device = std::make_shared<OpenClDevice>(found);
    device->require_usable();
    return device;
  }
  void search() {
    if (!found_) found_ = find_opencl_devices();
  }
  const OpenClFound& described(const std::string& name) const {
    for (const OpenClFound& card : found_->devices) {
      if (card.name == name) return card;
      for (const OpenClFound& f : card.others)
        if (f.name == name) return f;
    }
    std::string there = "cpu";
    for (const OpenClFound& f : found_->devices) there += fmt::format(", {} ({})", f.name, f.model);
    fail(Fault::Device,
         fmt::format("there is no device '{}'; there are: {}{}{}", name, there,
                     found_->trouble.empty() ? "" : "; ", found_->trouble),
         "snug devices lists them, and why others cannot be used");
  }

  LongMutex mutex_;
  std::optional<OpenClSearch> found_;
  std::map<std::string, std::shared_ptr<OpenClDevice>> open_;
};

/// They stay open to the end of the process: drivers unload themselves in any order.
OpenClDevices& opencl_devices() {
  static auto* const devices = new OpenClDevices;
  return *devices;
}

}  // namespace

std::shared_ptr<const DeviceList> host_and_named(const std::vector<std::string>& names) {
  std::vector<std::shared_ptr<Accelerator>> others;
  for (const std::string& name : names) {
    if (name == "cpu" || name == "cpu:0") continue;
    std::shared_ptr<Accelerator> device = opencl_devices().named(name);
    if (std::find(others.begin(), others.end(), device) == others.end())
      others.push_back(std::move(device));
  }
  return others.empty() ? host_only() : host_and(std::move(others));
}

void require_device_named(const std::string& name) {
  if (name != "cpu" && name != "cpu:0") opencl_devices().require(name);
}

namespace {

FoundDevice told(const OpenClFound& f) {
  FoundDevice out{f.name,   f.model,  fmt::format("{}, driver {}", f.version, f.driver),
                  f.gpu,    f.fp64,   f.fp16,
                  f.units,  f.memory, f.largest_allocation,
                  f.trouble};
  for (const OpenClFound& other : f.others) out.others.push_back(told(other));
  return out;
}

}  // namespace

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
  for (const OpenClFound& f : found.devices) out.devices.push_back(told(f));
  for (const OpenClFound& f : found.unusable) out.unusable.push_back(told(f));
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
