#include "schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "kernel/device.h"
#include "schedule/exact_order.h"
#include "schedule/queue_clocks.h"

namespace snug {

std::uint64_t bytes_of(const Program& p, std::span<const std::int64_t> sizes, Value v) {
  const Type& t = p.type(v);
  std::int64_t bytes = size_of(t.dtype);
  for (SizeId d : t.dims)
    if (sizes[d] < 0 || __builtin_mul_overflow(bytes, sizes[d], &bytes)) {
      Dims shape;
      for (SizeId e : t.dims) shape.push_back(sizes[e]);
      throw ShapeError(fmt::format("an array of shape {} is impossible", describe_shape(shape)), {},
                       v.node < p.graph.nodes().size() ? p.graph.node(v).origin : 0);
    }
  return static_cast<std::uint64_t>(bytes);
}

namespace {

/// How the new value of a shared variable reaches its storage.
enum class Commit : std::uint8_t { Direct, Copy, Fresh };

class Orderer {
 public:
  Orderer(const Program& p, const TaskSizes& s) : p_(p), s_(s) {
    std::size_t n = p.tasks.size();
    before_.resize(n);
    after_.resize(n);
    for (std::uint32_t t = 0; t < n; ++t)
      for (Value v : p.tasks[t].writes) producer_[v] = t;
    for (std::uint32_t t = 0; t < n; ++t) {
      for (Value v : p.tasks[t].reads) {
        readers_[v].push_back(t);
        if (auto it = producer_.find(v); it != producer_.end()) edge(it->second, t);
      }
      add_runtime_edges(t);
    }
    decide_updates();
    find_spaces();
  }

  /// All is planned in one memory.
  bool on_one_device() const { return staging_.empty() && !others_; }

  std::vector<std::uint32_t> program_order() const { return topological({}); }

  /// Takes the ready task that frees most.
  std::vector<std::uint32_t> greedy_order() const {
    std::unordered_map<Value, int, ValueHash> pending;  // reads still to come
    for (const Task& t : p_.tasks)
      for (Value v : t.reads) ++pending[v];
    return topological([&](std::uint32_t t, bool take) -> std::int64_t {
      std::int64_t delta = 0;
      for (Value v : p_.tasks[t].writes)
        if (in_arena(v)) delta += static_cast<std::int64_t>(bytes_of(p_, s_.sizes, v));
      for (Value v : p_.tasks[t].reads) {
        if (take)
          --pending[v];
        else if (pending[v] == 1 && in_arena(v))
          delta -= static_cast<std::int64_t>(bytes_of(p_, s_.sizes, v));
      }
      return delta;
    });
  }

  /// Moves every task that frees twice what it makes to where its operands are ready, as one that
  /// takes the part of a gradient that is needed much later.
  std::vector<std::uint32_t> eager_order(std::vector<std::uint32_t> tasks) const {
    constexpr int kMaxMoves = 4096;  // each is linear in the distance
    std::vector<std::size_t> place(tasks.size());
    for (std::size_t at = 0; at < tasks.size(); ++at) place[tasks[at]] = at;
    std::unordered_set<Value, ValueHash> copied;
    for (std::size_t i = 0; i < commits_.size(); ++i)
      if (commits_[i] == Commit::Copy) copied.insert(p_.graph.updates()[i].value);
    int moves = 0;
    for (std::size_t at = 0; at < tasks.size() && moves < kMaxMoves; ++at) {
      const Task& t = p_.tasks[tasks[at]];
      std::size_t to = 0;
      for (std::uint32_t b : before_[tasks[at]]) to = std::max(to, place[b] + 1);
      if (to >= at) continue;
      std::uint64_t made = 0, freed = 0;
      double more = 0;  // bytes times steps
      for (Value v : t.writes)
        if (in_arena(v)) made += bytes_of(p_, s_.sizes, v);
      if (made == 0) continue;
      more = static_cast<double>(made) * static_cast<double>(at - to);
      for (std::size_t k = 0; k < t.reads.size(); ++k) {
        Value v = t.reads[k];
        bool seen = std::find(t.reads.begin(), t.reads.begin() + static_cast<std::ptrdiff_t>(k),
                              v) != t.reads.begin() + static_cast<std::ptrdiff_t>(k);
        if (!in_arena(v) || seen || copied.count(v)) continue;
        std::size_t last = to;
        for (std::uint32_t r : readers_.at(v))
          if (r != tasks[at]) last = std::max(last, place[r]);
        if (last >= at) continue;
        freed += bytes_of(p_, s_.sizes, v);
        more -= static_cast<double>(bytes_of(p_, s_.sizes, v)) * static_cast<double>(at - last);
      }
      if (more >= 0 || freed < 2 * made) continue;
      auto begin = tasks.begin() + static_cast<std::ptrdiff_t>(to);
      auto end = tasks.begin() + static_cast<std::ptrdiff_t>(at);
      std::rotate(begin, end, end + 1);
      for (std::size_t k = to; k <= at; ++k) place[tasks[k]] = k;
      ++moves;
    }
    return tasks;
  }

