#pragma once
#include <span>

#include "plan/recompute.h"

namespace snug {

/// How long values stay, from which a sequence of runs follows. The life of a value is cut into
/// gaps: from the task that makes it to its first read in the plain order, from there to its next
/// read, and so on; the last gap begins at its last read. Level 0: the value stays over the gap.
/// Level k: it is dropped where the gap begins, and stays from the k-th time that a run makes it
/// again in the gap, whatever for. kDropped: it is made each time it is wanted. So levels 0 and 1
/// are segments between checkpoints, and more levels are segments of segments.
using Levels = std::vector<std::uint8_t>;  // per gap
inline constexpr std::uint8_t kDropped = 255;

/// Turns levels into runs, and measures them, in time proportional to the number of runs.
class RecomputeEvaluator {
 public:
  explicit RecomputeEvaluator(const RecomputeProblem& problem);

  struct Gap {
    std::uint32_t value;
    std::uint32_t begin, end;  // positions in the plain order; of a last gap: the number of tasks
  };
  const std::vector<Gap>& gaps() const { return gaps_; }
  std::uint32_t first_gap(std::uint32_t value) const { return first_gap_[value]; }
  std::int32_t producer(std::uint32_t value) const { return producer_[value]; }
  /// Whether the value may be dropped at all.
  bool droppable(std::uint32_t value) const { return droppable_[value]; }

  /// Every value stays up to its last read and is dropped there.
  Levels plain() const;

  struct Measure {
    std::uint64_t peak = 0;
    double over = 0;  // sum over the runs of bytes above the target
    double cost = 0;
    bool legal = false;
    std::uint32_t peak_run = 0;
  };
  /// Gives up, as not legal, where there are more than `max_runs`. What follows is about the last
  /// call.
  Measure evaluate(const Levels& levels, std::uint64_t target, std::size_t max_runs);
  /// The same for runs from elsewhere: the first run of a task is its plain one.
  Measure evaluate_runs(const Runs& runs);
  const Runs& runs() const { return runs_; }
  std::uint64_t live_at(std::uint32_t run) const { return static_cast<std::uint64_t>(live_[run]); }
  /// A value that is there at a run which does not touch it.
  struct Idle {
    std::uint32_t gap;
    std::uint32_t made;  // how often it was made again in the gap by then
    double over;         // bytes that `Measure::over` would be less by without it
  };
  void idle_at(std::uint32_t run, std::uint64_t target, std::vector<Idle>& idle) const;
  /// Values that are made again for the same task as those of this run; `over` is not set.
  void made_at(std::uint32_t run, std::vector<Idle>& made) const;
  /// Gaps in which a value was made again, how often, and what that cost, with all that was made
  /// for it where a plain task wanted it: the highest cost first.
  struct Remade {
    double cost;
    std::uint32_t gap, count;
  };
  void remade(std::vector<Remade>& gaps) const;
  /// Whether plain tasks leave the bytes to keep a value over such a gap from the `level`-th time
  /// on that it is made again.
  bool has_room(std::uint32_t gap, std::uint8_t level, std::uint64_t target) const;
  /// Runs of tasks looked at since the start.
  std::uint64_t work() const { return work_; }

 private:
  struct Instance {
    std::uint32_t value, first, last;
    std::uint32_t gap, made;  // when it was made
    std::uint64_t bytes;
    std::int32_t previous;  // of the same value
    bool outside, took_over = false, taken = false;
  };
  const Instance& instance(std::int32_t k) const { return instances_[static_cast<std::size_t>(k)]; }
  bool make_runs(const Levels& levels, std::size_t max_runs);
  bool collect_missing(std::uint32_t task);
  std::span<const std::uint32_t> reads(std::uint32_t task) const {
    return {reads_.data() + reads_at_[task], reads_at_[task + 1] - reads_at_[task]};
  }
  std::span<const std::uint32_t> writes(std::uint32_t task) const {
    return {writes_.data() + writes_at_[task], writes_at_[task + 1] - writes_at_[task]};
  }
  void arrive(const Levels& levels, std::uint32_t value);
  bool delay_waiting();
  bool find_lives();
  void take_over();
  Measure measure(std::uint64_t target);

  const RecomputeProblem& p_;
  std::vector<std::int32_t> producer_;
  std::vector<bool> droppable_;
  std::vector<Gap> gaps_;
  std::vector<std::uint32_t> first_gap_;  // per value, and the end
  /// The operands of all tasks in one array: those of task t begin at reads_at_[t].
  std::vector<std::uint32_t> reads_, writes_, reads_at_, writes_at_;
  std::vector<std::uint32_t> waiting_;  // tasks with `after`
  bool in_place_ = false;

  // State of an evaluation.
  struct Run {
    std::uint32_t position;  // of the plain task it is made for
    bool again;
  };
  Runs runs_;
  std::vector<Run> info_;
  std::vector<std::uint8_t> there_;     // per value
  std::vector<std::uint32_t> gap_now_;  // per value
  std::vector<std::uint32_t> made_;     // per value: how often again in this gap
  std::vector<std::uint32_t> batch_, stamp_;
  std::uint32_t stamp_now_ = 0;
  std::vector<Instance> instances_;
  std::vector<std::int32_t> current_;   // per value: instance
  std::vector<std::uint32_t> touched_;  // per run, flat: instances written, then those read
  std::vector<std::size_t> touched_at_;
  std::vector<std::int64_t> live_;
  std::vector<std::uint32_t> plain_run_;  // per position
  std::uint64_t work_ = 0;
};

}  // namespace snug
