#include "plan/fit.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "plan/predict_task.h"

namespace snug {
namespace {

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kArenaAlign - 1) / kArenaAlign * kArenaAlign;
}

/// Numbers the values that tasks make, and arguments that are copied into the arena.
class ProblemMaker {
 public:
  ProblemMaker(const Program& p, const TaskSizes& s, const Schedule& plain,
               std::span<const double> costs)
      : p_(p), s_(s), plain_(plain), costs_(costs) {}

  RecomputeProblem make() {
    for (std::uint32_t b = 0; b < plain_.buffers.size(); ++b) add_leaf(plain_.buffers[b]);
    for (const Step& step : plain_.steps) {
      if (step.commit_copy) {
        out_.values[number_.at(plain_.buffers[step.reads[0]].value)].kept = true;
        continue;
      }
      for (std::uint32_t b : step.writes) add_written(plain_.buffers[b]);
    }
    for (const Step& step : plain_.steps)
      if (!step.commit_copy) add_task(step);
    for (std::uint32_t t = 0; t < out_.tasks.size(); ++t) add_waits(t);
    return std::move(out_);
  }

 private:
  bool is_leaf(const Buffer& b) const {
    return !b.workspace && b.value.node < p_.graph.nodes().size() &&
           has(*p_.graph.node(b.value).op, kLeaf);
  }

  void add_leaf(const Buffer& b) {
    if (!is_leaf(b) || b.where != Where::Arena) return;
    add_value(b.value, {.bytes = aligned(b.bytes), .given = true});
  }

  void add_written(const Buffer& b) {
    add_value(b.value, {.bytes = aligned(b.bytes), .stored = b.where != Where::Arena});
  }

  void add_value(Value v, RecomputeProblem::Value value) {
    number_[v] = static_cast<std::uint32_t>(out_.values.size());
    out_.values.push_back(value);
  }

  void add_task(const Step& step) {
    const Task& t = p_.tasks[step.task];
    RecomputeProblem::Task task;
    std::vector<std::int64_t> place(t.reads.size(), -1);  // of a read in task.reads
    for (std::size_t k = 0; k < t.reads.size(); ++k) {
      auto it = number_.find(t.reads[k]);
      const Buffer& b = plain_.buffers[step.reads[k]];
      if (b.where == Where::Shared && is_leaf(b))
        readers_[b.index].push_back(static_cast<std::uint32_t>(out_.tasks.size()));
      if (it == number_.end()) continue;
      auto known = std::find(task.reads.begin(), task.reads.end(), it->second);
      bool once = std::count(t.reads.begin(), t.reads.end(), t.reads[k]) == 1;
      if (once) place[k] = known - task.reads.begin();
      if (known == task.reads.end()) task.reads.push_back(it->second);
    }
    std::vector<std::uint32_t> overwritten;
    for (std::size_t k = 0; k < t.writes.size(); ++k) {
      task.writes.push_back(number_.at(t.writes[k]));
      const Buffer& b = plain_.buffers[step.writes[k]];
      if (b.where == Where::Shared) overwritten.push_back(b.index);
    }
    for (auto [w, r] : t.in_place)
      if (place[r] >= 0) task.in_place.emplace_back(w, static_cast<std::uint32_t>(place[r]));
    task.workspace = aligned(s_.workspace[step.task]);
    task.cost = costs_[step.task];
    task.repeatable = !t.may_fail && t.kind != Task::Kind::Loop && overwritten.empty();
    overwritten_.push_back(std::move(overwritten));
    out_.tasks.push_back(std::move(task));
  }

  /// A task that writes shared variables waits for those that read their old values.
  void add_waits(std::uint32_t task) {
    for (std::uint32_t variable : overwritten_[task])
      for (std::uint32_t reader : readers_[variable])
        if (reader != task) out_.tasks[task].after.push_back(reader);
  }