  /// For small programs the best of all orders; empty where that is too much work.
  std::vector<std::uint32_t> best_order() const {
    constexpr std::size_t kMaxSets = 20'000;
    if (p_.tasks.size() > kMaxExactTasks || !on_one_device()) return {};
    std::optional<ExactOrder> found = exact_order(order_problem(), kMaxSets);
    return found ? std::move(found->tasks) : std::vector<std::uint32_t>{};
  }

  Schedule build(const std::vector<std::uint32_t>& runs,
                 std::span<const Value> offloaded = {}) const {
    Draft d;
    d.schedule.rules = s_.rules;
    add_leaves(d);
    std::vector<bool> ran(p_.tasks.size(), false);
    for (std::uint32_t t : runs) {
      if (t >= p_.tasks.size()) {
        add_load(d, offloaded[t - p_.tasks.size()]);
        continue;
      }
      add_step(d, t, ran[t]);
      ran[t] = true;
    }
    Schedule& out = d.schedule;
    out.commit = d.commit.value_or(static_cast<std::uint32_t>(out.steps.size()));
    add_commit_copies(d);
    // Values that leave the call live to its end.
    std::uint32_t last = out.steps.empty() ? 0 : static_cast<std::uint32_t>(out.steps.size() - 1);
    for (Buffer& b : out.buffers)
      if (b.where != Where::Arena) b.last = last;
    if (!on_one_device()) keep_while_copied(out);
    reuse_in_place(out);
    end_transfers(out);
    return std::move(out);
  }

 private:
  /// A schedule up to the step that comes next.
  struct Draft {
    Schedule schedule;
    std::unordered_map<Value, std::uint32_t, ValueHash> current;  // buffer that holds a value now
    std::optional<std::uint32_t> commit;                          // first step that writes shared
    std::unordered_map<Value, std::uint64_t, ValueHash> in_file;  // offset
  };

  /// A buffer for `v` that the next step makes.
  std::uint32_t add_buffer(Draft& d, Value v, Where where = Where::Arena,
                           std::uint32_t index = 0) const {
    Buffer b;
    b.value = v;
    b.where = where;
    b.space = space_of(v);
    b.index = index;
    b.bytes = bytes_of(p_, s_.sizes, v);
    b.first = b.last = static_cast<std::uint32_t>(d.schedule.steps.size());
    d.schedule.buffers.push_back(b);
    return static_cast<std::uint32_t>(d.schedule.buffers.size() - 1);
  }

  void add_leaves(Draft& d) const {
    for (std::uint32_t i = 0; i < p_.graph.inputs().size(); ++i) {
      const GraphInput& in = p_.graph.inputs()[i];
      bool copied = i < s_.kind.copied.size() && s_.kind.copied[i];
      Where where = in.shared || in.state ? Where::Shared : copied ? Where::Arena : Where::Argument;
      d.current[in.value] = add_buffer(d, in.value, where, i);
    }
    for (auto id = static_cast<std::uint32_t>(p_.graph.inputs().size());
         id < p_.graph.nodes().size(); ++id)
      if (has(*p_.graph.node(id).op, kLeaf))
        d.current[{id, 0}] = add_buffer(d, {id, 0}, Where::Constant, id);
  }

