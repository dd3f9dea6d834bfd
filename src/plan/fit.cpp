#include "plan/fit.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace snug {
namespace {

/// Order of tasks with `again[v]` = values dropped after their last early use and computed again
/// right before their next use.
std::vector<std::uint32_t> with_recomputation(
    const Program& p, const std::vector<std::uint32_t>& plain,
    const std::unordered_map<std::uint32_t, std::uint32_t>& again_before) {
  // again_before: task to repeat -> position in `plain` of the task it is repeated before
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> at;
  for (auto [task, position] : again_before) at[position].push_back(task);
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < plain.size(); ++i) {
    if (auto it = at.find(i); it != at.end()) {
      std::sort(it->second.begin(), it->second.end());  // program order: producers first
      for (std::uint32_t t : it->second) order.push_back(t);
    }
    order.push_back(plain[i]);
  }
  // A repeated task may read a shared variable whose update stood earlier: the update waits.
  for (const Update& u : p.graph.updates()) {
    Value old = p.graph.inputs()[u.input].value;
    std::size_t writer = order.size(), reader = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Task& t = p.tasks[order[i]];
      if (std::find(t.writes.begin(), t.writes.end(), u.value) != t.writes.end()) writer = i;
      if (std::find(t.reads.begin(), t.reads.end(), old) != t.reads.end()) reader = i;
    }
    if (writer < reader)
      std::rotate(order.begin() + static_cast<std::ptrdiff_t>(writer),
                  order.begin() + static_cast<std::ptrdiff_t>(writer) + 1,
                  order.begin() + static_cast<std::ptrdiff_t>(reader) + 1);
  }
  return order;
}

using Producers = std::unordered_map<Value, std::uint32_t, ValueHash>;  // value -> task

/// A task to run again for step `use`, and the position in the plain order that it is repeated
/// before.
struct Choice {
  std::uint64_t bytes;
  std::uint32_t task, use, before;
};

/// The first step behind the peak that reads buffer b; none if the peak itself does.
std::optional<std::uint32_t> next_use(const Fitted& f, std::uint32_t b) {
  std::optional<std::uint32_t> use;
  for (std::uint32_t s = f.plan.peak_step; s < f.schedule.steps.size() && !use; ++s) {
    const auto& reads = f.schedule.steps[s].reads;
    if (std::find(reads.begin(), reads.end(), b) != reads.end()) use = s;
  }
  return use == f.plan.peak_step ? std::nullopt : use;
}

/// Buffers that are idle over the peak and may be made again, the largest first.
template <class F>
std::vector<Choice> choices(const Program& p, const Fitted& f, const Producers& producer,
                            F&& excluded) {
  std::vector<std::uint32_t> position;  // step -> position in the plain order
  std::uint32_t next = 0;
  for (const Step& s : f.schedule.steps) {
    position.push_back(next);
    if (!s.commit_copy && !s.again) ++next;
  }
  std::uint32_t peak = f.plan.peak_step;
  std::vector<Choice> found;
  for (std::uint32_t b = 0; b < f.schedule.buffers.size(); ++b) {
    const Buffer& buf = f.schedule.buffers[b];
    if (buf.where != Where::Arena || buf.workspace || buf.first >= peak || buf.last <= peak)
      continue;
    auto it = producer.find(buf.value);
    if (it == producer.end() || excluded(it->second)) continue;
    const Task& t = p.tasks[it->second];
    if (t.may_fail || t.kind == Task::Kind::Loop) continue;
    std::optional<std::uint32_t> use = next_use(f, b);
    if (!use || f.schedule.steps[*use].commit_copy) continue;
    found.push_back({buf.bytes, it->second, *use, position[*use]});
  }
  std::sort(found.begin(), found.end(), [](const Choice& a, const Choice& b) {
    return std::pair(b.bytes, a.task) < std::pair(a.bytes, b.task);
  });
  return found;
}

/// The tasks to repeat for a choice: its own, and those that make what it reads and nobody keeps
/// until then. Empty if one of them cannot run again, or if it would be a long way back.
template <class F>
std::vector<std::uint32_t> tasks_again(const Program& p, const Fitted& f, const Producers& producer,
                                       const Choice& choice, F&& excluded) {
  constexpr std::size_t kMaxTasks = 8;
  std::unordered_set<Value, ValueHash> alive;
  for (const Buffer& b : f.schedule.buffers)
    if (!b.workspace && b.first < choice.use && b.last >= choice.use) alive.insert(b.value);
  std::vector<std::uint32_t> tasks{choice.task};
  for (std::size_t k = 0; k < tasks.size(); ++k)
    for (Value v : p.tasks[tasks[k]].reads) {
      auto it = producer.find(v);
      if (it == producer.end() || alive.count(v) ||
          std::find(tasks.begin(), tasks.end(), it->second) != tasks.end())
        continue;
      const Task& t = p.tasks[it->second];
      if (t.may_fail || t.kind == Task::Kind::Loop || excluded(it->second) ||
          tasks.size() == kMaxTasks)
        return {};
      tasks.push_back(it->second);
    }
  return tasks;
}

}  // namespace

std::optional<Fitted> fit(const Program& p, const TaskSizes& sizes, std::uint64_t budget,
                          std::uint64_t& smallest) {
  Fitted best;
  best.schedule = order(p, sizes);
  best.plan = pack(best.schedule, PackEffort::Thorough);
  smallest = best.plan.bytes;
  if (budget == 0 || best.plan.bytes <= budget) return best;

  std::vector<std::uint32_t> plain;
  for (const Step& s : best.schedule.steps)
    if (!s.commit_copy) plain.push_back(s.task);
  Producers producer;
  for (std::uint32_t t = 0; t < p.tasks.size(); ++t)
    for (Value v : p.tasks[t].writes) producer[v] = t;

  // Repeatedly: at the step of the peak, the buffer that saves most and is idle over it is made
  // again before its next use.
  std::unordered_map<std::uint32_t, std::uint32_t> again;
  std::unordered_set<std::uint32_t> tried;
  auto repeated = [&](std::uint32_t task) { return again.count(task) != 0; };
  auto excluded = [&](std::uint32_t task) { return tried.count(task) || repeated(task); };
  for (std::size_t round = 0; round < p.tasks.size(); ++round) {
    bool improved = false;
    for (const Choice& c : choices(p, best, producer, excluded)) {
      auto trial_again = again;
      std::vector<std::uint32_t> tasks = tasks_again(p, best, producer, c, repeated);
      for (std::uint32_t t : tasks) trial_again[t] = c.before;
      Fitted trial;
      trial.schedule = order_as(p, sizes, with_recomputation(p, plain, trial_again));
      bool legal = !tasks.empty() && find_fault(p, trial.schedule).empty();
      if (legal) trial.plan = pack(trial.schedule);
      if (!legal || trial.plan.bytes >= best.plan.bytes) {
        tried.insert(c.task);
        continue;
      }
      again = std::move(trial_again);
      best = std::move(trial);
      improved = true;
      break;
    }
    smallest = std::min(smallest, best.plan.bytes);
    if (best.plan.bytes <= budget) {
      for (auto [task, before] : again) best.recomputed.push_back(p.tasks[task].name);
      std::sort(best.recomputed.begin(), best.recomputed.end());
      return best;
    }
    if (!improved) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace snug
