#include "plan/fit.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "cost/tasks.h"
#include "kernel/task_words.h"
#include "plan/offload.h"

namespace snug {
namespace {

/// Numbers the values that tasks make, and arguments that are copied into the arena.
class ProblemMaker {
 public:
  ProblemMaker(const Program& p, const TaskSizes& s, const Schedule& plain,
               std::span<const double> costs)
      : p_(p), s_(s), plain_(plain), costs_(costs) {}

  RecomputeProblem make(std::vector<Value>* values) {
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
    if (values) *values = std::move(values_);
    return std::move(out_);
  }

 private:
  bool is_leaf(const Buffer& b) const {
    return !b.workspace && b.value.node < p_.graph.nodes().size() &&
           has(*p_.graph.node(b.value).op, kLeaf);
  }

  void add_leaf(const Buffer& b) {
    if (!is_leaf(b) || !is_planned(b)) return;
    add_value(b.value, {.bytes = arena_aligned(b.bytes), .given = true});
  }

  void add_written(const Buffer& b) {
    add_value(b.value, {.bytes = arena_aligned(b.bytes), .stored = !is_planned(b)});
  }

  /// In an arena that is to become lower; what is elsewhere stays there.
  bool is_planned(const Buffer& b) const { return b.where == Where::Arena && s_.counts(b.space); }

