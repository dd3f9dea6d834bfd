#pragma once
#include <optional>

#include "exec/executable.h"
#include "plan/fit.h"

namespace snug {

/// Orders and packs so that the arena has at most `budget` bytes (0: no limit). Where the plain
/// plan is too large, tasks run again instead of their results being kept (if `recompute`), those
/// in bodies of loops too, and the loops in `tasks` take these plans; or results go to a file (if
/// there is one). `floor.bound` is always found, the rest where nothing fits. A larger budget never
/// gives a slower plan.
std::optional<Fitted> fit_with_loops(const Program& program, PreparedTasks& tasks,
                                     std::uint64_t budget, Floor& floor, bool recompute = true);

}  // namespace snug
