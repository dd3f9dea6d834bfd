#include "schedule/exact_order.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>

#include "base/interrupt.h"

namespace snug {
namespace {

using Set = std::uint64_t;  // of tasks

/// What runs and lives after a set of tasks is done: depends on the set alone, not on its order.
class Sets {
 public:
  explicit Sets(const OrderProblem& p) : p_(p), readers_(p.values.size()), before_(p.tasks.size()) {
    for (std::size_t t = 0; t < p.tasks.size(); ++t) {
      for (std::uint32_t v : p.tasks[t].reads) readers_[v] |= bit(t);
      for (std::uint32_t b : p.tasks[t].before) before_[t] |= bit(b);
    }
  }

  static Set bit(std::size_t task) { return Set{1} << task; }
  bool ready(Set done, std::size_t t) const {
    return !(done & bit(t)) && (before_[t] & ~done) == 0;
  }

  std::uint64_t given_bytes() const {
    std::uint64_t bytes = 0;
    for (std::size_t v = 0; v < p_.values.size(); ++v)
      if (p_.values[v].given) bytes += p_.values[v].bytes;
    return bytes;
  }

  struct Step {
    std::uint64_t during, after;  // live bytes
  };
  /// Task t runs when `live` bytes are alive.
  Step run(Set done, std::uint64_t live, std::size_t t) const {
    const OrderProblem::Task& task = p_.tasks[t];
    const Set next = done | bit(t);
    std::uint64_t made = 0, useless = 0, freed = 0, taken = 0;
    for (std::uint32_t v : task.writes) {
      made += p_.values[v].bytes;
      if (!readers_[v] && !p_.values[v].kept) useless += p_.values[v].bytes;
    }
    for (std::uint32_t v : task.reads)
      if (dies(v, next)) freed += p_.values[v].bytes;
    Set to = 0, from = 0;  // operands that took part
    for (auto [w, r] : task.in_place) {
      const std::uint64_t bytes = p_.values[task.writes[w]].bytes;
      if ((to >> w & 1) || (from >> r & 1) || !dies(task.reads[r], next) ||
          bytes > p_.values[task.reads[r]].bytes)
        continue;
      to |= bit(w);
      from |= bit(r);
      taken += bytes;
    }
    return {live + made - taken + task.workspace, live + made - useless - freed};
  }

 private:
  bool dies(std::uint32_t v, Set done) const {
    return !p_.values[v].kept && (readers_[v] & ~done) == 0;
  }

  const OrderProblem& p_;
  std::vector<Set> readers_, before_;
};

}  // namespace

std::optional<ExactOrder> exact_order(const OrderProblem& p, std::size_t max_sets) {
  const std::size_t n = p.tasks.size();
  if (n > kMaxExactTasks) return std::nullopt;
  for (const auto& t : p.tasks)
    if (t.reads.size() > 64 || t.writes.size() > 64) return std::nullopt;
  const Sets sets(p);
  const Set all = n == 64 ? ~Set{0} : Sets::bit(n) - 1;
  struct Reached {
    std::uint64_t peak, live;
    Set from;
    bool done = false;
  };
  std::unordered_map<Set, Reached> reached;
  using Entry = std::pair<std::uint64_t, std::pair<int, Set>>;  // peak, tasks to go, set
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  auto reach = [&](Set set, const Reached& r) {
    auto [it, is_new] = reached.try_emplace(set, r);
    if (!is_new && it->second.peak <= r.peak) return;
    it->second = r;
    queue.push({r.peak, {static_cast<int>(n) - std::popcount(set), set}});
  };
  const std::uint64_t given = sets.given_bytes();
  reach(0, {given, given, 0});
  while (!queue.empty()) {
    check_interrupt();
    const Set done = queue.top().second.second;
    queue.pop();
    Reached& now = reached.at(done);
    if (now.done) continue;
    now.done = true;
    const Reached at = now;
    if (done == all) {
      ExactOrder found{{}, at.peak};
      for (Set set = all; set;) {
        const Set from = reached.at(set).from;
        found.tasks.push_back(static_cast<std::uint32_t>(std::countr_zero(set & ~from)));
        set = from;
      }
      std::reverse(found.tasks.begin(), found.tasks.end());
      return found;
    }
    if (reached.size() > max_sets) return std::nullopt;
    // A task that needs no higher peak and leaves no more alive may as well run at once: what it
    // frees it frees whatever comes later, and more is never alive for it.
    std::optional<std::size_t> free_task;
    for (std::size_t t = 0; t < n && !free_task; ++t)
      if (sets.ready(done, t)) {
        const Sets::Step step = sets.run(done, at.live, t);
        if (step.during <= at.peak && step.after <= at.live) free_task = t;
      }
    for (std::size_t t = free_task.value_or(0); t < (free_task ? *free_task + 1 : n); ++t)
      if (sets.ready(done, t)) {
        const Sets::Step step = sets.run(done, at.live, t);
        reach(done | Sets::bit(t), {std::max(at.peak, step.during), step.after, done});
      }
  }
  return std::nullopt;  // the tasks wait for each other
}

std::uint64_t peak_of_order(const OrderProblem& p, const std::vector<std::uint32_t>& tasks) {
  const Sets sets(p);
  Set done = 0;
  std::uint64_t live = sets.given_bytes(), peak = live;
  for (std::uint32_t t : tasks) {
    const Sets::Step step = sets.run(done, live, t);
    peak = std::max(peak, step.during);
    live = step.after;
    done |= Sets::bit(t);
  }
  return peak;
}

}  // namespace snug
