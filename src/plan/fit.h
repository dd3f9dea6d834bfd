#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/memory_plan.h"

namespace snug {

struct Fitted {
  Schedule schedule;
  MemoryPlan plan;
  std::vector<std::string> recomputed;  // tasks that run again
};

/// Orders and packs so that the arena has at most `budget` bytes (0: no limit). Where the plain
/// plan is too large, tasks whose results are cheap to make again run a second time instead of
/// keeping them. Deterministic. None if nothing found fits; `smallest` is then the lowest height
/// found.
std::optional<Fitted> fit(const Program& program, const TaskSizes& sizes, std::uint64_t budget,
                          std::uint64_t& smallest);

}  // namespace snug
