#include "plan/fit.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
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
               std::span<const double> costs, MemorySet memories)
      : p_(p), s_(s), plain_(plain), costs_(costs), memories_(memories) {}

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
  bool is_planned(const Buffer& b) const {
    return b.where == Where::Arena && in(memories_, b.space);
  }

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
    task.workspace = in(memories_, space) ? arena_aligned(s_.workspace[step.task]) : 0;
    if (step.task < s_.elsewhere.size())
      for (const auto& [other, bytes] : s_.elsewhere[step.task])
        if (in(memories_, other)) task.workspace += arena_aligned(bytes);
    task.cost = costs_[step.task];
    // To make again what is in a memory that does not count would take more of it.
    const bool elsewhere =
        std::any_of(step.writes.begin(), step.writes.end(),
                    [&](std::uint32_t b) { return !in(memories_, plain_.buffers[b].space); });
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
  MemorySet memories_;
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

constexpr MemorySet memory(DeviceId d) { return MemorySet{1} << d; }

bool by_cost(const Frontier::Point& a, const Frontier::Point& b) {
  return std::pair(a.plan.cost, a.plan.peak) < std::pair(b.plan.cost, b.plan.peak);
}

/// Sorts, and leaves out what takes longer than another and has no less in any memory.
void keep_best(std::vector<Frontier::Point>& points) {
  std::stable_sort(points.begin(), points.end(), by_cost);
  std::vector<Frontier::Point> kept;
  for (Frontier::Point& p : points) {
    const bool worse = std::any_of(kept.begin(), kept.end(), [&](const Frontier::Point& k) {
      return std::equal(k.loads.begin(), k.loads.end(), p.loads.begin(), std::less_equal());
    });
    if (!worse) kept.push_back(std::move(p));
  }
  points = std::move(kept);
}

bool allows(const ArenaLimits& limits, const std::vector<std::uint64_t>& bytes) {
  for (std::size_t d = 0; d < bytes.size(); ++d)
    if (!limits.allow(static_cast<DeviceId>(d), bytes[d])) return false;
  return true;
}

}  // namespace

RecomputeProblem recompute_problem(const Program& program, const TaskSizes& sizes,
                                   const Schedule& plain, std::span<const double> costs,
                                   MemorySet memories, std::vector<Value>* values) {
  return ProblemMaker(program, sizes, plain, costs, memories).make(values);
}

std::vector<std::uint64_t> bounds_of(const Program& program, const TaskSizes& sizes,
                                     const Schedule& plain) {
  const std::vector<double> costs(program.tasks.size(), 0);
  std::vector<std::uint64_t> bounds;
  for (DeviceId d = 0; d <= device_of(static_cast<Space>(spaces_of(plain) - 1)); ++d)
    bounds.push_back(peak_bound(recompute_problem(program, sizes, plain, costs, memory(d))));
  return bounds;
}

std::vector<RecomputePlan> program_frontier(const Program& program, const TaskSizes& sizes,
                                            std::span<const Schedule> orders,
                                            std::span<const double> costs,
                                            const RecomputeLimits& limits, MemorySet memories) {
  std::vector<RecomputePlan> plans;
  RecomputeLimits each = limits;
  each.runs /= orders.size();
  for (const Schedule& plain : orders) {
    const std::vector<std::uint32_t> tasks = tasks_of(plain);
    const RecomputeProblem problem = recompute_problem(program, sizes, plain, costs, memories);
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
    sum += size(p.plan.runs) + size(p.offloaded) + size(p.loads) + size(p.packed.offsets);
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
    frontier_.bounds = bounds_of(program, sizes, plain_.schedule);
    frontier_.orders = std::move(tasks);  // last: it says that the rest is there
  } else {
    plain_.schedule = order_as(program, sizes, frontier_.orders[0]);
    plain_.schedule.best_order = frontier_.best_order;
  }
  plain_.plan = frontier_.plain;
}

void Fitter::find_points() {
  if (frontier_.searched) return;
  std::vector<Schedule> plain;
  for (const auto& order : frontier_.orders) plain.push_back(order_as(program_, sizes_, order));
  const std::size_t devices = frontier_.bounds.size();
  RecomputeLimits limits;
  limits.runs = recompute_ ? limits.runs / (devices > 1 ? devices + 1 : 1) : 0;
  std::vector<Point> points;
  for (DeviceId d = 0; d < devices; ++d) {
    std::vector<Point> more = points_of(memory(d), plain, limits);
    if (d == 0 && sizes_.disk) add_offloads(more, plain);
    std::move(more.begin(), more.end(), std::back_inserter(points));
  }
  if (devices > 1) {  // each alone, and all together
    std::vector<Point> more = points_of((MemorySet{1} << devices) - 1, plain, limits);
    std::move(more.begin(), more.end(), std::back_inserter(points));
    keep_best(points);
  }
  points.shrink_to_fit();
  frontier_.points = std::move(points);
  frontier_.searched = true;
}

