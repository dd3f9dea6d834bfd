#pragma once
#include <string>

#include "plan/memory_plan.h"

namespace snug {

/// Makes steps of different queues wait for each other wherever they touch the same memory, one of
/// them writing. Steps of a program on one device have one queue, so nothing changes.
void add_waits(Schedule& schedule, const MemoryPlan& plan);

/// Knows nothing of how waits were found: the first two steps of different queues that touch the
/// same bytes, one of them writing, without being ordered by the waits; "" if there are none.
std::string find_race(const Schedule& schedule, const MemoryPlan& plan);
/// An internal error if there is a race.
void verify_queues(const Schedule& schedule, const MemoryPlan& plan);

}  // namespace snug
