#pragma once
#include <optional>
#include <string>
#include <vector>

#include "exec/executable.h"
#include "plan/fit.h"

namespace snug {

/// The frontiers of a program and of the bodies of its loops, as far as they were looked for.
struct ProgramFrontiers {
  Frontier whole;                // with bodies that run every task once
  std::vector<Frontier> bodies;  // of its loops, in the order of its tasks
  Frontier around_lowest;        // with the lowest bodies

  std::size_t bytes() const;
  std::int64_t searches() const;  // that were made
};

/// All that decides the frontiers of a program: equal bytes, equal plans. No part of it is the
/// identity of a program, so functions that are made anew find what others have built.
std::string frontier_key(const Program& program, const PreparedTasks& tasks, bool recompute);

/// What is looked for.
struct PlanSearch {
  bool recompute = true;      // tasks may run again
  bool find_smallest = true;  // what is smallest is looked for where nothing fits; else the bound
};

/// Orders and packs so that arenas keep to the limits. Where the plain
/// plan is too large, tasks run again instead of their results being kept, if they may, those in
/// bodies of loops too, and the loops in `tasks` take these plans; or results go to a file (if
/// there is one). The bounds of `floor` are always found, the rest where nothing fits. A larger
/// budget never gives a slower plan. `kept`: empty, or of an earlier call with an equal key.
std::optional<Planned> fit_with_loops(const Program& program, PreparedTasks& tasks,
                                      const ArenaLimits& limits, Floor& floor, PlanSearch search,
                                      ProgramFrontiers& kept);

}  // namespace snug
