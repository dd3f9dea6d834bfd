#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/memory_plan.h"
#include "plan/recompute.h"

namespace snug {

/// How low arenas can be.
struct Floor {
  struct InMemory {
    std::uint64_t bound = 0;     // no plan is lower: what always lives, and the largest single task
    std::uint64_t smallest = 0;  // of the plan that is lowest there
    bool proved() const { return smallest <= bound; }
  };
  std::vector<InMemory> in;  // by DeviceId
  /// By DeviceId: of the plan that is nearest to limits of which each can be kept, but not all
  /// together; empty if that was not looked for.
  std::vector<std::uint64_t> nearest;
  double plain_seconds = 0;  // predicted, if every task runs once

  const InMemory& host() const { return in[0]; }
};

/// The tasks of a program, in the order of a schedule that runs each once, as a problem of what to
/// run again. Tasks that may fail, loops and those that write shared variables run once; those wait
/// for all that read the old value. Bytes are those in `memories`; what is made elsewhere runs
/// once, too. `values` gets the values by their number.
RecomputeProblem recompute_problem(const Program& program, const TaskSizes& sizes,
                                   const Schedule& plain, std::span<const double> cost_of_task,
                                   MemorySet memories = kHostMemory,
                                   std::vector<Value>* values = nullptr);

/// By DeviceId: no plan has less in its memory, whatever runs again.
std::vector<std::uint64_t> bounds_of(const Program& program, const TaskSizes& sizes,
                                     const Schedule& plain);

/// Plans from several orders of a program; their runs are numbers of its tasks. Peaks are those in
/// `memories`.
std::vector<RecomputePlan> program_frontier(const Program& program, const TaskSizes& sizes,
                                            std::span<const Schedule> orders,
                                            std::span<const double> cost_of_task,
                                            const RecomputeLimits& limits,
                                            MemorySet memories = kHostMemory);

/// The plans of one program and one set of sizes, as far as they were looked for. Whatever the
/// budget: one picks from them. It points to nothing of the program, so it may outlive it.
struct Frontier {
  struct Point {
    RecomputePlan plan;                 // runs as order_as takes them; cost: no packing is faster
    std::vector<Value> offloaded = {};  // to a file
    std::vector<std::uint64_t> loads = {};  // by DeviceId: no packing is lower
    bool tried = false, valid = false;      // it was packed; it breaks no rule of schedules
    bool overlapped = false;                // transfers overlap with steps
    MemoryPlan packed = {};
    double seconds = 0;  // once packed, which decides how much transfers overlap
  };
  std::vector<std::vector<std::uint32_t>> orders;  // of the tasks, the best first; none: not begun
  bool best_order = false;                         // of the first, as Schedule has it
  MemoryPlan plain;                                // every task once, in the first order
  std::vector<std::uint64_t> bounds;               // as bounds_of
  std::vector<Point> points;                       // cost rises; in one memory alone, load falls
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
  /// if none was found. Larger limits never give a slower plan, whichever of the devices have one.
  std::optional<Planned> fit(const ArenaLimits& limits);
  const std::vector<std::uint64_t>& bounds() const { return frontier_.bounds; }
  /// Needs the frontier. Of `limits` that no plan keeps to, the nearest is looked for.
  Floor floor(const ArenaLimits& limits = {});

 private:
  using Point = Frontier::Point;
  void find_points();
  std::vector<Point> points_of(MemorySet memories, std::span<const Schedule> orders,
                               const RecomputeLimits& limits);
  void add_offloads(std::vector<Point>& points, std::span<const Schedule> orders);
  void add_points_with_offloads(const Schedule& plain, std::vector<Point>& points);
  /// As Floor has it.
  std::vector<std::uint64_t> nearest(const ArenaLimits& limits);
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
