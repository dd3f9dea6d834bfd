#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/function.h"
#include "exec/executable.h"

namespace snug {

/// Mode::Guard: looks for values that are not finite, or big, in what comes in and in what each
/// step writes. The error names the op that made the first of them, which in a step of several ops
/// is found by computing these one by one again, and the user's line. It is thrown at once while
/// nothing has been written to shared variables, and after the call otherwise, whose updates are
/// then made. A loop is one step.
class StepGuard : public StepObserver {
 public:
  StepGuard(const Executable& executable, Guarded guarded)
      : executable_(executable), guarded_(guarded) {}
  void check_input(const Array& value, const char* kind, std::size_t number,
                   const std::string& name) const;
  void before(const RunState& state, std::uint32_t step) override;
  void after(const RunState& state, std::uint32_t step) override;
  void throw_late() const;

 private:
  struct Found {
    std::int64_t element = 0;
    double value = 0;
  };
  /// The first value that is not as it should be. `whole`: a sum of its parts may still be large.
  std::optional<Found> find(const Array& value, bool whole = true) const;
  Dims shape_of(const RunState& state, Value v) const;
  /// An array of what a step reads or writes.
  Array view(const RunState& state, Value v, std::byte* data) const;
  /// The error for a result of a step.
  AssertionError explain(const RunState& state, std::uint32_t step, Value result,
                         Found found) const;

  const Executable& executable_;
  Guarded guarded_;
  std::optional<AssertionError> late_;
  mutable std::vector<std::byte> copy_;  // of a buffer on a device
  /// What the step that runs reads and writes over, by buffer.
  std::map<std::uint32_t, std::vector<std::byte>> overwritten_;
};

}  // namespace snug
