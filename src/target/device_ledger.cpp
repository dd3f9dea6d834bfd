#include "target/device_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/spelling.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

BriefMutex mutex;  // guards ledgers
std::vector<const DeviceLedger*>& ledgers() {
  static auto* const all = new std::vector<const DeviceLedger*>;  // devices may live to the end
  return *all;
}

using Owners = std::vector<std::pair<std::string, std::uint64_t>>;

Owners largest_first(const std::map<std::string, std::uint64_t>& of) {
  Owners owners(of.begin(), of.end());
  std::stable_sort(owners.begin(), owners.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return owners;
}

}  // namespace

DeviceLedger::DeviceLedger(std::string device, std::uint64_t memory)
    : device_(std::move(device)), memory_(memory) {
  const std::lock_guard lock(mutex);
  ledgers().push_back(this);
}

DeviceLedger::~DeviceLedger() {
  const std::lock_guard lock(mutex);
  std::erase(ledgers(), this);
}

void DeviceLedger::claim(std::uint64_t bytes, const std::string& whose) {
  const std::uint64_t budget = device_memory_budget(device_);
  const std::lock_guard lock(mutex_);
  const std::uint64_t has = limit_ ? limit_ : memory_;
  const bool by_budget = budget > 0 && (has == 0 || budget < has);
  const std::uint64_t most = by_budget ? budget : has;
  if (most > 0 && (claimed_ > most || bytes > most - claimed_)) {
    Owners owners = largest_first(of_);
    if (owners.size() > 3) owners.resize(3);
    std::string there;
    for (const auto& [who, bytes_of] : owners)
      there += fmt::format("{}{} {}", there.empty() ? ": " : ", ", who, describe_bytes(bytes_of));
    fail_memory(
        {.needed = claimed_ + bytes, .allowed = most, .device = device_},
        fmt::format(
            "{}: {} needs {} ({} bytes), and of {} ({} bytes) {} are taken{}", device_, whose,
            describe_bytes(bytes), bytes,
            by_budget ? "the budget of the process, " + describe_bytes(most) : describe_bytes(most),
            most, describe_bytes(claimed_), there),
        by_budget
            ? fmt::format("let go of variables or functions, use a smaller batch, or raise {}",
                          process_budget_name())
            : "use a smaller batch, give the function a budget for the device, or free other "
              "functions and variables");
  }
  claimed_ += bytes;
  of_[whose] += bytes;
}

void DeviceLedger::unclaim(std::uint64_t bytes, const std::string& whose) noexcept {
  const std::lock_guard lock(mutex_);
  claimed_ -= bytes;
  const auto it = of_.find(whose);
  if (it != of_.end() && (it->second -= bytes) == 0) of_.erase(it);
}

std::uint64_t DeviceLedger::claimed() const {
  const std::lock_guard lock(mutex_);
  return claimed_;
}

void DeviceLedger::set_limit(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

std::uint64_t DeviceLedger::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_ ? limit_ : memory_;
}

Owners DeviceLedger::owners() const {
  const std::lock_guard lock(mutex_);
  return largest_first(of_);
}

std::vector<DeviceMemoryUse> device_memory_of_process() {
  const std::lock_guard lock(mutex);
  std::vector<DeviceMemoryUse> all;
  for (const DeviceLedger* l : ledgers())
    all.push_back(
        {l->device(), l->claimed(), l->limit(), device_memory_budget(l->device()), l->owners()});
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.device < b.device; });
  return all;
}

}  // namespace snug
