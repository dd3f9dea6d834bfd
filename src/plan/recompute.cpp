#include "plan/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "plan/recompute_eval.h"
#include "plan/recompute_seeds.h"

namespace snug {
namespace {

using Measure = RecomputeEvaluator::Measure;

/// The part of a problem that decides: without the smallest values, which together are next to
/// nothing and simply stay, and without the tasks that touch only such values.
struct Core {
  RecomputeProblem problem;
  std::vector<std::uint32_t> task_of;  // in the whole problem
};

Core core_of(const RecomputeProblem& p, std::uint64_t plain_peak) {
  constexpr double kSmallPart = 0.0002;
  std::vector<std::uint32_t> by_bytes(p.values.size());
  std::iota(by_bytes.begin(), by_bytes.end(), 0);
  std::stable_sort(by_bytes.begin(), by_bytes.end(),
                   [&](auto a, auto b) { return p.values[a].bytes < p.values[b].bytes; });
  std::vector<bool> small(p.values.size(), false);
  double sum = 0;
  for (std::uint32_t v : by_bytes) {
    sum += static_cast<double>(p.values[v].bytes);
    if (sum > kSmallPart * static_cast<double>(plain_peak)) break;
    small[v] = true;
  }
  Core core;
  core.problem.values = p.values;
  for (std::uint32_t t = 0; t < p.tasks.size(); ++t) {
    RecomputeProblem::Task task = p.tasks[t];
    auto is_small = [&](std::uint32_t v) { return small[v]; };
    const std::vector<std::uint32_t> reads = task.reads, writes = task.writes;
    std::erase_if(task.reads, is_small);
    std::erase_if(task.writes, is_small);
    if (task.reads.empty() && task.writes.empty() && task.after.empty() && task.workspace == 0)
      continue;
    // Places of the operands that are left.
    auto place = [&](const std::vector<std::uint32_t>& in, std::uint32_t v) {
      return static_cast<std::uint32_t>(std::find(in.begin(), in.end(), v) - in.begin());
    };
    task.in_place.clear();
    for (auto [w, r] : p.tasks[t].in_place)
      if (!small[writes[w]] && !small[reads[r]])
        task.in_place.emplace_back(place(task.writes, writes[w]), place(task.reads, reads[r]));
    core.task_of.push_back(t);
    core.problem.tasks.push_back(std::move(task));
  }
  std::vector<std::uint32_t> number(p.tasks.size(), UINT32_MAX);
  for (std::uint32_t k = 0; k < core.task_of.size(); ++k) number[core.task_of[k]] = k;
  for (auto& task : core.problem.tasks) {
    for (std::uint32_t& before : task.after) before = number[before];
    std::erase(task.after, UINT32_MAX);
  }
  return core;
}

/// The runs of the whole problem: what is not in the core runs where it stands.
Runs whole_runs(const RecomputeProblem& p, const Core& core, const Runs& runs) {
  Runs whole;
  std::vector<bool> ran(p.tasks.size(), false), inside(p.tasks.size(), false);
  for (std::uint32_t t : core.task_of) inside[t] = true;
  std::uint32_t next = 0;
  auto run_up_to = [&](std::uint32_t end) {
    for (; next < end; ++next)
      if (!inside[next]) whole.push_back(next);
  };
  for (std::uint32_t r : runs) {
    std::uint32_t t = core.task_of[r];
    if (!ran[t]) run_up_to(t);  // of one that waits: they have run
    ran[t] = true;
    whole.push_back(t);
  }
  run_up_to(static_cast<std::uint32_t>(p.tasks.size()));
  return whole;
}

class Search {
 public:
  Search(const RecomputeProblem& p, const RecomputeLimits& limits)
      : p_(p), limits_(limits), eval_(p), max_runs_(64 + 16 * p.tasks.size()) {}

  std::vector<RecomputePlan> run() {
    bound_ = peak_bound(p_);
    State plain{eval_.plain(), {}};
    plain.m = eval_.evaluate(plain.levels, 0, SIZE_MAX);
    record(plain.levels, plain.m);
    for (const auto& gap : eval_.gaps())
      prices_.insert(prices_.end(), 2,
                     eval_.droppable(gap.value)
                         ? p_.tasks[static_cast<std::size_t>(eval_.producer(gap.value))].cost
                         : 0);
    if (plain.m.peak > bound_) {
      const std::uint64_t limit = limits_.runs / 4;
      RecomputeSeeds(p_, eval_).each([&](const Levels& levels) {
        try_out(levels, 0);
        return eval_.work() < limit;
      });
      sweep(plain);
    }
    return finish();
  }

