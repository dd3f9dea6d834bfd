#pragma once
#include <gtest/gtest.h>

#include "base/error.h"

namespace snug::testing {

/// The error that `f` raises.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(Fault::Internal, "no error");
}

}  // namespace snug::testing