  void add_step(Draft& d, std::uint32_t task, bool again) const {
    const Task& t = p_.tasks[task];
    auto at = static_cast<std::uint32_t>(d.schedule.steps.size());
    Step step;
    step.task = task;
    step.again = again;
    step.queue = queue_of_task(t);
    for (Value v : t.reads) {
      std::uint32_t b = d.current.at(v);
      d.schedule.buffers[b].last = at;
      step.reads.push_back(b);
    }
    for (Value v : t.writes) {
      std::uint32_t b = add_buffer(d, v);
      if (auto to = destination_.find(v); to != destination_.end() && !again) {
        d.schedule.buffers[b].where = to->second.first;
        d.schedule.buffers[b].index = to->second.second;
        if (to->second.first == Where::Shared && !d.commit) d.commit = at;
      }
      // What is outside the arena stays there, whatever a task leaves behind that runs again for
      // another of its results.
      if (!again || d.schedule.buffers[d.current.at(v)].where == Where::Arena) d.current[v] = b;
      step.writes.push_back(b);
    }
    const auto add_workspace = [&](Space space, std::uint64_t bytes) {
      Buffer w;
      w.bytes = bytes;
      w.first = w.last = at;
      w.space = space;
      w.workspace = true;
      d.schedule.buffers.push_back(w);
      return static_cast<std::uint32_t>(d.schedule.buffers.size() - 1);
    };
    const bool loop = t.kind == Task::Kind::Loop;
    if (const std::uint64_t bytes = s_.workspace[task])
      step.workspace =
          static_cast<std::int32_t>(add_workspace(loop ? kHostSpace : own_space(t.device), bytes));
    if (task < s_.elsewhere.size())
      for (const auto& [space, bytes] : s_.elsewhere[task])
        step.elsewhere.push_back(add_workspace(space, bytes));
    d.schedule.steps.push_back(std::move(step));
  }

  /// Reads `v` back; the first time, it is also written: from the first buffer it had.
  void add_load(Draft& d, Value v) const {
    constexpr std::uint64_t kFileAlign = 4096;
    Schedule& s = d.schedule;
    auto [file, is_new] = d.in_file.try_emplace(v, s.file_bytes);
    if (is_new) {
      const auto made = std::find_if(s.buffers.begin(), s.buffers.end(),
                                     [&](const Buffer& b) { return !b.workspace && b.value == v; });
      SNUG_CHECK(made != s.buffers.end(), "%{} is read back before it is made", v.node);
      s.file_bytes += (made->bytes + kFileAlign - 1) / kFileAlign * kFileAlign;
      s.transfers.push_back({static_cast<std::uint32_t>(made - s.buffers.begin()), true,
                             file->second, made->first + 1, 0});
    }
    const std::uint32_t b = add_buffer(d, v);
    d.current[v] = b;
    s.transfers.push_back({b, false, file->second, s.buffers[b].first, 0});
  }

  /// A value is in the file before its buffer is given up, and back before its first read.
  static void end_transfers(Schedule& s) {
    if (s.transfers.empty()) return;
    std::vector<std::uint32_t> first_read(s.buffers.size(), UINT32_MAX);
    std::vector<bool> taken(s.buffers.size(), false);
    for (auto at = static_cast<std::uint32_t>(s.steps.size()); at-- > 0;)
      for (std::uint32_t b : s.steps[at].reads) first_read[b] = at;
    for (const Buffer& b : s.buffers)
      if (b.in_place_of >= 0) taken[static_cast<std::size_t>(b.in_place_of)] = true;
    std::erase_if(s.transfers, [&](const Transfer& t) {  // made again before anything reads it
      if (t.store || first_read[t.buffer] != UINT32_MAX) return false;
      s.buffers[t.buffer].bytes = 0;
      return true;
    });
    for (Transfer& t : s.transfers)
      t.end = t.store ? s.buffers[t.buffer].last + (taken[t.buffer] ? 0 : 1) : first_read[t.buffer];
    sort_transfers(s);
  }

