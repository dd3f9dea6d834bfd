#pragma once
#include <cstdint>
#include <memory>

#include "exec/executable.h"

namespace snug {

/// About what an executable takes, without its plan, which others share, and without what libraries
/// have made for its calls.
std::int64_t bytes_of(const Executable& executable);

/// Counts it as long as it lives. For every MiB of those that died, what malloc keeps of them
/// goes back to the system: plans are small, die on any thread, and leave pages between the arrays
/// of the program that would otherwise stay.
std::shared_ptr<const Executable> counted(std::unique_ptr<Executable> executable);

/// Of all that live.
std::int64_t kept_plan_bytes();

}  // namespace snug
