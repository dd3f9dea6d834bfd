#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/recompute.h"

namespace snug {
namespace {

constexpr std::size_t kNever = SIZE_MAX;

/// One materialisation of a value: from the step that writes it to the last that reads it.
struct Instance {
  std::uint32_t value;
  std::size_t first, last;
  std::uint64_t bytes;  // of its storage: that of what it took over, if it did
  bool outside;         // the first one of a stored value
  bool took_over = false, taken = false;
};

std::vector<Instance> instances_of(const RecomputeProblem& p, const Runs& runs) {
  std::vector<Instance> all;
  for (std::uint32_t v = 0; v < p.values.size(); ++v)
    for (std::size_t at = 0; at <= runs.size(); ++at) {
      bool begins = at == 0 && p.values[v].given;
      if (at > 0) {
        const auto& w = p.tasks[runs[at - 1]].writes;
        begins = std::find(w.begin(), w.end(), v) != w.end();
      }
      if (!begins) continue;
      bool known = !all.empty() && all.back().value == v;
      Instance one{v, at == 0 ? 0 : at - 1, at == 0 ? 0 : at - 1, p.values[v].bytes,
                   p.values[v].stored && !known};
      if (p.values[v].stored && known) {  // made again by the way, and not read
        all.push_back(one);
        continue;
      }
      for (std::size_t s = at; s < runs.size(); ++s) {
        const auto& t = p.tasks[runs[s]];
        if (std::find(t.reads.begin(), t.reads.end(), v) != t.reads.end()) one.last = s;
        if (!p.values[v].stored && std::find(t.writes.begin(), t.writes.end(), v) != t.writes.end())
          break;  // another instance begins
        if (s + 1 == runs.size() && p.values[v].kept) one.last = runs.size();
      }
      all.push_back(one);
    }
  return all;
}

}  // namespace

std::string find_fault(const RecomputeProblem& p, const RecomputePlan& plan) {
  std::vector<std::size_t> first(p.tasks.size(), kNever), last(p.tasks.size(), kNever);
  std::vector<bool> there(p.values.size());
  for (std::size_t v = 0; v < there.size(); ++v) there[v] = p.values[v].given;
  double cost = 0;
  for (std::size_t at = 0; at < plan.runs.size(); ++at) {
    std::uint32_t t = plan.runs[at];
    for (std::uint32_t v : p.tasks[t].reads)
      if (!there[v]) return fmt::format("run {} of task {}: value {} is not there", at, t, v);
    for (std::uint32_t v : p.tasks[t].writes) there[v] = true;
    if (first[t] == kNever)
      first[t] = at;
    else if (!p.tasks[t].repeatable)
      return fmt::format("task {} runs again", t);
    last[t] = at;
    cost += p.tasks[t].cost;
  }
  for (std::uint32_t t = 0; t < p.tasks.size(); ++t) {
    if (first[t] == kNever) return fmt::format("task {} never runs", t);
    for (std::uint32_t before : p.tasks[t].after)
      if (before != t && last[before] > first[t])
        return fmt::format("task {} runs after {}, which writes over what it reads", before, t);
  }
  if (std::abs(cost - plan.cost) > 1e-9 * cost) return fmt::format("the cost is {}", cost);

  std::vector<Instance> all = instances_of(p, plan.runs);
  auto instance_at = [&](std::uint32_t value, std::size_t step, bool written) -> Instance* {
    for (Instance& i : all)
      if (i.value == value && (written ? i.first == step : i.first <= step && i.last >= step))
        return &i;
    return nullptr;
  };
  for (std::size_t at = 0; at < plan.runs.size(); ++at) {
    const auto& t = p.tasks[plan.runs[at]];
    for (auto [w, r] : t.in_place) {
      Instance *to = instance_at(t.writes[w], at, true), *from = instance_at(t.reads[r], at, false);
      if (!to || !from || to->outside || from->outside || to->took_over || from->taken ||
          from->last != at || p.values[t.writes[w]].bytes > p.values[t.reads[r]].bytes)
        continue;
      to->took_over = from->taken = true;
      to->bytes = from->bytes;
    }
  }
  std::uint64_t peak = 0;
  for (std::size_t at = 0; at < plan.runs.size(); ++at) {
    std::uint64_t live = p.tasks[plan.runs[at]].workspace;
    for (const Instance& i : all)
      if (!i.outside && at >= i.first + (i.took_over ? 1 : 0) && at <= i.last) live += i.bytes;
    peak = std::max(peak, live);
  }
  if (peak != plan.peak) return fmt::format("the peak is {}, not {}", peak, plan.peak);
  return {};
}

}  // namespace snug