  void add_value(Value v, RecomputeProblem::Value value) {
    number_[v] = static_cast<std::uint32_t>(out_.values.size());
    out_.values.push_back(value);
    values_.push_back(v);
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
    const Space space = t.kind == Task::Kind::Loop ? kHostSpace : own_space(t.device);
    task.workspace = s_.counts(space) ? arena_aligned(s_.workspace[step.task]) : 0;
    if (step.task < s_.elsewhere.size())
      for (const auto& [other, bytes] : s_.elsewhere[step.task])
        if (s_.counts(other)) task.workspace += arena_aligned(bytes);
    task.cost = costs_[step.task];
    // To make again what is in a memory that does not count would take more of it.
    const bool elsewhere =
        std::any_of(step.writes.begin(), step.writes.end(),
                    [&](std::uint32_t b) { return !s_.counts(plain_.buffers[b].space); });
    task.repeatable =
        !t.may_fail && t.kind != Task::Kind::Loop && overwritten.empty() && !elsewhere;
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
  std::vector<Value> values_;  // by their number
  std::unordered_map<Value, std::uint32_t, ValueHash> number_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> readers_;  // of shared variables
  std::vector<std::vector<std::uint32_t>> overwritten_;                    // per task
};

std::vector<std::uint32_t> tasks_of(const Schedule& s) {
  std::vector<std::uint32_t> tasks;
  for (const Step& step : s.steps)
    if (!step.commit_copy) tasks.push_back(step.task);
  return tasks;
}

/// Plans of one order that offload the first values of a list, and then run tasks again as well.
struct OffloadedPlans {
  std::size_t count;                 // of values
  std::vector<RecomputePlan> plans;  // their runs as order_as takes them
};
std::vector<OffloadedPlans> plans_with_offloads(const RecomputeProblem& problem,
                                                const Schedule& plain,
                                                std::span<const Offload> offloads,
                                                const DiskRates& disk, bool recompute,
                                                std::uint32_t task_count) {
  constexpr std::size_t kSets = 32, kSearched = 4;
  const std::vector<std::uint32_t> tasks = tasks_of(plain);
  std::vector<OffloadedPlans> out;
  RecomputeLimits each;
  each.runs /= 2 * kSearched;
  const std::size_t sets = std::min(kSets, offloads.size());
  for (std::size_t k = 1; k <= sets; ++k) {
    const std::size_t count = offloads.size() * k / sets;
    OffloadProblem with = with_offloads(problem, offloads.first(count), disk);
    if (!recompute)  // but values may come back from the file several times
      for (std::size_t t = 0; t < with.run_of.size(); ++t)
        with.problem.tasks[t].repeatable &= with.run_of[t] >= tasks.size();
    const bool searched = k * kSearched / sets > (k - 1) * kSearched / sets;
    OffloadedPlans found{count, searched ? find_frontier(with.problem, each)
                                         : std::vector{plain_plan(with.problem)}};
    for (RecomputePlan& plan : found.plans) {
      std::erase_if(plan.runs, [&](auto r) { return with.run_of[r] == OffloadProblem::kStores; });
      for (std::uint32_t& r : plan.runs) {
        const std::uint32_t run = with.run_of[r];
        r = run < tasks.size() ? tasks[run]
                               : task_count + run - static_cast<std::uint32_t>(tasks.size());
      }
    }
    out.push_back(std::move(found));
  }
  return out;
}

}  // namespace

RecomputeProblem recompute_problem(const Program& program, const TaskSizes& sizes,
                                   const Schedule& plain, std::span<const double> costs,
                                   std::vector<Value>* values) {
  return ProblemMaker(program, sizes, plain, costs).make(values);
}

std::vector<RecomputePlan> program_frontier(const Program& program, const TaskSizes& sizes,
                                            std::span<const Schedule> orders,
                                            std::span<const double> costs,
                                            const RecomputeLimits& limits, std::uint64_t& bound) {
  std::vector<RecomputePlan> plans;
  RecomputeLimits each = limits;
  each.runs /= orders.size();
  for (const Schedule& plain : orders) {
    const std::vector<std::uint32_t> tasks = tasks_of(plain);
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

std::size_t Frontier::bytes() const {
  const auto size = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  std::size_t sum = sizeof(*this) + size(orders) + size(plain.offsets) + size(points);
  for (const auto& order : orders) sum += size(order);
  for (const Point& p : points)
    sum += size(p.plan.runs) + size(p.offloaded) + size(p.packed.offsets);
  return sum;
}

Fitter::Fitter(const Program& program, const TaskSizes& sizes, bool recompute, Frontier* kept)
    : program_(program), sizes_(sizes), recompute_(recompute), frontier_(kept ? *kept : own_) {
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
    seconds_.push_back(predict_task_seconds(program, sizes, t));
    plain_.plain_seconds += seconds_.back();
  }
  plain_.seconds = plain_.plain_seconds;
  if (frontier_.orders.empty()) {
    std::vector<Schedule> found = orders(program, sizes);
    std::vector<std::vector<std::uint32_t>> tasks;
    for (const Schedule& s : found) tasks.push_back(tasks_of(s));
    plain_.schedule = std::move(found[0]);
    frontier_.best_order = plain_.schedule.best_order;
    frontier_.plain = pack(plain_.schedule, PackEffort::Thorough);
    frontier_.bound = peak_bound(recompute_problem(program, sizes, plain_.schedule, seconds_));
    frontier_.orders = std::move(tasks);  // last: it says that the rest is there
  } else {
    plain_.schedule = order_as(program, sizes, frontier_.orders[0]);
    plain_.schedule.best_order = frontier_.best_order;
  }
  plain_.plan = frontier_.plain;
}

void Fitter::find_points() {
  if (frontier_.searched) return;
  std::vector<Point>& points = frontier_.points;
  points.clear();  // of a search that failed
  std::vector<Schedule> plain;
  for (const auto& order : frontier_.orders) plain.push_back(order_as(program_, sizes_, order));
  RecomputeLimits limits;
  if (!recompute_) limits.runs = 0;
  for (RecomputePlan& plan :
       program_frontier(program_, sizes_, plain, seconds_, limits, frontier_.bound))
    points.push_back({.plan = std::move(plan)});
  for (Point& point : points) point.load = point.plan.peak;
  if (sizes_.disk) {
    for (const Schedule& s : plain) add_points_with_offloads(s);
    const auto worse = [lowest = UINT64_MAX](const Point& p) mutable {
      const bool is_worse = p.plan.peak >= lowest;
      lowest = std::min(lowest, p.plan.peak);
      return is_worse;
    };
    const auto by_cost = [](const Point& a, const Point& b) {
      return std::pair(a.plan.cost, a.plan.peak) < std::pair(b.plan.cost, b.plan.peak);
    };
    std::stable_sort(points.begin(), points.end(), by_cost);
    std::erase_if(points, worse);
    // Packing decides how much transfers overlap: either all that they may or not at all.
    for (Point& point : points) {
      if (point.offloaded.empty()) continue;
      point.overlapped = false;
      const Schedule apart = schedule_of(point);
      point.load = load_of(apart);  // overlapping keeps to it
      point.plan.cost = std::min(point.plan.cost, predict_seconds(apart, seconds_, *sizes_.disk));
    }
    std::stable_sort(points.begin(), points.end(), by_cost);
  }
  points.shrink_to_fit();
  frontier_.searched = true;
}

void Fitter::add_points_with_offloads(const Schedule& plain) {
  std::vector<Value> values;
  const RecomputeProblem problem = recompute_problem(program_, sizes_, plain, seconds_, &values);
  const std::vector<Offload> offloads = find_offloads(problem, *sizes_.disk);
  std::vector<Value> offloaded;
  for (const Offload& o : offloads) offloaded.push_back(values[o.value]);
  for (auto& [count, plans] :
       plans_with_offloads(problem, plain, offloads, *sizes_.disk, recompute_,
                           static_cast<std::uint32_t>(program_.tasks.size())))
    for (RecomputePlan& plan : plans) {
      Point point{.plan = std::move(plan)};
      point.offloaded.assign(offloaded.begin(),
                             offloaded.begin() + static_cast<std::ptrdiff_t>(count));
      point.overlapped = true;
      point.plan.cost = predict_seconds(schedule_of(point), seconds_, *sizes_.disk);
      frontier_.points.push_back(std::move(point));
    }
}

Schedule Fitter::schedule_of(const Point& point) const {
  Schedule s = order_as(program_, sizes_, point.plan.runs, point.offloaded);
  if (point.overlapped) overlap_transfers(s, seconds_, *sizes_.disk);
  return s;
}

const MemoryPlan* Fitter::packed(Point& point) {
  if (!point.tried) {
    point.overlapped = false;
    const Schedule s = schedule_of(point);
    point.valid = find_fault(program_, s).empty();
    if (point.valid) {
      point.packed = pack(s, PackEffort::Thorough);
      if (!point.offloaded.empty()) {
        // Transfers overlap with steps as far as that costs no memory.
        point.overlapped = true;
        const Schedule overlapped = schedule_of(point);
        MemoryPlan wide = pack(overlapped, PackEffort::Thorough);
        point.overlapped = wide.host().bytes <= point.packed.host().bytes;
        if (point.overlapped) point.packed = std::move(wide);
        point.seconds = predict_seconds(point.overlapped ? overlapped : s, seconds_, *sizes_.disk);
      } else {
        point.seconds = point.plan.cost;
      }
    }
    point.tried = true;
  }
  return point.valid ? &point.packed : nullptr;
}

Planned Fitter::fitted(const Point& point) const {
  Planned f;
  f.schedule = schedule_of(point);
  f.plan = point.packed;
  std::set<std::uint32_t> again;
  for (const Step& s : f.schedule.steps)
    if (s.again) again.insert(s.task);
  for (std::uint32_t t : again) f.recomputed.push_back(words_for(program_, program_.tasks[t]));
  std::sort(f.recomputed.begin(), f.recomputed.end());
  f.seconds = point.seconds;
  f.plain_seconds = plain_.plain_seconds;
  return f;
}

std::optional<Planned> Fitter::fit(const ArenaLimits& limits) {
  if (limits.hold(plain_.plan)) return plain_;
  // Of all memories that count.
  std::uint64_t total = limits.host;
  bool limited = limits.host > 0;
  for (DeviceId d = 1; d < sizes_.limited.size(); ++d) {
    limited &= !sizes_.limited[d] || limits.of(d) > 0;
    total += limits.of(d);
  }
  if (!limited) total = UINT64_MAX;
  if (bound() > total) return std::nullopt;
  find_points();
  const Point* best = nullptr;
  for (Point& point : frontier_.points) {
    if (best && point.plan.cost > best->seconds) break;  // nor is any behind it faster
    if (point.load > total) continue;
    const MemoryPlan* const plan = packed(point);
    if (!plan || !limits.hold(*plan)) continue;
    if (!best ||
        std::pair(point.seconds, point.plan.peak) < std::pair(best->seconds, best->plan.peak))
      best = &point;
  }
  if (!best) return std::nullopt;
  return fitted(*best);
}

Floor Fitter::floor() {
  find_points();
  Floor floor{bound(), plain_.plan.host().bytes, plain_.plain_seconds};
  for (auto point = frontier_.points.rbegin(); point != frontier_.points.rend(); ++point) {
    if (point->load >= floor.smallest) continue;
    if (const MemoryPlan* plan = packed(*point))
      floor.smallest = std::min(floor.smallest, plan->host().bytes);
  }
  return floor;
}

}  // namespace snug
