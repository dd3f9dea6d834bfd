#pragma once
#include <span>
#include <vector>

#include "plan/recompute.h"
#include "schedule/schedule.h"
#include "target/disk_rates.h"

namespace snug {

/// A value that a file holds between two of its reads in the plain order.
struct Offload {
  std::uint32_t value = 0;
  std::uint32_t begin = 0, end = 0;  // tasks: its maker or the read before, and the read after
};

/// What to offload, in turn: each lowers the plain order where it is highest, and long gaps come
/// first. Any number from the start is a set worth trying.
std::vector<Offload> find_offloads(const RecomputeProblem& problem, const DiskRates& disk);

/// The problem with such values in a file: tasks that write and read it are among the others, and
/// what they make may be made again as all else.
struct OffloadProblem {
  RecomputeProblem problem;
  /// Per task: its number in the first problem; behind those, the number of the offload that it
  /// reads back; kStores for those that write, which follow from the others.
  std::vector<std::uint32_t> run_of;
  static constexpr std::uint32_t kStores = UINT32_MAX;
};
OffloadProblem with_offloads(const RecomputeProblem& problem, std::span<const Offload> offloads,
                             const DiskRates& disk);

/// Gives transfers more time where that does not raise the highest sum of live bytes: values come
/// back earlier and are given up later.
void overlap_transfers(Schedule& schedule, std::span<const double> seconds_of_task,
                       const DiskRates& disk);

/// Of one run, with transfers beside the steps.
double predict_seconds(const Schedule& schedule, std::span<const double> seconds_of_task,
                       const DiskRates& disk);

}  // namespace snug
