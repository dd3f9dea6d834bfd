#include "exec/fit_loops.h"

#include <algorithm>
#include <list>

#include "cost/tasks.h"
#include "exec/loop_call.h"

namespace snug {
namespace {

/// Plans for one loop, whatever the budget.
class LoopFitter {
 public:
  LoopFitter(std::uint32_t task_of_loop, LoopCall& loop, Frontier& kept)
      : task(task_of_loop),
        call(loop),
        plain_(loop.plan()),
        fitter_(loop.body().exe->lowered->program, loop.body().sizes, true, &kept) {}

  /// The fastest plan whose workspace has at most `budget` bytes; nothing if there is none.
  std::optional<LoopPlan> fit(std::uint64_t budget) {
    if (call.workspace_of(plain_) <= budget) return plain_;
    // What the tables take depends on the plan.
    const std::uint64_t tables =
        call.workspace_of(plain_) - call.planned_for().planned->plan.host().bytes;
    std::uint64_t arena = budget > tables ? budget - tables : 0;
    while (arena > 0) {
      std::optional<Planned> fitted = fitter_.fit(arena);
      if (!fitted) break;
      const std::uint64_t height = fitted->plan.host().bytes;
      std::optional<LoopPlan> plan = with(*std::move(fitted));
      if (plan && call.workspace_of(*plan) <= budget) return plan;
      if (height == 0) break;
      arena = height - 1;
    }
    return std::nullopt;
  }

  LoopPlan lowest() {
    const Floor floor = fitter_.floor();
    if (floor.smallest == 0 || floor.smallest >= plain_.body->plan.host().bytes) return plain_;
    return with(*fitter_.fit(floor.smallest)).value_or(plain_);
  }

  const std::uint32_t task;
  LoopCall& call;

