#pragma once
#include "base/origin.h"

namespace snug {

/// A mark in an origin: autodiff made the node. It goes wherever origins go, so it survives every
/// rewrite, and as origins are it is no part of equality. `frames_of` and `describe` do not see it.
inline constexpr OriginId kDerivativeMark = OriginId{1} << 31;

inline OriginId as_derivative(OriginId id) { return id | kDerivativeMark; }
inline bool is_derivative(OriginId id) { return (id & kDerivativeMark) != 0; }

}  // namespace snug