  void add_commit_copies(Draft& d) const {
    for (std::size_t i = 0; i < commits_.size(); ++i) {
      if (commits_[i] != Commit::Copy) continue;
      const Update& u = p_.graph.updates()[i];
      std::uint32_t from = d.current.at(u.value);
      d.schedule.buffers[from].last = static_cast<std::uint32_t>(d.schedule.steps.size());
      Step step;
      step.commit_copy = true;
      step.reads = {from};
      step.writes = {add_buffer(d, u.value, Where::Shared, u.input)};
      if (const DeviceId home = p_.graph.node(u.value).device)
        step.queue = queue_of(home, CommandQueues::Compute);
      d.schedule.steps.push_back(std::move(step));
    }
  }

  /// Host values that devices copy are in their staging memory, in that of the first one.
  void find_spaces() {
    for (const Task& t : p_.tasks) {
      others_ |= t.device != 0;
      if (t.kind != Task::Kind::Copy) continue;
      const Value on_host = p_.graph.node(t.index).device == 0 ? t.writes[0] : t.reads[0];
      auto [at, fresh] = staging_.try_emplace(on_host, t.device);
      if (!fresh) at->second = std::min(at->second, t.device);
    }
  }

  DeviceId home_of(Value v) const {
    const auto made = producer_.find(v);
    if (made == producer_.end()) return p_.graph.node(v).device;  // a leaf
    const Task& t = p_.tasks[made->second];
    return t.kind == Task::Kind::Copy ? p_.graph.node(t.index).device : t.device;
  }
  Space space_of(Value v) const {
    const auto staged = staging_.find(v);
    return staged == staging_.end() ? own_space(home_of(v)) : staging_space(staged->second);
  }

  QueueId queue_of_task(const Task& t) const {
    // The thread goes through a loop, and waits for its end.
    if (t.device == 0 || t.kind == Task::Kind::Loop) return kHostQueue;
    if (t.kind != Task::Kind::Copy) return queue_of(t.device, CommandQueues::Compute);
    return queue_of(t.device, p_.graph.node(t.index).device == 0 ? CommandQueues::Download
                                                                 : CommandQueues::Upload);
  }

  /// What a device copies from the host is there until the host has waited for something behind
  /// that copy, or to the end.
  static void keep_while_copied(Schedule& s) {
    QueueClocks clocks;
    std::vector<std::uint32_t> made(s.buffers.size(), UINT32_MAX);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> copied;  // buffer, step that reads it
    for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
      const Step& step = s.steps[at];
      clocks.begin(step.queue);
      for (std::uint32_t b : step.reads)
        if (made[b] != UINT32_MAX && !clocks.knows(made[b])) clocks.wait(made[b]);
      std::erase_if(copied, [&](const auto& c) {
        if (!clocks.host_knows(c.second)) return false;
        s.buffers[c.first].last = std::max(s.buffers[c.first].last, at);
        return true;
      });
      clocks.end(at);
      for (std::uint32_t b : step.writes) made[b] = at;
      if (step.queue == kHostQueue) continue;
      for (std::uint32_t b : step.reads)
        if (on_host(s.buffers[b].space)) copied.emplace_back(b, at);
    }
    for (const auto& [b, at] : copied)
      s.buffers[b].last = static_cast<std::uint32_t>(s.steps.size() - 1);
  }

  void edge(std::uint32_t from, std::uint32_t to) {
    if (from == to) return;
    before_[to].push_back(from);
    after_[from].push_back(to);
  }

  /// A task whose sizes depend on a computed value comes after the task that computes it.
  void add_runtime_edges(std::uint32_t t) {
    if (p_.graph.runtime_sources().empty()) return;
    std::vector<SizeId> ids;
    auto add_type = [&](Value v) {
      for (SizeId d : p_.type(v).dims) ids.push_back(d);
    };
    for (Value v : p_.tasks[t].reads) add_type(v);
    for (Value v : p_.tasks[t].writes) add_type(v);
    if (p_.tasks[t].kind == Task::Kind::Kernel)
      for (SizeId i : p_.kernels[p_.tasks[t].index].ints) ids.push_back(i);
    if (p_.tasks[t].kind == Task::Kind::Sizes)
      for (Value v : p_.tasks[t].writes)
        for (SizeId e : p_.graph.elements(v)) ids.push_back(e);
    const SizeTable& table = p_.graph.sizes();
    table.walk(std::move(ids), [&](SizeId id) {
      if (table.node(id).op == SizeOp::Symbol && table.is_runtime(id))
        for (const auto& s : p_.graph.runtime_sources())
          if (s.symbol == id)
            if (auto it = producer_.find(s.value); it != producer_.end()) edge(it->second, t);
      return table.is_runtime(id);
    });
  }