 private:
  /// The loop with this plan of its body; the last block takes it, too, unless it is small enough.
  std::optional<LoopPlan> with(Planned fitted) const {
    const Program& program = call.body().exe->lowered->program;
    auto planned = std::make_shared<Planned>(std::move(fitted));
    planned->kind = plain_.body->kind;
    LoopPlan plan{planned, plain_.last, planned->seconds * static_cast<double>(call.count())};
    if (!plain_.last) return plan;
    double last = plain_.last->seconds;
    if (plain_.last->plan.host().bytes > planned->plan.host().bytes) {
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
  Trial(const Program& program, const PreparedTasks& tasks, const Planned& plain,
        std::list<LoopFitter>& loops)
      : program_(program), sizes_(tasks.sizes), loops_(loops) {
    for (const Step& s : plain.schedule.steps)
      if (!s.commit_copy) order_.push_back(s.task);
    for (const LoopFitter& loop : loops_) plans_.push_back(loop.call.plan());
  }

  /// The fastest bodies with which the rest, every task once, keeps to the budget.
  std::optional<Planned> fit_bodies(std::uint64_t budget) {
    const std::vector<std::uint64_t> around = bytes_around_loops();
    std::size_t k = 0;
    for (LoopFitter& loop : loops_) {
      if (around[k] >= budget || !take(k, loop.fit(budget - around[k]))) return std::nullopt;
      ++k;
    }
    for (;;) {
      Planned f;
      f.schedule = order_as(program_, sizes_, order_);
      f.plan = pack(f.schedule, PackEffort::Thorough);
      if (f.plan.host().bytes <= budget) {
        f.seconds = predict_seconds(program_, sizes_);
        return f;
      }
      if (f.plan.host().load > budget) return std::nullopt;  // a step outside the loops
      // The packing has a gap: a smaller body of the loop around which most is alive.
      std::size_t fullest = 0;
      for (std::size_t i = 1; i < plans_.size(); ++i)
        if (around[i] + workspace(i) > around[fullest] + workspace(fullest)) fullest = i;
      LoopFitter& loop = *std::next(loops_.begin(), static_cast<std::ptrdiff_t>(fullest));
      if (workspace(fullest) == 0 || !take(fullest, loop.fit(workspace(fullest) - 1)))
        return std::nullopt;
    }
  }

  /// The lowest bodies, and tasks outside that run again. `floor.bound` is known.
  std::optional<Planned> fit_around_lowest(std::uint64_t budget, Floor& floor, bool find_smallest,
                                           Frontier& kept) {
    if (budget < floor.bound) return std::nullopt;  // whatever the lowest one is
    std::size_t k = 0;
    for (LoopFitter& loop : loops_) take(k++, loop.lowest());
    Fitter fitter(program_, sizes_, true, &kept);
    std::optional<Planned> fitted = fitter.fit(budget);
    if (!fitted && find_smallest) floor.smallest = fitter.floor().smallest;
    return fitted;
  }

  /// The loops run as they were tried.
  Planned commit(Planned fitted, double plain_seconds, PreparedTasks& tasks) {
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
      around.push_back(pack(order_as(program_, alone, order_)).host().load - kMost);
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
bool better(const std::optional<Planned>& a, const std::optional<Planned>& b) {
  if (!a || !b) return a.has_value();
  return std::pair(a->seconds, a->plan.host().bytes) < std::pair(b->seconds, b->plan.host().bytes);
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
      sizes.workspace[t] -= loop->planned_for().planned->plan.host().bytes;
      sizes.workspace[t] +=
          bound_of(body.exe->lowered->program, body.sizes, body.exe->planned->schedule);
    }
  return bound_of(program, sizes, plain);
}

/// Appends what plans depend on.
class KeyWriter {
 public:
  explicit KeyWriter(std::string& key) : key_(key) {}

  template <class T>
  void put(T x) {
    static_assert(std::is_arithmetic_v<T>);
    key_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }

  void put_program(const Program& p, const TaskSizes& s) {
    put_graph(p, s);
    const bool sizes_wait = !p.graph.runtime_sources().empty();
    put(p.tasks.size());
    for (std::uint32_t t = 0; t < p.tasks.size(); ++t) {
      const Task& task = p.tasks[t];
      put(static_cast<std::uint8_t>(task.kind));
      put(task.device);
      put(task.may_fail);
      put_values(p, s, task.reads);
      put_values(p, s, task.writes);
      put(task.in_place.size());
      for (auto [write, read] : task.in_place) put(write), put(read);
      put(s.workspace[t]);
      put(predict_task_seconds(p, s, t));
      if (sizes_wait && task.kind == Task::Kind::Kernel) put_all(p.kernels[task.index].ints);
    }
    for (const std::vector<bool>* flags : {&s.kind.same_shape, &s.kind.copied}) put_all(*flags);
    put_all(s.limited);
    put(s.disk != nullptr);
    if (s.disk) put(s.disk->write), put(s.disk->read), put(s.disk->latency);
  }

 private:
  void put_value(const Program& p, const TaskSizes& s, Value v) {
    put(v.node);
    put(v.output);
    put(bytes_of(p, s.sizes, v));
    if (!p.graph.runtime_sources().empty()) put_all(p.type(v).dims);
  }
  template <class Values>
  void put_values(const Program& p, const TaskSizes& s, const Values& values) {
    put(values.size());
    for (Value v : values) put_value(p, s, v);
  }
  template <class Numbers>
  void put_all(const Numbers& numbers) {
    put(static_cast<std::size_t>(numbers.size()));
    for (auto x : numbers) put(x);
  }

  /// Leaves, results, and which sizes wait for which values.
  void put_graph(const Program& p, const TaskSizes& s) {
    const Graph& g = p.graph;
    put(g.inputs().size());
    for (const GraphInput& in : g.inputs()) {
      put_value(p, s, in.value);
      put(in.shared != nullptr);
      put(in.state);
    }
    put(g.nodes().size());
    for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
      if (has(*g.node(id).op, kLeaf)) put_value(p, s, {id, 0});
    put_values(p, s, g.outputs());
    put(g.updates().size());
    for (const Update& u : g.updates()) put(u.input), put_value(p, s, u.value);
    put(g.runtime_sources().size());
    if (g.runtime_sources().empty()) return;
    for (const Graph::RuntimeSource& source : g.runtime_sources()) {
      put(source.symbol);
      put_value(p, s, source.value);
    }
    for (const SizeNode& n : g.sizes().nodes())
      put(static_cast<std::uint8_t>(n.op)), put(n.value), put(n.a), put(n.b), put(n.c);
    for (const Task& t : p.tasks)
      if (t.kind == Task::Kind::Sizes)
        for (Value v : t.writes) put_all(g.elements(v));
  }

  std::string& key_;
};

}  // namespace

std::size_t ProgramFrontiers::bytes() const {
  std::size_t sum = whole.bytes() + around_lowest.bytes();
  for (const Frontier& body : bodies) sum += body.bytes();
  return sum;
}

std::int64_t ProgramFrontiers::searches() const {
  std::int64_t count = whole.searched + around_lowest.searched;
  for (const Frontier& body : bodies) count += body.searched;
  return count;
}

std::string frontier_key(const Program& program, const PreparedTasks& tasks, bool recompute) {
  std::string key;
  KeyWriter writer(key);
  writer.put(recompute);
  writer.put_program(program, tasks.sizes);
  for (const auto& call : tasks.calls)
    if (const auto* loop = dynamic_cast<const LoopCall*>(call.get())) {
      writer.put(loop->count());
      for (const LoopCall::Body* body : {&loop->body(), loop->last()})
        if (body) writer.put_program(body->exe->lowered->program, body->sizes);
    }
  return key;
}

std::optional<Planned> fit_with_loops(const Program& program, PreparedTasks& tasks,
                                      const ArenaLimits& limits, Floor& floor, PlanSearch search,
                                      ProgramFrontiers& kept) {
  Fitter outside(program, tasks.sizes, search.recompute, &kept.whole);
  const Planned plain = *outside.fit(0);
  floor.bound = floor.smallest = bound_with_loops(program, tasks, plain.schedule);
  floor.plain_seconds = plain.plain_seconds;
  if (limits.hold(plain.plan)) return plain;
  std::vector<std::pair<std::uint32_t, LoopCall*>> calls;
  for (std::uint32_t t = 0; search.recompute && t < tasks.calls.size(); ++t)
    if (auto* loop = dynamic_cast<LoopCall*>(tasks.calls[t].get());
        loop && program.tasks[t].device == 0)
      calls.emplace_back(t, loop);
  kept.bodies.resize(calls.size());
  std::list<LoopFitter> loops;
  for (std::size_t k = 0; k < calls.size(); ++k)
    loops.emplace_back(calls[k].first, *calls[k].second, kept.bodies[k]);
  std::optional<Planned> whole_bodies = outside.fit(limits);
  if (loops.empty() || limits.host == 0) {
    if (!whole_bodies && search.find_smallest) floor = outside.floor();
    return whole_bodies;
  }
  Trial trial(program, tasks, plain, loops);
  std::optional<Planned> fitted = trial.fit_bodies(limits.host);
  if (!better(fitted, whole_bodies) && whole_bodies) return whole_bodies;
  if (!fitted)
    fitted = trial.fit_around_lowest(limits.host, floor, search.find_smallest, kept.around_lowest);
  if (!fitted || !limits.hold(fitted->plan)) return std::nullopt;
  return trial.commit(*std::move(fitted), plain.plain_seconds, tasks);
}

}  // namespace snug
