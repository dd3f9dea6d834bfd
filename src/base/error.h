#pragma once
#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/origin.h"
#include "base/remedy.h"

namespace snug {

/// What went wrong. All but Internal are the user's to mend. Each has a class of its own, by which
/// it is caught (Shape: ShapeError); bindings map them to the classes of their language.
enum class Fault : std::uint8_t {
  Type,          // wrong dtype or number of dimensions, wrong kind of object, an empty one
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
  const char* what() const noexcept override { return text_.c_str(); }
  Fault fault() const { return fault_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  OriginId origin() const { return origin_; }

  // For handlers, which then `throw;`.
  /// Says where it is, unless that is known.
  void locate(OriginId origin);
  void reword(std::string message, std::string hint);

  /// Throws it as what it is.
  [[noreturn]] virtual void raise() const = 0;

 protected:
  Error(Fault fault, std::string message, std::string hint, OriginId origin);

 private:
  void write();
  Fault fault_;
  OriginId origin_;
  std::string message_, hint_, text_;
};

template <Fault F>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(std::string message, std::string hint = {}, OriginId origin = 0)
      : Error(F, std::move(message), std::move(hint), origin) {}
  [[noreturn]] void raise() const override { throw *this; }
};
using TypeError = ErrorOf<Fault::Type>;
using ShapeError = ErrorOf<Fault::Shape>;
using ValueError = ErrorOf<Fault::Value>;
using IndexError = ErrorOf<Fault::Index>;
using MissingError = ErrorOf<Fault::Missing>;
using UnusedError = ErrorOf<Fault::Unused>;
using DisconnectedError = ErrorOf<Fault::Disconnected>;
using UndefinedError = ErrorOf<Fault::Undefined>;
using NumericError = ErrorOf<Fault::Numeric>;
using AssertionError = ErrorOf<Fault::Assertion>;
using UnsupportedError = ErrorOf<Fault::Unsupported>;
using DeviceError = ErrorOf<Fault::Device>;
using InterruptedError = ErrorOf<Fault::Interrupted>;
using InternalError = ErrorOf<Fault::Internal>;

/// What a refusal knows, in bytes of one device; 0: not known.
struct MemoryNeed {
  std::uint64_t needed = 0;   // for what was asked, at least
  std::uint64_t allowed = 0;  // the budget, or what is free
  std::uint64_t peak = 0;     // of the function if it runs every task once, on the whole batch
  std::vector<Remedy> remedies = {};
  std::uint64_t remedies_within = 0;  // the peak that they keep to, but for more memory
  std::string not_in_slices = {};     // why the batch cannot be cut, if it cannot
  std::string device = {};            // whose memory it is; empty: the host's
};

/// There is no memory, or a budget does not allow it.
class MemoryError : public Error {
 public:
  explicit MemoryError(std::string message, std::string hint = {}, MemoryNeed need = {},
                       OriginId origin = 0)
      : Error(Fault::Memory, std::move(message), std::move(hint), origin), need_(std::move(need)) {}
  std::uint64_t needed() const { return need_.needed; }
  std::uint64_t allowed() const { return need_.allowed; }
  std::uint64_t peak() const { return need_.peak; }
  /// What fits, each of them planned; empty where no function was refused.
  const std::vector<Remedy>& remedies() const { return need_.remedies; }
  const MemoryNeed& need() const { return need_; }
  [[noreturn]] void raise() const override { throw *this; }

 private:
  MemoryNeed need_;
};

/// Throws the class of the fault, at the current origin.
[[noreturn]] void fail(Fault fault, std::string message, std::string hint = {});
/// The same at a given one.
[[noreturn]] void fail_at(OriginId origin, Fault fault, std::string message, std::string hint = {});
[[noreturn]] void fail_memory(MemoryNeed need, std::string message, std::string hint = {});

/// The text of an error.
std::string error_text(Fault fault, std::string_view message, std::string_view hint,
                       OriginId origin);

/// Our own fault: names the place and asks for a report.
[[noreturn]] void internal_error(std::string_view where, std::string message);

#define SNUG_CHECK(condition, ...)                                                \
  do {                                                                            \
    if (!(condition)) ::snug::internal_error(__FILE__, fmt::format(__VA_ARGS__)); \
  } while (false)

/// The known name nearest to `name`, or "" if none is near. For "did you mean" hints.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace snug
