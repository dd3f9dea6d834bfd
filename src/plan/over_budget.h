#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"
#include "graph/graph.h"

namespace snug {

/// No plan that was found keeps to the budget of a device, or to what the device has. `needed` is
/// that of the plan that is lowest there, or the bound of all.
class OverBudget : public MemoryError {
 public:
  OverBudget(DeviceId device, std::uint64_t needed, std::uint64_t budget, double plain_seconds,
             const std::string& message, const std::string& hint = {}, OriginId origin = 0)
      : MemoryError(message, hint, {.needed = needed, .allowed = budget}, origin),
        device_(device),
        plain_seconds_(plain_seconds) {}
  DeviceId device() const { return device_; }
  double plain_seconds() const { return plain_seconds_; }  // predicted, if every task runs once
  [[noreturn]] void raise() const override { throw *this; }

 private:
  DeviceId device_;
  double plain_seconds_;
};

}  // namespace snug