 private:
  struct State {
    Levels levels;
    Measure m;
  };

  // ---- the plans found so far ----

  /// Whether nothing found so far is as good.
  bool record(const Levels& levels, const Measure& m) {
    if (!m.legal) return false;
    auto it = found_.upper_bound(m.peak);
    if (it != found_.begin()) {
      auto below = std::prev(it);
      if (below->second.m.cost <= m.cost) return false;
    }
    while (it != found_.end() && it->second.m.cost >= m.cost) it = found_.erase(it);
    found_[m.peak] = {levels, m};
    // Entries at the same peak were replaced; those above with a higher cost are gone.
    return true;
  }

  std::vector<RecomputePlan> finish() {
    std::vector<RecomputePlan> plans;
    for (auto it = found_.rbegin(); it != found_.rend(); ++it) {
      Measure m = eval_.evaluate(it->second.levels, 0, SIZE_MAX);
      plans.push_back({eval_.runs(), m.peak, m.cost});
    }
    return plans;
  }

  bool exhausted() const { return eval_.work() > allowed_; }

  Measure try_out(const Levels& levels, std::uint64_t target) {
    Measure m = eval_.evaluate(levels, target, max_runs_);
    record(levels, m);
    return m;
  }

  // ---- improving plans step by step ----

  /// Down from the plain plan to the bound, then up again from the small plans found.
  void sweep(const State& plain) {
    const double high = static_cast<double>(plain.m.peak);
    const double low = static_cast<double>(bound_);
    const double n = limits_.targets;
    auto target_at = [&](double k) {  // closer where it is hard
      return static_cast<std::uint64_t>(low + (high - low) * std::pow(1 - k / n, 2.5));
    };
    for (std::uint32_t k = 1; k <= limits_.targets; ++k) {
      std::uint64_t target = k == limits_.targets ? bound_ : target_at(k);
      allow(limits_.runs / 2, k / (0.5 * (n - k + 1) * (n + k)));
      const std::uint64_t end = allowed_;
      auto above = found_.upper_bound(target);
      std::vector<State> starts;
      if (above != found_.end()) starts.push_back(above->second);
      if (above != found_.begin()) starts.push_back(std::prev(above)->second);
      for (std::size_t i = 0; i < starts.size(); ++i) {
        if (i + 1 < starts.size()) allowed_ = end - (end - eval_.work()) / 2;
        improve(starts[i], target);
        allowed_ = end;
      }
    }
    for (std::uint32_t k = limits_.targets; k >= 1; --k) {
      std::uint64_t target = target_at(k - 0.5);
      allow(limits_.runs, 2.0 / (k + 1));
      auto above = found_.upper_bound(target);
      if (above == found_.begin()) continue;
      State s = std::prev(above)->second;
      improve(s, target);
    }
  }

  /// The next steps may use this part of the work that is left up to `limit`.
  void allow(std::uint64_t limit, double part) {
    const double left = static_cast<double>(limit - std::min(limit, eval_.work()));
    allowed_ = eval_.work() + static_cast<std::uint64_t>(left * std::min(part, 1.0));
  }

  void improve(State& s, std::uint64_t target) {
    s.m = eval_.evaluate(s.levels, target, SIZE_MAX);
    if (!lower_to(s, target)) return;
    make_faster(s, target);
    exchange(s, target);
  }

