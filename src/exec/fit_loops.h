#pragma once
#include <optional>

#include "exec/executable.h"
#include "plan/fit.h"

namespace snug {

/// As `fit` of plan/fit.h, of a program with loops: where it is too large, tasks in their bodies
/// run again, too, and the loops in `tasks` take these plans. A larger budget never gives a slower
/// plan.
std::optional<Fitted> fit_with_loops(const Program& program, PreparedTasks& tasks,
                                     std::uint64_t budget, Floor& floor);

}  // namespace snug
