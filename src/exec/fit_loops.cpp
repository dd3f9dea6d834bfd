#include "exec/fit_loops.h"

#include <algorithm>
#include <list>

#include "exec/loop_call.h"
#include "plan/predict_task.h"

namespace snug {
namespace {

/// Plans for one loop, whatever the budget.
class LoopFitter {
 public:
  LoopFitter(std::uint32_t task_of_loop, LoopCall& loop)
      : task(task_of_loop),
        call(loop),
        plain_(loop.plan()),
        fitter_(loop.body().exe->lowered->program, loop.body().sizes) {}

  /// The fastest plan whose workspace has at most `budget` bytes; nothing if there is none.
  std::optional<LoopPlan> fit(std::uint64_t budget) {
    if (call.workspace_of(plain_) <= budget) return plain_;
    // What the tables take depends on the plan.
    const std::uint64_t tables = call.workspace_of(plain_) - call.planned_for().planned->plan.bytes;
    std::uint64_t arena = budget > tables ? budget - tables : 0;
    while (arena > 0) {
      std::optional<Fitted> fitted = fitter_.fit(arena);
      if (!fitted) break;
      const std::uint64_t height = fitted->plan.bytes;
      std::optional<LoopPlan> plan = with(*std::move(fitted));
      if (plan && call.workspace_of(*plan) <= budget) return plan;
      if (height == 0) break;
      arena = height - 1;
    }
    return std::nullopt;
  }

  /// No plan has a smaller workspace.
  std::uint64_t bound() {
    return call.workspace_of(plain_) - call.planned_for().planned->plan.bytes + fitter_.bound();
  }
  LoopPlan lowest() {
    const Floor floor = fitter_.floor();
    if (floor.smallest == 0 || floor.smallest >= plain_.body->plan.bytes) return plain_;
    return with(*fitter_.fit(floor.smallest)).value_or(plain_);
  }

  const std::uint32_t task;
  LoopCall& call;

 private:
  /// The loop with this plan of its body; the last block takes it, too, unless it is small enough.
  std::optional<LoopPlan> with(Fitted fitted) const {
    const Program& program = call.body().exe->lowered->program;
    auto planned = std::make_shared<Planned>();
    planned->schedule = std::move(fitted.schedule);
    planned->plan = std::move(fitted.plan);
    planned->recomputed = std::move(fitted.recomputed);
    planned->seconds = fitted.seconds;
    planned->plain_seconds = fitted.plain_seconds;
    planned->kind = plain_.body->kind;
    LoopPlan plan{planned, plain_.last, planned->seconds * static_cast<double>(call.count())};
    if (!plain_.last) return plan;
    double last = plain_.last->seconds;
    if (plain_.last->plan.bytes > planned->plan.bytes) {
      const LoopCall::Body& block = *call.last();
      if (!serves(*planned, *block.exe->lowered, block.sizes)) return std::nullopt;
      plan.last = planned;
      last = 0;
      for (const Step& s : planned->schedule.steps)
        if (!s.commit_copy) last += predict_task_seconds(program, block.sizes, s.task);
    }
    plan.seconds += last - planned->seconds;
    return plan;
  }

  const LoopPlan plain_;
  Fitter fitter_;
};

/// The program with plans for its loops.
class Trial {
 public:
  Trial(const Program& program, const PreparedTasks& tasks, const Fitted& plain,
        std::list<LoopFitter>& loops)
      : program_(program), sizes_(tasks.sizes), loops_(loops) {
    for (const Step& s : plain.schedule.steps)
      if (!s.commit_copy) order_.push_back(s.task);
    for (const LoopFitter& loop : loops_) plans_.push_back(loop.call.plan());
  }

  /// The fastest bodies with which the rest, every task once, keeps to the budget.
  std::optional<Fitted> fit_bodies(std::uint64_t budget) {
    const std::vector<std::uint64_t> around = bytes_around_loops();
    std::size_t k = 0;
    for (LoopFitter& loop : loops_) {
      if (around[k] >= budget || !take(k, loop.fit(budget - around[k]))) return std::nullopt;
      ++k;
    }
    for (;;) {
      Fitted f;
      f.schedule = order_as(program_, sizes_, order_);
      f.plan = pack(f.schedule, PackEffort::Thorough);
      if (f.plan.bytes <= budget) {
        f.seconds = predict_seconds(program_, sizes_);
        return f;
      }
      if (f.plan.load > budget) return std::nullopt;  // a step outside the loops
      // The packing has a gap: a smaller body of the loop around which most is alive.
      std::size_t fullest = 0;
      for (std::size_t i = 1; i < plans_.size(); ++i)
        if (around[i] + workspace(i) > around[fullest] + workspace(fullest)) fullest = i;
      LoopFitter& loop = *std::next(loops_.begin(), static_cast<std::ptrdiff_t>(fullest));
      if (workspace(fullest) == 0 || !take(fullest, loop.fit(workspace(fullest) - 1)))
        return std::nullopt;
    }
  }

