#include "exec/fit_loops.h"

#include <algorithm>
#include <list>

#include "cost/tasks.h"
#include "exec/loop_call.h"
#include "plan/queues.h"

namespace snug {
namespace {

/// Plans for one loop, whatever the budget.
class LoopFitter {
 public:
  LoopFitter(std::uint32_t task_of_loop, DeviceId device, LoopCall& loop, Frontier& kept)
      : task(task_of_loop),
        call(loop),
        device_(device),
        plain_(loop.plan()),
        fitter_(loop.body().exe->lowered->program, loop.body().sizes, true, &kept) {}

  /// The fastest plan whose workspaces keep to the limits; nothing if there is none.
  std::optional<LoopPlan> fit(const ArenaLimits& limits) {
    if (keeps_to(limits, plain_)) return plain_;
    ArenaLimits arenas = limits;
    // What the tables take depends on the plan.
    const std::uint64_t tables =
        call.workspace_of(plain_) - call.planned_for().planned->plan.host().bytes;
    if (limits.of(0) > 0) arenas.set(0, limits.of(0) > tables ? limits.of(0) - tables : 0);
    while (limits.of(0) == 0 || arenas.of(0) > 0) {
      std::optional<Planned> fitted = fitter_.fit(arenas);
      if (!fitted) break;
      const std::uint64_t height = fitted->plan.bytes_in(0);
      std::optional<LoopPlan> plan = with(*std::move(fitted));
      if (plan && keeps_to(limits, *plan)) return plan;
      if (limits.of(0) == 0 || height == 0) break;
      arenas.set(0, height - 1);
    }
    return std::nullopt;
  }

  /// In the memory of the device that the loop is on.
  LoopPlan lowest() {
    const Floor floor = fitter_.floor();
    const std::uint64_t smallest = device_ < floor.in.size() ? floor.in[device_].smallest : 0;
    if (smallest == 0 || smallest >= plain_.body->plan.bytes_in(device_)) return plain_;
    ArenaLimits limits;
    limits.set(device_, smallest);
    return with(*fitter_.fit(limits)).value_or(plain_);
  }

  const std::uint32_t task;
  LoopCall& call;

 private:
  bool keeps_to(const ArenaLimits& limits, const LoopPlan& plan) const {
    for (DeviceId d = 0; d < limits.size(); ++d)
      if (!limits.allow(d, call.bytes_in(d, plan))) return false;
    return true;
  }

