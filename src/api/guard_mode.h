#pragma once
#include <optional>
#include <string>

#include "api/function.h"
#include "exec/executable.h"

namespace snug {

/// Mode::Guard: looks for values that are not finite, or big, in what comes in and in what each
/// step writes. The error names the ops of the step and the user's line. It is thrown at once while
/// nothing has been written to shared variables, and after the call otherwise, whose updates are
/// then made. A loop is one step.
class StepGuard : public StepObserver {
 public:
  StepGuard(const Executable& executable, Guarded guarded)
      : executable_(executable), guarded_(guarded) {}
  void check_input(const Array& value, const char* kind, std::size_t number,
                   const std::string& name) const;
  void before(const RunState&, std::uint32_t) override {}
  void after(const RunState& state, std::uint32_t step) override;
  void throw_late() const;

 private:
  /// "nan", "infinity", "1e+12", or nothing if all is well; and where.
  std::optional<std::string> find(const Array& value) const;

  const Executable& executable_;
  Guarded guarded_;
  std::optional<Error> late_;
};

}  // namespace snug
