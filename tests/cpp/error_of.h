#pragma once
#include <gtest/gtest.h>

#include "base/error.h"

namespace snug::testing {

/// What is left of an error that was caught.
class CaughtError : public Error {
 public:
  explicit CaughtError(const Error& e) : Error(e) {}
  [[noreturn]] void raise() const override { throw *this; }
};

/// The error that `f` raises, which is an E.
template <class E = Error, class F>
CaughtError error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return CaughtError(e);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another error: " << e.what();
    return CaughtError(InternalError("another error"));
  }
  ADD_FAILURE() << "no error";
  return CaughtError(InternalError("no error"));
}

}  // namespace snug::testing