  OrderProblem order_problem() const {
    OrderProblem out;
    std::unordered_map<Value, std::uint32_t, ValueHash> number;
    auto add = [&](Value v, bool given) {
      number[v] = static_cast<std::uint32_t>(out.values.size());
      out.values.push_back({bytes_of(p_, s_.sizes, v), given});
    };
    for (std::uint32_t i = 0; i < p_.graph.inputs().size(); ++i)
      if (i < s_.kind.copied.size() && s_.kind.copied[i]) add(p_.graph.inputs()[i].value, true);
    for (const Task& t : p_.tasks)
      for (Value v : t.writes)
        if (in_arena(v)) add(v, false);
    for (std::size_t i = 0; i < commits_.size(); ++i)
      if (commits_[i] == Commit::Copy)
        if (auto it = number.find(p_.graph.updates()[i].value); it != number.end())
          out.values[it->second].kept = true;
    for (std::uint32_t k = 0; k < p_.tasks.size(); ++k) {
      const Task& t = p_.tasks[k];
      OrderProblem::Task task;
      std::vector<std::int64_t> read(t.reads.size(), -1), write(t.writes.size(), -1);
      for (std::size_t r = 0; r < t.reads.size(); ++r) {
        auto it = number.find(t.reads[r]);
        if (it == number.end()) continue;
        auto known = std::find(task.reads.begin(), task.reads.end(), it->second);
        read[r] = known - task.reads.begin();
        if (known == task.reads.end()) task.reads.push_back(it->second);
      }
      for (std::size_t w = 0; w < t.writes.size(); ++w)
        if (auto it = number.find(t.writes[w]); it != number.end()) {
          write[w] = static_cast<std::int64_t>(task.writes.size());
          task.writes.push_back(it->second);
        }
      for (auto [w, r] : t.in_place)
        if (write[w] >= 0 && read[r] >= 0 && read_once(t, r))
          task.in_place.emplace_back(write[w], read[r]);
      task.workspace = s_.workspace[k];
      task.before = before_[k];
      out.tasks.push_back(std::move(task));
    }
    return out;
  }

  bool in_arena(Value v) const { return producer_.count(v) && !destination_.count(v); }

  bool reaches(std::uint32_t from, std::uint32_t to) const {
    std::vector<std::uint32_t> stack{from};
    std::unordered_set<std::uint32_t> seen{from};
    while (!stack.empty()) {
      std::uint32_t t = stack.back();
      stack.pop_back();
      if (t == to) return true;
      for (std::uint32_t next : after_[t])
        if (seen.insert(next).second) stack.push_back(next);
    }
    return false;
  }

  void decide_updates() {
    for (std::uint32_t i = 0; i < p_.graph.outputs().size(); ++i)
      destination_[p_.graph.outputs()[i]] = {Where::Output, i};
    // Tasks that something fallible waits for must not write shared storage.
    std::vector<bool> before_failure(p_.tasks.size(), false);
    std::vector<std::uint32_t> stack, fallible;
    for (std::uint32_t t = 0; t < p_.tasks.size(); ++t)
      if (p_.tasks[t].may_fail) {
        stack.push_back(t);
        fallible.push_back(t);
        before_failure[t] = true;
      }
    while (!stack.empty()) {
      std::uint32_t t = stack.back();
      stack.pop_back();
      for (std::uint32_t b : before_[t])
        if (!before_failure[b]) before_failure[b] = true, stack.push_back(b);
    }
    commits_.assign(p_.graph.updates().size(), Commit::Copy);
    std::vector<std::uint32_t> writers;
    for (std::size_t i = 0; i < p_.graph.updates().size(); ++i) {
      const Update& u = p_.graph.updates()[i];
      if (!s_.kind.same_shape[i]) {
        commits_[i] = Commit::Fresh;
        destination_[u.value] = {Where::Fresh, u.input};
        continue;
      }
      Value old = p_.graph.inputs()[u.input].value;
      std::uint32_t writer = producer_.at(u.value);
      if (before_failure[writer] || !in_place_ok(writer, u.value, old)) continue;
      bool cycle = false;
      for (std::uint32_t r : readers_[old]) cycle |= r != writer && reaches(writer, r);
      if (cycle) continue;
      for (std::uint32_t r : readers_[old]) edge(r, writer);
      commits_[i] = Commit::Direct;
      destination_[u.value] = {Where::Shared, u.input};
      writers.push_back(writer);
    }
    for (std::uint32_t f : fallible)
      for (std::uint32_t w : writers) edge(f, w);
  }