  const Program& p_;
  const TaskSizes& s_;
  const Schedule& plain_;
  std::span<const double> costs_;
  RecomputeProblem out_;
  std::unordered_map<Value, std::uint32_t, ValueHash> number_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> readers_;  // of shared variables
  std::vector<std::vector<std::uint32_t>> overwritten_;                    // per task
};

}  // namespace

RecomputeProblem recompute_problem(const Program& program, const TaskSizes& sizes,
                                   const Schedule& plain, std::span<const double> costs) {
  return ProblemMaker(program, sizes, plain, costs).make();
}

std::vector<RecomputePlan> program_frontier(const Program& program, const TaskSizes& sizes,
                                            std::span<const Schedule> orders,
                                            std::span<const double> costs,
                                            const RecomputeLimits& limits, std::uint64_t& bound) {
  std::vector<RecomputePlan> plans;
  RecomputeLimits each = limits;
  each.runs /= orders.size();
  for (const Schedule& plain : orders) {
    std::vector<std::uint32_t> tasks;
    for (const Step& s : plain.steps)
      if (!s.commit_copy) tasks.push_back(s.task);
    const RecomputeProblem problem = recompute_problem(program, sizes, plain, costs);
    bound = peak_bound(problem);  // whatever the order
    for (RecomputePlan& plan : find_frontier(problem, each)) {
      for (std::uint32_t& run : plan.runs) run = tasks[run];
      plans.push_back(std::move(plan));
    }
  }
  keep_frontier(plans);
  return plans;
}

Fitter::Fitter(const Program& program, const TaskSizes& sizes)
    : program_(program), sizes_(sizes), orders_(orders(program, sizes)) {
  plain_.schedule = orders_[0];
  plain_.plan = pack(plain_.schedule, PackEffort::Thorough);
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
    seconds_.push_back(predict_task_seconds(program, sizes, t));
    plain_.plain_seconds += seconds_.back();
  }
  plain_.seconds = plain_.plain_seconds;
  bound_ = peak_bound(recompute_problem(program, sizes, plain_.schedule, seconds_));
}

void Fitter::find_points() {
  if (searched_) return;
  searched_ = true;
  for (RecomputePlan& plan : program_frontier(program_, sizes_, orders_, seconds_, {}, bound_))
    points_.push_back({std::move(plan), {}, false});
}

const Fitted* Fitter::packed(Point& point) {
  if (!point.tried) {
    point.tried = true;
    Fitted f;
    f.schedule = order_as(program_, sizes_, point.plan.runs);
    if (find_fault(program_, f.schedule).empty()) {
      f.plan = pack(f.schedule, PackEffort::Thorough);
      std::set<std::uint32_t> again;
      for (const Step& s : f.schedule.steps)
        if (s.again) again.insert(s.task);
      for (std::uint32_t t : again) f.recomputed.push_back(program_.tasks[t].name);
      std::sort(f.recomputed.begin(), f.recomputed.end());
      f.seconds = point.plan.cost;
      f.plain_seconds = plain_.plain_seconds;
      point.packed = std::move(f);
    }
  }
  return point.packed ? &*point.packed : nullptr;
}

std::optional<Fitted> Fitter::fit(std::uint64_t budget) {
  if (budget == 0 || plain_.plan.bytes <= budget) return plain_;
  find_points();
  for (Point& point : points_) {
    if (point.plan.peak > budget) continue;
    const Fitted* f = packed(point);
    if (f && f->plan.bytes <= budget) return *f;
  }
  return std::nullopt;
}

Floor Fitter::floor() {
  find_points();
  Floor floor{bound_, plain_.plan.bytes};
  for (auto point = points_.rbegin(); point != points_.rend(); ++point) {
    if (point->plan.peak >= floor.smallest) break;
    if (const Fitted* f = packed(*point)) floor.smallest = std::min(floor.smallest, f->plan.bytes);
  }
  return floor;
}

}  // namespace snug
