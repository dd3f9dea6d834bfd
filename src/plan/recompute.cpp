#include "plan/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plan/recompute_eval.h"

namespace snug {
namespace {

using Measure = RecomputeEvaluator::Measure;

class Search {
 public:
  Search(const RecomputeProblem& p, const RecomputeLimits& limits)
      : p_(p), limits_(limits), eval_(p), max_runs_(64 + 16 * p.tasks.size()) {}

  std::vector<RecomputePlan> run() {
    bound_ = peak_bound(p_);
    State plain{eval_.plain(), {}};
    plain.m = eval_.evaluate(plain.levels, 0, SIZE_MAX);
    turn_ = eval_.runs().empty() ? 0 : plain.m.peak_run;
    record(plain.levels, plain.m);
    if (plain.m.peak > bound_) {
      sow(plain);
      descend(plain);
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

  bool exhausted() const { return eval_.work() > limits_.runs; }

  Measure try_out(const Levels& levels, std::uint64_t target) {
    Measure m = eval_.evaluate(levels, target, max_runs_);
    record(levels, m);
    return m;
  }

  // ---- plans by recipe: segments of segments ----

  bool is_forward(std::uint32_t value) const {
    std::int32_t maker = eval_.producer(value);
    return maker >= 0 && static_cast<std::uint32_t>(maker) <= turn_ && eval_.droppable(value);
  }

  /// Last read up to the turn.
  std::uint32_t last_forward_read(std::uint32_t value) const {
    std::uint32_t last = static_cast<std::uint32_t>(eval_.producer(value));
    for (std::uint32_t g = eval_.first_gap(value); g + 1 < eval_.first_gap(value + 1); ++g)
      if (eval_.gaps()[g].end <= turn_) last = eval_.gaps()[g].end;
    return last;
  }

  double cost_per_byte(std::uint32_t value) const {
    return p_.tasks[static_cast<std::size_t>(eval_.producer(value))].cost /
           static_cast<double>(std::max<std::uint64_t>(p_.values[value].bytes, 1));
  }

  /// The value has this level in all gaps that lead behind the turn.
  void set_level(Levels& levels, std::uint32_t value, std::uint8_t level, bool tail) const {
    const std::uint32_t end = eval_.first_gap(value + 1);
    for (std::uint32_t g = eval_.first_gap(value); g < end; ++g) {
      if (eval_.gaps()[g].end <= turn_ || p_.values[value].kept) continue;
      levels[g] = g + 1 < end || tail ? level : kDropped;
    }
  }

  struct Forward {
    std::vector<std::uint32_t> values;        // by position of their task
    std::vector<std::uint32_t> made, reaches;  // positions, per entry of values
    std::vector<std::uint64_t> bytes;          // made up to a position, exclusive
    std::vector<std::uint64_t> crossing;       // bytes of values that a cut before a position cuts
  };

  Forward forward() const {
    Forward f;
    f.bytes.assign(turn_ + 3, 0);
    std::vector<std::int64_t> change(turn_ + 3, 0);
    for (std::uint32_t t = 0; t <= turn_ && t < p_.tasks.size(); ++t)
      for (std::uint32_t v : p_.tasks[t].writes) {
        if (!is_forward(v)) continue;
        f.values.push_back(v);
        f.made.push_back(t);
        f.reaches.push_back(last_forward_read(v));
        f.bytes[t + 1] += p_.values[v].bytes;
        change[t + 1] += static_cast<std::int64_t>(p_.values[v].bytes);
        change[f.reaches.back() + 1] -= static_cast<std::int64_t>(p_.values[v].bytes);
      }
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < change.size(); ++k) {
      sum += change[k];
      f.crossing.push_back(static_cast<std::uint64_t>(sum));
      if (k > 0) f.bytes[k] += f.bytes[k - 1];
    }
    return f;
  }

  /// The cut in (from, to) nearest in bytes to `part` of the way, preferring cheap ones nearby.
  std::uint32_t best_cut(const Forward& f, std::uint32_t from, std::uint32_t to, double part) const {
    const double begin = static_cast<double>(f.bytes[from]);
    const double all = static_cast<double>(f.bytes[to]) - begin;
    std::uint32_t best = from;
    double least = 0;
    for (std::uint32_t c = from + 1; c < to; ++c) {
      double off = std::abs((static_cast<double>(f.bytes[c]) - begin) / std::max(all, 1.0) - part);
      double score = static_cast<double>(f.crossing[c]) + off * all;
      if (best == from || score < least) best = c, least = score;
    }
    return best;
  }

  /// Cuts a segment into `parts` as long as it has more than `leaf` bytes. What crosses a cut stays
  /// from the first pass on, the rest of the last part, too; the other parts come in later passes.
  Levels segments(const Forward& f, const Levels& plain, std::uint32_t parts, double leaf,
                  double dear) const {
    struct Segment {
      std::uint32_t from, to;
      std::uint8_t level;
    };
    std::vector<std::uint8_t> level(f.values.size(), kDropped);
    std::vector<bool> crosses(f.values.size(), false);
    std::vector<Segment> stack{{0, turn_ + 1, 0}};
    auto first_of = [&](std::uint32_t position) {
      return static_cast<std::size_t>(
          std::lower_bound(f.made.begin(), f.made.end(), position) - f.made.begin());
    };
    while (!stack.empty()) {
      Segment s = stack.back();
      stack.pop_back();
      const double bytes = static_cast<double>(f.bytes[s.to] - f.bytes[s.from]);
      std::vector<std::uint32_t> cuts;
      if (bytes > leaf && s.level < 32)
        for (std::uint32_t k = 1; k < parts; ++k) {
          std::uint32_t c = best_cut(f, s.from, s.to, static_cast<double>(k) / parts);
          if (c > s.from && (cuts.empty() || c > cuts.back())) cuts.push_back(c);
        }
      std::vector<std::uint32_t> ends = cuts;
      ends.push_back(s.to);
      for (std::size_t k = first_of(s.from); k < first_of(s.to); ++k) {
        if (level[k] != kDropped) continue;
        std::uint32_t end = *std::upper_bound(ends.begin(), ends.end(), f.made[k]);
        bool crossing = end < s.to && f.reaches[k] >= end;
        if (crossing || cuts.empty()) level[k] = s.level;
        crosses[k] = crosses[k] || crossing;
      }
      std::uint32_t from = s.from;
      for (std::uint32_t end : ends) {
        if (!cuts.empty())
          stack.push_back({from, end, static_cast<std::uint8_t>(s.level + (end < s.to))});
        from = end;
      }
    }
    Levels levels = plain;
    for (std::size_t k = 0; k < f.values.size(); ++k)
      if (cost_per_byte(f.values[k]) >= dear)
        set_level(levels, f.values[k], 0, crosses[k]);
      else
        set_level(levels, f.values[k], level[k], crosses[k]);
    return levels;
  }

  void sow(const State& plain) {
    const Forward f = forward();
    if (f.values.empty()) return;
    std::vector<double> ratios;
    for (std::uint32_t v : f.values) ratios.push_back(cost_per_byte(v));
    std::sort(ratios.begin(), ratios.end());
    ratios.erase(std::unique(ratios.begin(), ratios.end()), ratios.end());
    std::vector<double> dear{HUGE_VAL};
    for (std::size_t k = 1; k <= 6; ++k) dear.push_back(ratios[(ratios.size() - 1) * k / 6]);
    const auto all = static_cast<double>(f.bytes[turn_ + 1]);
    const std::uint64_t limit = eval_.work() + limits_.runs / 4;
    for (double ratio : dear) {
      for (std::uint8_t level : {std::uint8_t{1}, kDropped}) {
        Levels levels = plain.levels;
        for (std::uint32_t v : f.values)
          if (cost_per_byte(v) < ratio) set_level(levels, v, level, false);
        try_out(levels, 0);
      }
      for (std::uint32_t parts : {2u, 3u, 4u, 5u, 6u, 8u, 10u, 12u, 16u, 24u, 32u, 48u})
        for (double leaf = all / 1.5; leaf > all / static_cast<double>(f.values.size() + 1);
             leaf /= 2) {
          if (eval_.work() > limit) return;
          try_out(segments(f, plain.levels, parts, leaf, ratio), 0);
        }
    }
  }

  // ---- improving plans step by step ----

  void descend(const State& plain) {
    const double high = static_cast<double>(plain.m.peak);
    const double low = static_cast<double>(std::max<std::uint64_t>(bound_, 1));
    for (std::uint32_t k = 1; k <= limits_.targets && !exhausted(); ++k) {
      auto target = static_cast<std::uint64_t>(
          high * std::pow(low / high, static_cast<double>(k) / limits_.targets));
      if (k == limits_.targets) target = bound_;
      auto above = found_.upper_bound(target);
      std::vector<State> starts;
      if (above != found_.begin()) starts.push_back(std::prev(above)->second);
      if (above != found_.end()) starts.push_back(above->second);
      for (State& s : starts) {
        s.m = eval_.evaluate(s.levels, target, SIZE_MAX);
        if (lower_to(s, target)) make_faster(s, target);
      }
    }
  }

  /// Drops what lies idle over the highest run until the target is reached. Takes what saves most
  /// for its cost; what was found for a drop earlier is believed until it is the best.
  bool lower_to(State& s, std::uint64_t target) {
    using Drop = std::pair<std::uint32_t, std::uint8_t>;  // gap, level
    std::map<Drop, double> scores;
    std::vector<RecomputeEvaluator::Idle> idle;
    while (s.m.peak > target) {
      eval_.evaluate(s.levels, target, SIZE_MAX);
      eval_.idle_at(s.m.peak_run, idle);
      std::set<std::pair<double, Drop>, std::greater<>> queue;
      for (auto [gap, made] : idle) {
        std::uint8_t next = static_cast<std::uint8_t>(std::min(made + 1, 40u));
        for (std::uint8_t level : {next, kDropped})
          if (level > s.levels[gap]) {
            auto it = scores.find({gap, level});
            queue.insert({it == scores.end() ? HUGE_VAL : it->second, {gap, level}});
          }
      }
      bool accepted = false;
      std::set<Drop> fresh;
      while (!queue.empty() && !accepted) {
        if (exhausted()) return false;
        auto [score, drop] = *queue.begin();
        queue.erase(queue.begin());
        State next{s.levels, {}};
        next.levels[drop.first] = drop.second;
        next.m = try_out(next.levels, target);
        double gain = next.m.legal ? s.m.over - next.m.over : 0;
        double price = std::max(next.m.cost - s.m.cost, 1e-9 * s.m.cost);
        score = scores[drop] = gain > 0 ? gain / price : 0;
        if (gain <= 0) continue;
        if (!queue.empty() && score < queue.begin()->first && fresh.insert(drop).second) {
          queue.insert({score, drop});
          continue;
        }
        s = std::move(next);
        accepted = true;
      }
      if (!accepted) return false;
    }
    return true;
  }

  /// Keeps what can be kept below the target, the most expensive first.
  void make_faster(State& s, std::uint64_t target) {
    std::vector<std::pair<double, std::uint32_t>> remade;  // cost, gap
    for (bool better = true; better && !exhausted();) {
      better = false;
      eval_.evaluate(s.levels, target, SIZE_MAX);
      eval_.remade(remade);
      for (auto [cost, gap] : remade) {
        if (exhausted()) break;
        std::uint8_t now = s.levels[gap];
        std::uint8_t tries[] = {0, 1, static_cast<std::uint8_t>(now == kDropped ? 2 : now - 1)};
        for (std::uint8_t level : tries) {
          if (level >= now) continue;
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

  const RecomputeProblem& p_;
  RecomputeLimits limits_;
  RecomputeEvaluator eval_;
  std::size_t max_runs_;
  std::uint64_t bound_ = 0;
  std::uint32_t turn_ = 0;
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

std::vector<RecomputePlan> find_frontier(const RecomputeProblem& problem,
                                         const RecomputeLimits& limits) {
  return Search(problem, limits).run();
}

}  // namespace snug