  /// Whether `writer` may write `value` over `old`, which it may read itself.
  bool in_place_ok(std::uint32_t writer, Value value, Value old) const {
    const Task& t = p_.tasks[writer];
    auto read = std::find(t.reads.begin(), t.reads.end(), old);
    if (read == t.reads.end()) return true;
    auto w = static_cast<std::uint32_t>(std::find(t.writes.begin(), t.writes.end(), value) -
                                        t.writes.begin());
    auto r = static_cast<std::uint32_t>(read - t.reads.begin());
    return read_once(t, r) &&
           std::find(t.in_place.begin(), t.in_place.end(), std::pair(w, r)) != t.in_place.end();
  }

  /// Whether no other operand is a view of the same storage, as in set_subtensor(x[1:], x[:-1]):
  /// it would be read after it is written.
  static bool read_once(const Task& t, std::uint32_t r) {
    return std::count(t.reads.begin(), t.reads.end(), t.reads[r]) == 1;
  }

  /// Kahn's algorithm; `cost(task, taken)` picks among ready tasks, program order breaks ties.
  std::vector<std::uint32_t> topological(
      const std::function<std::int64_t(std::uint32_t, bool)>& cost) const {
    std::size_t n = p_.tasks.size();
    std::vector<std::uint32_t> missing(n, 0), order;
    for (std::size_t t = 0; t < n; ++t) missing[t] = static_cast<std::uint32_t>(before_[t].size());
    std::set<std::uint32_t> ready;
    for (std::uint32_t t = 0; t < n; ++t)
      if (!missing[t]) ready.insert(t);
    while (!ready.empty()) {
      std::uint32_t best = *ready.begin();
      if (cost) {
        std::int64_t least = INT64_MAX;
        std::size_t looked = 0;
        for (std::uint32_t t : ready) {
          if (++looked > 64) break;  // keeps ordering linear; earlier tasks come first
          std::int64_t c = cost(t, false);
          if (c < least) least = c, best = t;
        }
        cost(best, true);
      }
      ready.erase(best);
      order.push_back(best);
      for (std::uint32_t next : after_[best])
        if (--missing[next] == 0) ready.insert(next);
    }
    SNUG_CHECK(order.size() == n, "order: the tasks wait for each other");
    return order;
  }

  /// A written arena buffer takes over a read one of the same step that dies there.
  void reuse_in_place(Schedule& s) const {
    std::vector<bool> taken(s.buffers.size(), false);
    for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
      const Step& step = s.steps[at];
      if (step.commit_copy) continue;
      const Task& t = p_.tasks[step.task];
      for (auto [w, r] : t.in_place) {
        Buffer& to = s.buffers[step.writes[w]];
        const Buffer& from = s.buffers[step.reads[r]];
        if (to.where != Where::Arena || from.where != Where::Arena || to.in_place_of >= 0) continue;
        if (from.last != at || taken[step.reads[r]] || to.bytes > from.bytes) continue;
        if (to.space != from.space) continue;
        if (!read_once(t, r)) continue;
        to.in_place_of = static_cast<std::int32_t>(step.reads[r]);
        taken[step.reads[r]] = true;
      }
    }
  }

  const Program& p_;
  const TaskSizes& s_;
  std::unordered_map<Value, std::uint32_t, ValueHash> producer_;
  std::unordered_map<Value, std::vector<std::uint32_t>, ValueHash> readers_;
  std::vector<std::vector<std::uint32_t>> before_, after_;
  std::unordered_map<Value, std::pair<Where, std::uint32_t>, ValueHash> destination_;
  std::vector<Commit> commits_;
  std::unordered_map<Value, DeviceId, ValueHash> staging_;
  bool others_ = false;  // some task is not the host's
};