  /// The lowest bodies, and tasks outside that run again.
  std::optional<Fitted> fit_around_lowest(std::uint64_t budget, Floor& floor) {
    std::size_t k = 0;
    for (LoopFitter& loop : loops_) sizes_.workspace[loop.task] = loop.bound();
    floor.bound = floor.smallest = Fitter(program_, sizes_).bound();
    if (budget < floor.bound) return std::nullopt;  // whatever the lowest one is
    for (LoopFitter& loop : loops_) take(k++, loop.lowest());
    Fitter fitter(program_, sizes_);
    std::optional<Fitted> fitted = fitter.fit(budget);
    if (!fitted) floor.smallest = fitter.floor().smallest;
    return fitted;
  }

  /// The loops run as they were tried.
  Fitted commit(Fitted fitted, double plain_seconds, PreparedTasks& tasks) {
    std::size_t k = 0;
    for (LoopFitter& loop : loops_) {
      const LoopPlan& plan = plans_[k++];
      loop.call.take(plan);
      fitted.recomputed.insert(fitted.recomputed.end(), plan.body->recomputed.begin(),
                               plan.body->recomputed.end());
    }
    std::sort(fitted.recomputed.begin(), fitted.recomputed.end());
    fitted.plain_seconds = plain_seconds;
    tasks.sizes.workspace = sizes_.workspace;
    tasks.sizes.loop_seconds = sizes_.loop_seconds;
    return fitted;
  }

 private:
  std::uint64_t workspace(std::size_t k) const {
    return std::next(loops_.begin(), static_cast<std::ptrdiff_t>(k))->call.workspace_of(plans_[k]);
  }

  bool take(std::size_t k, std::optional<LoopPlan> plan) {
    if (!plan) return false;
    const LoopFitter& loop = *std::next(loops_.begin(), static_cast<std::ptrdiff_t>(k));
    plans_[k] = *std::move(plan);
    sizes_.workspace[loop.task] = workspace(k);
    sizes_.loop_seconds[loop.task] = plans_[k].seconds;
    return true;
  }

  /// Per loop: what is alive while it runs, but for its workspace.
  std::vector<std::uint64_t> bytes_around_loops() const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // more than all else
    std::vector<std::uint64_t> around;
    for (const LoopFitter& loop : loops_) {
      TaskSizes alone = sizes_;
      for (const LoopFitter& other : loops_) alone.workspace[other.task] = 0;
      alone.workspace[loop.task] = kMost;
      around.push_back(pack(order_as(program_, alone, order_)).load - kMost);
    }
    return around;
  }

  const Program& program_;
  TaskSizes sizes_;
  std::list<LoopFitter>& loops_;
  std::vector<LoopPlan> plans_;
  std::vector<std::uint32_t> order_;
};

/// Less time, or the same with less memory.
bool better(const std::optional<Fitted>& a, const std::optional<Fitted>& b) {
  if (!a || !b) return a.has_value();
  return std::pair(a->seconds, a->plan.bytes) < std::pair(b->seconds, b->plan.bytes);
}

std::uint64_t bound_of(const Program& program, const TaskSizes& sizes, const Schedule& plain) {
  return peak_bound(
      recompute_problem(program, sizes, plain, std::vector<double>(program.tasks.size(), 0)));
}

/// No plan is lower, whatever runs again, also inside of loops.
std::uint64_t bound_with_loops(const Program& program, const PreparedTasks& tasks,
                               const Schedule& plain) {
  TaskSizes sizes = tasks.sizes;
  for (std::uint32_t t = 0; t < tasks.calls.size(); ++t)
    if (const auto* loop = dynamic_cast<const LoopCall*>(tasks.calls[t].get())) {
      const LoopCall::Body& body = loop->body();
      sizes.workspace[t] -= loop->planned_for().planned->plan.bytes;
      sizes.workspace[t] +=
          bound_of(body.exe->lowered->program, body.sizes, body.exe->planned->schedule);
    }
  return bound_of(program, sizes, plain);
}

}  // namespace

std::optional<Fitted> fit_with_loops(const Program& program, PreparedTasks& tasks,
                                     std::uint64_t budget, Floor& floor, bool recompute) {
  Fitter outside(program, tasks.sizes, recompute);
  const Fitted plain = *outside.fit(0);
  floor.bound = bound_with_loops(program, tasks, plain.schedule);
  if (budget == 0 || plain.plan.bytes <= budget) return plain;
  std::list<LoopFitter> loops;
  for (std::uint32_t t = 0; recompute && t < tasks.calls.size(); ++t)
    if (auto* loop = dynamic_cast<LoopCall*>(tasks.calls[t].get())) loops.emplace_back(t, *loop);
  std::optional<Fitted> whole_bodies = outside.fit(budget);
  if (loops.empty()) {
    if (!whole_bodies) floor = outside.floor();
    return whole_bodies;
  }
  Trial trial(program, tasks, plain, loops);
  std::optional<Fitted> fitted = trial.fit_bodies(budget);
  if (!better(fitted, whole_bodies) && whole_bodies) return whole_bodies;
  if (!fitted) fitted = trial.fit_around_lowest(budget, floor);
  if (!fitted) return fitted;
  return trial.commit(*std::move(fitted), plain.plain_seconds, tasks);
}

}  // namespace snug
