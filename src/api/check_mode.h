#pragma once
#include <cstdint>

#include "exec/executable.h"

namespace snug {

/// mode="check": after each step its results are compared with the reference, computed from the
/// very inputs the step had, and the memory of buffers that died is poisoned. A difference is an
/// internal error that names the step and the user's line.
class StepChecker {
 public:
  explicit StepChecker(const Executable& executable) : executable_(executable) {}
  void start(const RunState& state);
  void after(const Executable& executable, const RunState& state, std::uint32_t step);

 private:
  const Executable& executable_;
};

}  // namespace snug
