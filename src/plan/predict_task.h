#pragma once
#include "schedule/schedule.h"
#include "target/device_info.h"

namespace snug {

/// The seconds that one run of a task takes on `device`, whose sizes are `sizes`: the larger one of
/// the time to compute what it covers and the time to read and write its buffers. A loop counts as
/// its buffers alone.
double predict_task_seconds(const DeviceInfo& device, const Program& program,
                            std::span<const std::int64_t> sizes, std::uint32_t task);

}  // namespace snug
