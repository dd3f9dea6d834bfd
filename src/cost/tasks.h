#pragma once
#include "schedule/schedule.h"

namespace snug {

/// The seconds that one run of a task takes: the larger one of the time to compute what it covers
/// and the time to read and write its buffers; of a loop, what its iterations take.
double predict_task_seconds(const Program& program, const TaskSizes& sizes, std::uint32_t task);
/// Of every task once.
double predict_seconds(const Program& program, const TaskSizes& sizes);

}  // namespace snug