std::vector<Fitter::Point> Fitter::points_of(MemorySet memories, std::span<const Schedule> plain,
                                             const RecomputeLimits& limits) {
  std::vector<Point> points;
  for (RecomputePlan& plan :
       program_frontier(program_, sizes_, plain, seconds_, limits, memories)) {
    Point& point = points.emplace_back(Point{.plan = std::move(plan)});
    if (frontier_.bounds.size() == 1) {
      point.loads = {point.plan.peak};
    } else {
      point.loads = loads_of(schedule_of(point));
      point.plan.peak = std::accumulate(point.loads.begin(), point.loads.end(), std::uint64_t{0});
    }
  }
  return points;
}

void Fitter::add_offloads(std::vector<Point>& points, std::span<const Schedule> plain) {
  for (const Schedule& s : plain) add_points_with_offloads(s, points);
  const auto worse = [lowest = UINT64_MAX](const Point& p) mutable {
    const bool is_worse = p.plan.peak >= lowest;
    lowest = std::min(lowest, p.plan.peak);
    return is_worse;
  };
  std::stable_sort(points.begin(), points.end(), by_cost);
  std::erase_if(points, worse);
  // Packing decides how much transfers overlap: either all that they may or not at all.
  for (Point& point : points) {
    if (point.offloaded.empty()) continue;
    point.overlapped = false;
    const Schedule apart = schedule_of(point);
    point.loads = loads_of(apart);  // overlapping keeps to it
    point.plan.cost = std::min(point.plan.cost, predict_seconds(apart, seconds_, *sizes_.disk));
  }
  std::stable_sort(points.begin(), points.end(), by_cost);
}

void Fitter::add_points_with_offloads(const Schedule& plain, std::vector<Point>& points) {
  std::vector<Value> values;
  const RecomputeProblem problem =
      recompute_problem(program_, sizes_, plain, seconds_, kHostMemory, &values);
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
      points.push_back(std::move(point));
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
  if (!allows(limits, bounds())) return std::nullopt;
  find_points();
  const Point* best = nullptr;
  for (Point& point : frontier_.points) {
    if (best && point.plan.cost > best->seconds) break;  // nor is any behind it faster
    if (!allows(limits, point.loads)) continue;
    const MemoryPlan* const plan = packed(point);
    if (!plan || !limits.hold(*plan)) continue;
    if (!best ||
        std::pair(point.seconds, point.plan.peak) < std::pair(best->seconds, best->plan.peak))
      best = &point;
  }
  if (!best) return std::nullopt;
  return fitted(*best);
}

Floor Fitter::floor(const ArenaLimits& limits) {
  find_points();
  Floor floor;
  floor.plain_seconds = plain_.plain_seconds;
  for (DeviceId d = 0; d < bounds().size(); ++d)
    floor.in.push_back({bounds()[d], plain_.plan.bytes_in(d)});
  const auto is_lower = [&](const std::vector<std::uint64_t>& loads) {
    for (std::size_t d = 0; d < floor.in.size(); ++d)
      if (loads[d] < floor.in[d].smallest) return true;
    return false;
  };
  for (auto point = frontier_.points.rbegin(); point != frontier_.points.rend(); ++point) {
    if (!is_lower(point->loads)) continue;
    if (const MemoryPlan* plan = packed(*point))
      for (DeviceId d = 0; d < floor.in.size(); ++d)
        floor.in[d].smallest = std::min(floor.in[d].smallest, plan->bytes_in(d));
  }
  if (limits.size() > 1) floor.nearest = nearest(limits);
  return floor;
}

std::vector<std::uint64_t> Fitter::nearest(const ArenaLimits& limits) {
  const auto excess = [&](const Point& point) {
    double most = 0;
    for (DeviceId d = 0; d < point.loads.size(); ++d)
      if (limits.of(d) > 0)
        most =
            std::max(most, static_cast<double>(point.loads[d]) / static_cast<double>(limits.of(d)));
    return most;
  };
  Point* best = nullptr;
  for (Point& point : frontier_.points)
    if ((!best || excess(point) < excess(*best)) && packed(point)) best = &point;
  std::vector<std::uint64_t> bytes;
  for (DeviceId d = 0; best && d < bounds().size(); ++d) bytes.push_back(best->packed.bytes_in(d));
  return bytes;
}

}  // namespace snug
