#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug {

/// How many bytes something may have in the memory of each device, by its number; 0 is the host.
class Budgets {
 public:
  Budgets() = default;
  explicit Budgets(std::vector<std::uint64_t> bytes) : bytes_(std::move(bytes)) {}

  std::size_t size() const { return bytes_.size(); }
  /// 0: any number.
  std::uint64_t of(std::size_t device) const { return device < bytes_.size() ? bytes_[device] : 0; }
  std::uint64_t host() const { return of(0); }
  void set(std::size_t device, std::uint64_t bytes) {
    bytes_.resize(std::max(bytes_.size(), device + 1), 0);
    bytes_[device] = bytes;
  }
  bool any() const {
    return std::any_of(bytes_.begin(), bytes_.end(), [](std::uint64_t b) { return b > 0; });
  }
  bool allow(std::size_t device, std::uint64_t bytes) const {
    return of(device) == 0 || bytes <= of(device);
  }

 private:
  std::vector<std::uint64_t> bytes_;
};

/// Budgets as they are written: "3GiB" is that of each device, "opencl:0=3GiB,cpu=8GiB" those of
/// the ones that are named, and with "1GiB,cpu=8GiB" the others have the first.
struct BudgetText {
  std::uint64_t each = 0;  // of those that have no name in it; 0: none
  std::vector<std::pair<std::string, std::uint64_t>> of;  // by name; the host is "cpu"

  std::uint64_t for_device(std::string_view name) const;
};
/// A Value error, as parse_bytes has it, of what is none.
BudgetText parse_budget_text(std::string_view text, std::string_view what = "memory");

}  // namespace snug