std::uint64_t peak_in(const Schedule& s, Space space) {
  std::vector<std::int64_t> change(s.steps.size() + 2, 0);
  for (const Buffer& b : s.buffers) {
    if (b.where != Where::Arena || b.space != space) continue;
    std::uint32_t first = b.in_place_of >= 0 ? b.first + 1 : b.first;
    change[first] += static_cast<std::int64_t>(b.bytes);
    change[b.last + 1] -= static_cast<std::int64_t>(b.bytes);
  }
  std::int64_t live = 0, peak = 0;
  for (std::int64_t c : change) peak = std::max(peak, live += c);
  return static_cast<std::uint64_t>(peak);
}

/// Of all memories.
std::uint64_t peak_of(const Schedule& s) {
  std::uint64_t sum = 0;
  for (Space space = 0; space < spaces_of(s); ++space) sum += peak_in(s, space);
  return sum;
}

}  // namespace

std::vector<Schedule> orders(const Program& p, const TaskSizes& s) {
  Orderer o(p, s);
  std::vector<std::uint32_t> tasks = o.program_order(), greedy = o.greedy_order();
  Schedule best = o.build(tasks), other = o.build(greedy);
  if (peak_of(other) < peak_of(best)) {
    best = std::move(other);
    tasks = std::move(greedy);
  }
  std::vector<std::uint32_t> exact = o.best_order();
  const bool proved = !exact.empty();
  if (proved) {
    Schedule lowest = o.build(exact);
    if (peak_of(lowest) < peak_of(best)) {
      best = std::move(lowest);
      tasks = std::move(exact);
    }
  }
  std::vector<std::uint32_t> eager = o.eager_order(tasks);
  std::vector<Schedule> found;
  found.push_back(std::move(best));
  if (eager != tasks) {
    found.push_back(o.build(eager));
    if (peak_of(found[1]) < peak_of(found[0])) std::swap(found[0], found[1]);
  }
  found[0].best_order = proved;
  verify(p, found[0]);
  return found;
}

Schedule order(const Program& p, const TaskSizes& s) { return std::move(orders(p, s)[0]); }

Space spaces_of(const Schedule& s) {
  Space most = kHostSpace;
  for (const Buffer& b : s.buffers) most = std::max(most, b.space);
  return static_cast<Space>(most + 1);
}

Schedule order_as(const Program& p, const TaskSizes& s, const std::vector<std::uint32_t>& runs,
                  std::span<const Value> offloaded) {
  return Orderer(p, s).build(runs, offloaded);
}

void sort_transfers(Schedule& s) {
  std::stable_sort(
      s.transfers.begin(), s.transfers.end(), [](const Transfer& a, const Transfer& b) {
        return std::tuple(a.begin, !a.store, a.end) < std::tuple(b.begin, !b.store, b.end);
      });
}

std::string print(const Program& p, const Schedule& s) {
  std::string text;
  constexpr const char* kWhere[] = {"arena", "argument", "shared", "fresh", "output", "constant"};
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    const Step& step = s.steps[at];
    if (at == s.commit) text += "     -- commit point --\n";
    for (const Transfer& t : s.transfers)
      if (t.begin == at)
        text += fmt::format("     %{} {} the file, done before step {}  {} B\n",
                            s.buffers[t.buffer].value.node, t.store ? "to" : "from", t.end,
                            s.buffers[t.buffer].bytes);
    text += fmt::format("{:4} {:40}{}", at,
                        step.commit_copy ? "copy to shared" : p.tasks[step.task].name,
                        step.again ? " (again)" : "");
    for (std::uint32_t b : step.writes) {
      const Buffer& buf = s.buffers[b];
      text += fmt::format(
          "  %{} {} {} B{}", buf.value.node, kWhere[static_cast<int>(buf.where)], buf.bytes,
          buf.in_place_of >= 0
              ? fmt::format(" in place of %{}", s.buffers[buf.in_place_of].value.node)
              : "");
    }
    text += "\n";
  }
  return text;
}

}  // namespace snug
