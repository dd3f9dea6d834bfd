#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace snug {

/// The fastest sequences of tasks by memory, where a task may run again instead of its results
/// being kept. Apart from Program, so that it can be tested alone.
struct RecomputeProblem {
  struct Value {
    std::uint64_t bytes = 0;
    bool kept = false;    // to the end
    bool given = false;   // there before the first task, until its last read; no task writes it
    bool stored = false;  // lives outside once written: no bytes, never dropped
  };
  struct Task {
    std::vector<std::uint32_t> reads, writes;  // values; reads are distinct
    std::uint64_t workspace = 0;               // bytes while it runs
    double cost = 0;
    bool repeatable = true;
    /// Write k may take over the storage of read j, if that dies here: pairs (k, j), best first.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> in_place = {};
    /// Tasks of which every run must come before this one: it writes over what they read.
    std::vector<std::uint32_t> after = {};
  };
  std::vector<Value> values;
  std::vector<Task> tasks;  // in a valid order
};

/// Tasks in the order they run, some of them several times; every task runs once at least. The
/// first runs are in the order of the problem, but for those that wait (Task::after).
using Runs = std::vector<std::uint32_t>;

struct RecomputePlan {
  Runs runs;
  std::uint64_t peak = 0;  // largest sum of live bytes
  double cost = 0;         // of all runs
};

/// Work that the search may do, in runs of tasks looked at. There is no limit in seconds, so that a
/// plan depends on the problem alone.
struct RecomputeLimits {
  std::uint64_t runs = 20'000'000;
  std::uint32_t targets = 48;  // heights that are aimed at
};

/// Every task once.
RecomputePlan plain_plan(const RecomputeProblem& problem);

/// Plans of which none has both a higher peak and a higher cost than another: cost rises, the peak
/// falls. The first one costs no more than every task once, and may still be lower than that, since
/// what costs nothing runs again for nothing.
std::vector<RecomputePlan> find_frontier(const RecomputeProblem& problem,
                                         const RecomputeLimits& limits = {});

/// Leaves out what is neither faster nor lower than another plan, and sorts the rest as above.
void keep_frontier(std::vector<RecomputePlan>& plans);

/// No plan has a lower peak: the bytes that always live, and the largest single task.
std::uint64_t peak_bound(const RecomputeProblem& problem);

/// Independent of the search, and slow: says what is wrong with the plan, or "".
std::string find_fault(const RecomputeProblem& problem, const RecomputePlan& plan);

}  // namespace snug