  /// The loop with this plan of its body; the last block takes it, too, unless it is small enough.
  std::optional<LoopPlan> with(Planned fitted) const {
    const Program& program = call.body().exe->lowered->program;
    auto planned = std::make_shared<Planned>(std::move(fitted));
    add_waits(planned->schedule, planned->plan);
    verify_queues(planned->schedule, planned->plan);
    planned->kind = plain_.body->kind;
    LoopPlan plan{planned, plain_.last, planned->seconds * static_cast<double>(call.count())};
    if (!plain_.last) return plan;
    double last = plain_.last->seconds;
    if (is_larger(plain_.last->plan, planned->plan)) {
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

  static bool is_larger(const MemoryPlan& a, const MemoryPlan& b) {
    for (std::size_t space = 0; space < a.arenas.size(); ++space)
      if (a.arenas[space].bytes > b.arenas[space].bytes) return true;
    return false;
  }

  const DeviceId device_;
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

  /// The fastest bodies with which the rest, every task once, keeps to the limits.
  std::optional<Planned> fit_bodies(const ArenaLimits& limits) {
    const std::vector<std::vector<std::uint64_t>> around = bytes_around_loops();
    std::vector<ArenaLimits> left(plans_.size());
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      for (DeviceId d = 0; d < around[k].size(); ++d) {
        if (limits.of(d) == 0) continue;
        if (around[k][d] >= limits.of(d)) return std::nullopt;
        left[k].set(d, limits.of(d) - around[k][d]);
      }
      if (!take(k, fitter(k).fit(left[k]))) return std::nullopt;
    }
    for (;;) {
      Planned f;
      f.schedule = order_as(program_, sizes_, order_);
      f.plan = pack(f.schedule, PackEffort::Thorough);
      if (limits.hold(f.plan)) {
        f.seconds = predict_seconds(program_, sizes_);
        return f;
      }
      DeviceId over = 0;
      while (limits.allow(over, f.plan.bytes_in(over))) ++over;
      if (f.plan.load_in(over) > limits.of(over)) return std::nullopt;  // a step outside the loops
      // The packing has a gap: a smaller body of the loop around which most is alive.
      std::size_t fullest = 0;
      for (std::size_t i = 1; i < plans_.size(); ++i)
        if (around[i][over] + bytes(i, over) > around[fullest][over] + bytes(fullest, over))
          fullest = i;
      if (bytes(fullest, over) <= 1) return std::nullopt;
      left[fullest].set(over, bytes(fullest, over) - 1);
      if (!take(fullest, fitter(fullest).fit(left[fullest]))) return std::nullopt;
    }
  }

  /// The lowest bodies, and tasks outside that run again. The bounds of `floor` are known.
  std::optional<Planned> fit_around_lowest(const ArenaLimits& limits, Floor& floor,
                                           bool find_smallest, Frontier& kept) {
    for (DeviceId d = 0; d < floor.in.size(); ++d)
      if (!limits.allow(d, floor.in[d].bound)) return std::nullopt;  // whatever the lowest one is
    std::size_t k = 0;
    for (LoopFitter& loop : loops_) take(k++, loop.lowest());
    Fitter fitter(program_, sizes_, true, &kept);
    std::optional<Planned> fitted = fitter.fit(limits);
    if (!fitted && find_smallest) {
      Floor around = fitter.floor(limits);
      floor.nearest = std::move(around.nearest);
      for (std::size_t d = 0; d < floor.in.size(); ++d)
        floor.in[d].smallest = around.in[d].smallest;
    }
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
    tasks.sizes.elsewhere = sizes_.elsewhere;
    tasks.sizes.loop_seconds = sizes_.loop_seconds;
    return fitted;
  }

 private:
  LoopFitter& fitter(std::size_t k) {
    return *std::next(loops_.begin(), static_cast<std::ptrdiff_t>(k));
  }
  std::uint64_t bytes(std::size_t k, DeviceId d) { return fitter(k).call.bytes_in(d, plans_[k]); }

  bool take(std::size_t k, std::optional<LoopPlan> plan) {
    if (!plan) return false;
    const LoopFitter& loop = fitter(k);
    plans_[k] = *std::move(plan);
    sizes_.workspace[loop.task] = loop.call.workspace_of(plans_[k]);
    sizes_.elsewhere[loop.task] = loop.call.elsewhere_of(plans_[k]);
    sizes_.loop_seconds[loop.task] = plans_[k].seconds;
    return true;
  }

  /// Per loop and device: what is alive while it runs, but for its workspaces.
  std::vector<std::vector<std::uint64_t>> bytes_around_loops() const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // more than all else
    std::vector<std::vector<std::uint64_t>> around;
    TaskSizes none = sizes_;
    for (const LoopFitter& loop : loops_) {
      none.workspace[loop.task] = 0;
      none.elsewhere[loop.task].clear();
    }
    const std::size_t devices = loads_of(order_as(program_, sizes_, order_)).size();
    for (const LoopFitter& loop : loops_) {
      TaskSizes alone = none;
      alone.workspace[loop.task] = kMost;
      for (DeviceId d = 1; d < devices; ++d)
        alone.elsewhere[loop.task].emplace_back(own_space(d), kMost);
      around.push_back(loads_of(order_as(program_, alone, order_)));
      for (std::uint64_t& load : around.back()) load -= kMost;
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
  return std::pair(a->seconds, a->plan.bytes()) < std::pair(b->seconds, b->plan.bytes());
}

/// As bounds_of, also inside of loops.
std::vector<std::uint64_t> bounds_with_loops(const Program& program, const PreparedTasks& tasks,
                                             const Schedule& plain) {
  TaskSizes sizes = tasks.sizes;
  for (std::uint32_t t = 0; t < tasks.calls.size(); ++t)
    if (const auto* loop = dynamic_cast<const LoopCall*>(tasks.calls[t].get())) {
      const LoopCall::Body& body = loop->body();
      const std::vector<std::uint64_t> inner =
          bounds_of(body.exe->lowered->program, body.sizes, body.exe->planned->schedule);
      sizes.workspace[t] -= loop->planned_for().planned->plan.host().bytes;
      sizes.workspace[t] += inner[0];  // with what is copied from and to
      sizes.elsewhere[t].clear();
      for (DeviceId d = 1; d < inner.size(); ++d)
        sizes.elsewhere[t].emplace_back(own_space(d), inner[d]);
    }
  return bounds_of(program, sizes, plain);
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
    put(s.rules.size());
    for (const SpaceRules& rules : s.rules) put(rules.slab), put(rules.alignment);
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
  floor = {};
  for (const std::uint64_t bound : bounds_with_loops(program, tasks, plain.schedule))
    floor.in.push_back({bound, bound});
  floor.plain_seconds = plain.plain_seconds;
  if (limits.hold(plain.plan)) return plain;
  std::vector<std::pair<std::uint32_t, LoopCall*>> calls;
  for (std::uint32_t t = 0; search.recompute && t < tasks.calls.size(); ++t)
    if (auto* loop = dynamic_cast<LoopCall*>(tasks.calls[t].get())) calls.emplace_back(t, loop);
  kept.bodies.resize(calls.size());
  std::list<LoopFitter> loops;
  for (std::size_t k = 0; k < calls.size(); ++k)
    loops.emplace_back(calls[k].first, program.tasks[calls[k].first].device, *calls[k].second,
                       kept.bodies[k]);
  std::optional<Planned> whole_bodies = outside.fit(limits);
  if (loops.empty()) {
    if (!whole_bodies && search.find_smallest) floor = outside.floor(limits);
    return whole_bodies;
  }
  Trial trial(program, tasks, plain, loops);
  std::optional<Planned> fitted = trial.fit_bodies(limits);
  if (!better(fitted, whole_bodies) && whole_bodies) return whole_bodies;
  if (!fitted)
    fitted = trial.fit_around_lowest(limits, floor, search.find_smallest, kept.around_lowest);
  if (!fitted || !limits.hold(fitted->plan)) return std::nullopt;
  return trial.commit(*std::move(fitted), plain.plain_seconds, tasks);
}

}  // namespace snug
