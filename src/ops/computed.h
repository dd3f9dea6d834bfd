#pragma once
#include "expr/expr.h"

namespace snug::ops {

/// False if a 0-d integer is made of 0-d integers that are handed in, and of sizes: then it is
/// known before what uses it runs, and can be a size or a bound of a slice.
bool is_computed(const Expr& value);

}  // namespace snug::ops
