#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/memory_plan.h"
#include "plan/recompute.h"

namespace snug {

/// How low an arena can be.
struct Floor {
  std::uint64_t bound = 0;     // no plan is lower: what always lives, and the largest single task
  std::uint64_t smallest = 0;  // the lowest plan found
  double plain_seconds = 0;    // predicted, if every task runs once
  bool proved() const { return smallest <= bound; }
};

/// The tasks of a program, in the order of a schedule that runs each once, as a problem of what to
/// run again. Tasks that may fail, loops and those that write shared variables run once; those wait
/// for all that read the old value. `values` gets the values by their number.
RecomputeProblem recompute_problem(const Program& program, const TaskSizes& sizes,
                                   const Schedule& plain, std::span<const double> cost_of_task,
                                   std::vector<Value>* values = nullptr);

/// Plans from several orders of a program; their runs are numbers of its tasks. `bound` is set to
/// what no plan is below.
std::vector<RecomputePlan> program_frontier(const Program& program, const TaskSizes& sizes,
                                            std::span<const Schedule> orders,
                                            std::span<const double> cost_of_task,
                                            const RecomputeLimits& limits, std::uint64_t& bound);

/// The plans of one program and one set of sizes, as far as they were looked for. Whatever the
/// budget: one picks from them. It points to nothing of the program, so it may outlive it.
struct Frontier {
  struct Point {
    RecomputePlan plan;                 // runs as order_as takes them; cost: no packing is faster
    std::vector<Value> offloaded = {};  // to a file
    std::uint64_t load = 0;             // no packing is lower
    bool tried = false, valid = false;  // it was packed; it breaks no rule of schedules
    bool overlapped = false;            // transfers overlap with steps
    MemoryPlan packed = {};
    double seconds = 0;  // once packed, which decides how much transfers overlap
  };
  std::vector<std::vector<std::uint32_t>> orders;  // of the tasks, the best first; none: not begun
  bool best_order = false;                         // of the first, as Schedule has it
  MemoryPlan plain;                                // every task once, in the first order
  std::uint64_t bound = 0;                         // no plan is lower, whatever runs again
  std::vector<Point> points;                       // cost rises, load falls
  bool searched = false;

  std::size_t bytes() const;
};

/// Plans for one program and one set of sizes, whatever the budget. The plain plan is made first;
/// the frontier of those that run tasks again, or keep values in a file, only when it is asked for.
class Fitter {
 public:
  /// Tasks run again only if `recompute`; values go to a file if TaskSizes::disk is there. What
  /// `kept` has is not looked for again: it is empty, or of an equal program with the same
  /// arguments.
  Fitter(const Program& program, const TaskSizes& sizes, bool recompute = true,
         Frontier* kept = nullptr);
  Fitter(const Fitter&) = delete;

  /// The fastest plan whose arenas keep to the limits; among equally fast ones the smallest. None
  /// if none was found. Larger limits never give a slower plan. Of devices that TaskSizes says to
  /// be limited, tasks run again, too.
  std::optional<Planned> fit(const ArenaLimits& limits);
  /// No plan is lower, whatever runs again.
  std::uint64_t bound() const { return frontier_.bound; }
  /// Needs the frontier.
  Floor floor();

 private:
  using Point = Frontier::Point;
  void find_points();
  void add_points_with_offloads(const Schedule& plain);
  Schedule schedule_of(const Point& point) const;
  Planned fitted(const Point& point) const;
  /// Null if the plan breaks a rule of schedules.
  const MemoryPlan* packed(Point& point);

  const Program& program_;
  const TaskSizes& sizes_;
  bool recompute_;
  std::vector<double> seconds_;  // per task
  Frontier own_;
  Frontier& frontier_;
  Planned plain_;
};

}  // namespace snug
