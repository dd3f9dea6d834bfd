#pragma once
#include <optional>

#include "exec/executable.h"
#include "plan/fit.h"

namespace snug {

/// Orders and packs so that the arena has at most `budget` bytes (0: no limit). Where the plain
/// plan is too large, tasks run again instead of their results being kept, those in bodies of loops
/// included; the loops in `tasks` take these plans. A larger budget never gives a slower plan.
/// `floor` is found where nothing fits.
std::optional<Fitted> fit_with_loops(const Program& program, PreparedTasks& tasks,
                                     std::uint64_t budget, Floor& floor);

}  // namespace snug
