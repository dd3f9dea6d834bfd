#pragma once
#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/origin.h"

namespace snug {

/// What went wrong. All but Internal are the user's to mend; bindings map them to the classes of
/// their language.
enum class Fault : std::uint8_t {
  Type,          // wrong dtype or number of dimensions, wrong kind of object
  Shape,         // sizes do not fit
  Value,         // a value out of range, an unknown option
  Index,         // an index outside its axis
  Missing,       // an input the function needs and does not have
  Unused,        // an input the function has and does not need
  Disconnected,  // a gradient that does not depend on the variable
  Undefined,     // a gradient that does not exist
  Numeric,       // a factorisation failed
  Assertion,     // a condition that the user asserted does not hold
  Unsupported,
  Memory,
  Device,
  Interrupted,
  Internal,
};
std::string_view title_of(Fault fault);  // "shape error"

/// Every error a user can see:
///   shape error: dot: inner sizes differ: (32, 10) and (4, 10)
///     at    train.py:41
///     hint  the transpose of the second argument fits
class Error : public std::exception {
 public:
  Error(Fault fault, std::string message, std::string hint = {}, OriginId origin = 0);
  const char* what() const noexcept override { return text_.c_str(); }
  Fault fault() const { return fault_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  OriginId origin() const { return origin_; }
  /// The same error with an origin, if it has none yet.
  Error at(OriginId origin) const;

 private:
  Fault fault_;
  OriginId origin_;
  std::string message_, hint_, text_;
};

/// Throws an Error at the current origin.
[[noreturn]] void fail(Fault fault, std::string message, std::string hint = {});

/// Our own fault: names the place and asks for a report.
[[noreturn]] void internal_error(std::string_view where, std::string message);

#define SNUG_CHECK(condition, ...)                                                \
  do {                                                                            \
    if (!(condition)) ::snug::internal_error(__FILE__, fmt::format(__VA_ARGS__)); \
  } while (false)

/// The known name nearest to `name`, or "" if none is near. For "did you mean" hints.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace snug
