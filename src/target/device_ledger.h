#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/fork.h"

namespace snug {

/// What of ours is in the memory of a device that is not the host, and whose it is: drivers accept
/// more than there is. Threads may use it at once.
class DeviceLedger {
 public:
  /// `memory`: bytes that the device has; 0: not known.
  DeviceLedger(std::string device, std::uint64_t memory);
  ~DeviceLedger();
  DeviceLedger(const DeviceLedger&) = delete;
  DeviceLedger& operator=(const DeviceLedger&) = delete;

  const std::string& device() const { return device_; }
  /// A Memory error, before anything changes, if there is no room for `bytes` or the budget of the
  /// process for the device does not allow them.
  void claim(std::uint64_t bytes, const std::string& whose);
  void unclaim(std::uint64_t bytes, const std::string& whose) noexcept;
  std::uint64_t claimed() const;
  /// Bytes that we may have on it; 0: as many as it has.
  void set_limit(std::uint64_t bytes);
  std::uint64_t limit() const;  // what it has, or less; 0: not known
  /// The largest first.
  std::vector<std::pair<std::string, std::uint64_t>> owners() const;

 private:
  const std::string device_;
  const std::uint64_t memory_;
  mutable BriefMutex mutex_;
  std::map<std::string, std::uint64_t> of_;  // bytes by whose they are
  std::uint64_t claimed_ = 0, limit_ = 0;
};

/// What this process has in the memory of a device.
struct DeviceMemoryUse {
  std::string device;
  std::uint64_t claimed = 0, limit = 0, budget = 0;           // limit, budget: 0 if there is none
  std::vector<std::pair<std::string, std::uint64_t>> owners;  // the largest first
};
/// Of all devices that are open.
std::vector<DeviceMemoryUse> device_memory_of_process();

}  // namespace snug