  /// Drops what lies idle over the highest run until the target is reached: what saves most for its
  /// cost, as it was last time; that is tried out only where it may be the best.
  bool lower_to(State& s, std::uint64_t target, std::uint32_t held = UINT32_MAX) {
    struct Drop {
      double score;
      std::uint32_t gap;
      std::uint8_t level;
      bool tried;
      bool operator<(const Drop& o) const {
        return score != o.score ? score < o.score
                                : std::pair(gap, level) < std::pair(o.gap, o.level);
      }
    };
    std::vector<RecomputeEvaluator::Idle> idle;
    const double least = 1e-9 * s.m.cost;
    while (s.m.peak > target) {
      eval_.evaluate(s.levels, target, SIZE_MAX);
      eval_.idle_at(s.m.peak_run, target, idle);
      std::priority_queue<Drop> queue;
      for (auto [gap, made, over] : idle) {
        if (gap == held) continue;
        std::uint8_t next = static_cast<std::uint8_t>(std::min(made + 1, 40u));
        for (std::uint8_t level : {next, kDropped})
          if (level > s.levels[gap])
            queue.push({over / std::max(price(gap, level), least), gap, level, false});
      }
      bool accepted = false;
      while (!queue.empty() && !accepted) {
        if (exhausted()) return false;
        Drop drop = queue.top();
        queue.pop();
        State next{s.levels, {}};
        next.levels[drop.gap] = drop.level;
        next.m = try_out(next.levels, target);
        const double gain = next.m.legal ? s.m.over - next.m.over : 0;
        if (gain <= 0) continue;
        price(drop.gap, drop.level) = next.m.cost - s.m.cost;
        drop.score = gain / std::max(next.m.cost - s.m.cost, least);
        if (!drop.tried && !queue.empty() && drop.score < queue.top().score) {
          drop.tried = true;
          queue.push(drop);
          continue;
        }
        s = std::move(next);
        accepted = true;
      }
      // Where a lower plan is known this one need not get there.
      const bool lowest = held == UINT32_MAX && found_.begin()->first > target;
      if (!accepted && !(lowest && change_several(s, target))) return false;
    }
    return true;
  }

  /// Where no single drop helps: a chain of changes, each the best one at the run that is then the
  /// highest, also where it is worse than before. Values made again there may stay instead. Chains
  /// begin with one of the best few changes.
  bool change_several(State& s, std::uint64_t target) {
    constexpr std::size_t kStarts = 4, kDepth = 8;
    std::vector<Change> changes;
    rank_changes(s, target, {}, changes);
    for (std::size_t start = 0; start < std::min(kStarts, changes.size()); ++start) {
      State now = s;
      std::vector<std::uint32_t> changed;  // gaps
      Change next = changes[start];
      for (std::size_t depth = 0; depth < kDepth; ++depth) {
        now.levels[next.gap] = next.level;
        now.m = next.m;
        changed.push_back(next.gap);
        if (now.m.over < s.m.over) {
          s = std::move(now);
          return true;
        }
        std::vector<Change> more;
        rank_changes(now, target, changed, more);
        if (more.empty()) break;
        next = more[0];
      }
      if (exhausted()) break;
    }
    return false;
  }

  struct Change {
    std::uint32_t gap;
    std::uint8_t level;
    Measure m;
  };
  /// Changes at the highest run, but for some gaps; the best first.
  void rank_changes(State& now, std::uint64_t target, const std::vector<std::uint32_t>& but,
                    std::vector<Change>& changes) {
    std::vector<RecomputeEvaluator::Idle> idle;
    eval_.evaluate(now.levels, target, SIZE_MAX);
    eval_.idle_at(now.m.peak_run, target, idle);
    for (auto [gap, made, over] : idle)
      for (std::uint8_t level : {static_cast<std::uint8_t>(std::min(made + 1, 40u)), kDropped})
        if (level > now.levels[gap]) changes.push_back({gap, level, {}});
    eval_.made_at(now.m.peak_run, idle);
    for (auto [gap, made, over] : idle)
      for (std::uint8_t level : levels_below(now.levels[gap], made))
        changes.push_back({gap, level, {}});
    std::erase_if(changes, [&](const Change& c) {
      return std::find(but.begin(), but.end(), c.gap) != but.end();
    });
    for (Change& c : changes) {
      if (exhausted()) break;
      const std::uint8_t old = std::exchange(now.levels[c.gap], c.level);
      c.m = try_out(now.levels, target);
      now.levels[c.gap] = old;
    }
    std::erase_if(changes, [](const Change& c) { return !c.m.legal; });
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return std::pair(a.m.over, a.m.cost) < std::pair(b.m.over, b.m.cost);
    });
  }

  /// What it cost last time to give a gap such a level; at first, the cost of its task.
  double& price(std::uint32_t gap, std::uint8_t level) {
    return prices_[2 * gap + (level == kDropped)];
  }

  /// Levels at which a value stays longer, where it is made again `count` times.
  static std::vector<std::uint8_t> levels_below(std::uint8_t now, std::uint32_t count) {
    std::vector<std::uint8_t> levels;
    const std::uint32_t end = std::min<std::uint32_t>({now, count + 1, 40});
    for (std::uint32_t level = 0; level < end; ++level)
      if (level < 3 || level + 3 >= end) levels.push_back(static_cast<std::uint8_t>(level));
    return levels;
  }

