#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "target/budgets.h"

namespace snug {

enum class Mode : std::uint8_t {
  Fast,
  Check,  // each step is compared with the reference on the same inputs; freed memory is poisoned
  Reference,  // the interpreter alone
  Guard,      // as Fast; a value that is not finite is an error that names its op
};
enum class OnUnusedInput : std::uint8_t { Raise, Warn, Ignore };
/// Theano's cast_policy. NumpyFloatX: Python numbers are int64 and the default float, and a float64
/// that no operand is becomes the default float.
enum class CastPolicy : std::uint8_t { Custom, NumpyFloatX };
/// Theano's int_division: what a / b makes of integers.
enum class IntDivision : std::uint8_t { DefaultFloat, Floor, Raise };

/// What a process starts with: defaults that its environment may change, SNUG_FLAGS and the files
/// that SNUGRC lists or ~/.snugrc (docs/configuration.md).
struct Settings {
  DType float_x = DType::F32;
  BudgetText memory = {};   // of the process
  std::string device = {};  // where functions run; empty: on the CPU
  bool share_arenas = true;
  Mode mode = Mode::Fast;
  int threads = 0;  // 0: all cores
  OnUnusedInput on_unused_input = OnUnusedInput::Raise;
  CastPolicy cast_policy = CastPolicy::Custom;
  IntDivision int_division = IntDivision::DefaultFloat;
};
/// Read when it is first asked for. A Value error if the environment has what no setting takes; it
/// says where that was read.
const Settings& settings();

/// A setting as text.
struct SettingText {
  std::string name;  // with its section: "gpuarray.preallocate"
  std::string value;
  std::string place;  // where it was read: a variable, or file:line
};
/// Those of an environment variable "name=value,name=value"; quotes keep commas.
std::vector<SettingText> settings_of_flags(const std::string& variable);
/// Those of the ini files that an environment variable lists, parted by ":", or of `otherwise`.
/// Files that do not exist are skipped; what stands before a section and in [global] has no prefix.
std::vector<SettingText> settings_of_files(const std::string& variable,
                                           const std::string& otherwise);
/// Those that `settings` has read, the later one of the same name counting.
std::vector<SettingText> settings_of_environment();

}  // namespace snug