  /// Keeps what can be kept below the target, the most expensive first.
  void make_faster(State& s, std::uint64_t target) {
    std::vector<RecomputeEvaluator::Remade> remade;
    for (bool better = true; better && !exhausted();) {
      better = false;
      eval_.evaluate(s.levels, target, SIZE_MAX);
      eval_.remade(remade);
      bool stale = false;
      for (auto [cost, gap, count] : remade) {
        if (exhausted()) break;
        std::uint8_t now = s.levels[gap];
        for (std::uint8_t level : levels_below(now, count)) {
          if (stale) eval_.evaluate(s.levels, target, SIZE_MAX);
          stale = false;
          if (!eval_.has_room(gap, level, target)) continue;
          stale = true;
          s.levels[gap] = level;
          Measure m = try_out(s.levels, target);
          if (m.legal && m.peak <= target && m.cost < s.m.cost) {
            s.m = m;
            better = true;
            break;
          }
          s.levels[gap] = now;
        }
      }
    }
  }

  /// Keeps one of the values that are most expensive to make again, and drops others for it.
  void exchange(State& s, std::uint64_t target) {
    std::vector<RecomputeEvaluator::Remade> remade;
    for (bool better = true; better;) {
      better = false;
      eval_.evaluate(s.levels, target, SIZE_MAX);
      eval_.remade(remade);
      for (auto [cost, gap, count] : remade) {
        for (std::uint8_t level : levels_below(s.levels[gap], count)) {
          if (exhausted()) return;
          State trial = s;
          trial.levels[gap] = level;
          trial.m = try_out(trial.levels, target);
          if (!trial.m.legal || !lower_to(trial, target, gap)) continue;
          if (trial.m.cost >= s.m.cost) continue;
          s = std::move(trial);
          make_faster(s, target);
          better = true;
          break;
        }
        if (better) break;
      }
    }
  }

  const RecomputeProblem& p_;
  RecomputeLimits limits_;
  RecomputeEvaluator eval_;
  std::size_t max_runs_;
  std::uint64_t bound_ = 0;
  std::uint64_t allowed_ = UINT64_MAX;
  std::vector<double> prices_;
  std::map<std::uint64_t, State> found_;
};

}  // namespace

std::uint64_t peak_bound(const RecomputeProblem& p) {
  std::uint64_t bound = 0, kept = 0;
  for (const auto& v : p.values)
    if (v.kept && !v.stored) kept += v.bytes;
  for (const auto& t : p.tasks) {
    std::uint64_t bytes = t.workspace;
    for (std::uint32_t v : t.reads)
      if (!p.values[v].stored) bytes += p.values[v].bytes;
    for (std::uint32_t w = 0; w < t.writes.size(); ++w) {
      bool may_take_over = false;
      for (auto [to, from] : t.in_place) may_take_over |= to == w;
      if (!p.values[t.writes[w]].stored && !may_take_over) bytes += p.values[t.writes[w]].bytes;
    }
    bound = std::max(bound, bytes);
  }
  return std::max(bound, kept);
}

RecomputePlan plain_plan(const RecomputeProblem& problem) {
  RecomputeEvaluator eval(problem);
  Measure m = eval.evaluate(eval.plain(), 0, SIZE_MAX);
  return {eval.runs(), m.peak, m.cost};
}

std::vector<RecomputePlan> find_frontier(const RecomputeProblem& problem,
                                         const RecomputeLimits& limits) {
  const RecomputePlan plain = plain_plan(problem);
  std::vector<RecomputePlan> frontier{plain};
  if (plain.peak <= peak_bound(problem)) return frontier;
  const Core core = core_of(problem, plain.peak);
  RecomputeEvaluator eval(problem);
  for (const RecomputePlan& plan : Search(core.problem, limits).run()) {
    Measure m = eval.evaluate_runs(whole_runs(problem, core, plan.runs));
    if (m.legal) frontier.push_back({eval.runs(), m.peak, m.cost});
  }
  keep_frontier(frontier);
  return frontier;
}

void keep_frontier(std::vector<RecomputePlan>& plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
    return std::pair(a.cost, a.peak) < std::pair(b.cost, b.peak);
  });
  std::uint64_t lowest = UINT64_MAX;
  std::erase_if(plans, [&](const RecomputePlan& plan) {
    const bool worse = plan.peak >= lowest;
    lowest = std::min(lowest, plan.peak);
    return worse;
  });
}

}  // namespace snug
