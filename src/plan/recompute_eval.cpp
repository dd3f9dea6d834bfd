#include "plan/recompute_eval.h"

#include <algorithm>

#include "base/interrupt.h"

namespace snug {

RecomputeEvaluator::RecomputeEvaluator(const RecomputeProblem& p) : p_(p) {
  const std::size_t n = p.values.size();
  producer_.assign(n, -1);
  droppable_.assign(n, false);
  std::vector<std::vector<std::uint32_t>> readers(n);
  for (std::uint32_t t = 0; t < p.tasks.size(); ++t) {
    for (std::uint32_t v : p.tasks[t].reads) readers[v].push_back(t);
    for (std::uint32_t v : p.tasks[t].writes) {
      producer_[v] = static_cast<std::int32_t>(t);
      droppable_[v] = p.tasks[t].repeatable && !p.values[v].stored;
    }
    reads_at_.push_back(static_cast<std::uint32_t>(reads_.size()));
    writes_at_.push_back(static_cast<std::uint32_t>(writes_.size()));
    reads_.insert(reads_.end(), p.tasks[t].reads.begin(), p.tasks[t].reads.end());
    writes_.insert(writes_.end(), p.tasks[t].writes.begin(), p.tasks[t].writes.end());
    if (!p.tasks[t].after.empty()) waiting_.push_back(t);
    in_place_ |= !p.tasks[t].in_place.empty();
  }
  reads_at_.push_back(static_cast<std::uint32_t>(reads_.size()));
  writes_at_.push_back(static_cast<std::uint32_t>(writes_.size()));
  const auto end = static_cast<std::uint32_t>(p.tasks.size());
  for (std::uint32_t v = 0; v < n; ++v) {
    first_gap_.push_back(static_cast<std::uint32_t>(gaps_.size()));
    auto begin = static_cast<std::uint32_t>(std::max(producer_[v], 0));
    for (std::uint32_t r : readers[v]) {
      gaps_.push_back({v, begin, r});
      begin = r;
    }
    gaps_.push_back({v, begin, end});
  }
  first_gap_.push_back(static_cast<std::uint32_t>(gaps_.size()));
  stamp_.assign(end, 0);
}

Levels RecomputeEvaluator::plain() const {
  Levels levels(gaps_.size(), 0);
  for (std::uint32_t v = 0; v < p_.values.size(); ++v)
    if (droppable_[v] && !p_.values[v].kept) levels[first_gap_[v + 1] - 1] = kDropped;
  return levels;
}

/// The value was made again, in the gap it is in.
void RecomputeEvaluator::arrive(const Levels& levels, std::uint32_t v) {
  ++made_[v];
  std::uint8_t level = levels[gap_now_[v]];
  there_[v] = level == 0 || (level != kDropped && made_[v] >= level);
}

/// Fills batch_ with the tasks to run again before `task`, in order.
bool RecomputeEvaluator::collect_missing(std::uint32_t task) {
  batch_.clear();
  auto want = [&](std::uint32_t t) {
    for (std::uint32_t v : reads(t)) {
      if (there_[v]) continue;
      if (!droppable_[v]) return false;
      auto maker = static_cast<std::uint32_t>(producer_[v]);
      if (stamp_[maker] == stamp_now_) continue;
      stamp_[maker] = stamp_now_;
      batch_.push_back(maker);
    }
    return true;
  };
  ++stamp_now_;
  if (!want(task)) return false;
  for (std::size_t k = 0; k < batch_.size(); ++k)
    if (!want(batch_[k])) return false;
  if (batch_.size() > 1) std::sort(batch_.begin(), batch_.end());
  return true;
}

bool RecomputeEvaluator::make_runs(const Levels& levels, std::size_t max_runs) {
  runs_.clear();
  info_.clear();
  made_.assign(p_.values.size(), 0);
  there_.resize(p_.values.size());
  gap_now_.assign(first_gap_.begin(), first_gap_.end() - 1);
  for (std::size_t v = 0; v < p_.values.size(); ++v) there_[v] = p_.values[v].given;
  for (std::uint32_t at = 0; at < p_.tasks.size(); ++at) {
    if (!collect_missing(at) || runs_.size() + batch_.size() >= max_runs) return false;
    for (std::uint32_t t : batch_) {
      runs_.push_back(t);
      info_.push_back({at, true});
    }
    runs_.push_back(at);
    info_.push_back({at, false});
    for (std::uint32_t t : batch_)
      for (std::uint32_t v : writes(t))
        if (droppable_[v]) arrive(levels, v);
    for (std::uint32_t v : reads(at)) {
      ++gap_now_[v];
      made_[v] = 0;
      there_[v] = !droppable_[v] || levels[gap_now_[v]] == 0;
    }
    for (std::uint32_t v : writes(at)) there_[v] = !droppable_[v] || levels[gap_now_[v]] == 0;
  }
  return true;
}

/// A task that writes over what others read moves behind their last runs.
bool RecomputeEvaluator::delay_waiting() {
  constexpr int kRounds = 8;
  std::vector<std::uint32_t> last(p_.tasks.size()), place(p_.tasks.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::uint32_t at = 0; at < runs_.size(); ++at) last[runs_[at]] = at;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> moves;  // behind this run, the task
    for (std::uint32_t t : waiting_) {
      std::uint32_t behind = last[t];
      for (std::uint32_t before : p_.tasks[t].after) behind = std::max(behind, last[before]);
      if (behind > last[t]) moves.emplace_back(behind, t);
    }
    if (moves.empty()) return true;
    std::stable_sort(moves.begin(), moves.end(), [](auto a, auto b) { return a.first < b.first; });
    std::vector<bool> moved(p_.tasks.size(), false);
    for (auto [behind, t] : moves) moved[t] = true;
    Runs runs;
    std::vector<Run> info;
    std::size_t next = 0;
    for (std::uint32_t at = 0; at < runs_.size(); ++at) {
      if (!moved[runs_[at]]) {
        runs.push_back(runs_[at]);
        info.push_back(info_[at]);
      }
      for (; next < moves.size() && moves[next].first == at; ++next) {
        runs.push_back(moves[next].second);
        info.push_back(info_[at]);
        info.back().again = false;
      }
    }
    runs_.swap(runs);
    info_.swap(info);
  }
  return false;
}

bool RecomputeEvaluator::find_lives() {
  instances_.clear();
  touched_.clear();
  touched_at_.clear();
  current_.assign(p_.values.size(), -1);
  gap_now_.assign(first_gap_.begin(), first_gap_.end() - 1);
  made_.assign(p_.values.size(), 0);
  for (std::uint32_t v = 0; v < p_.values.size(); ++v)
    if (p_.values[v].given) {
      current_[v] = static_cast<std::int32_t>(instances_.size());
      instances_.push_back({v, 0, 0, gap_now_[v], 0, p_.values[v].bytes, -1, p_.values[v].stored});
    }
  for (std::uint32_t at = 0; at < runs_.size(); ++at) {
    touched_at_.push_back(touched_.size());
    for (std::uint32_t v : writes(runs_[at])) {
      auto made = static_cast<std::uint32_t>(instances_.size());
      touched_.push_back(made);
      if (info_[at].again) ++made_[v];
      bool outside = p_.values[v].stored && !info_[at].again;
      instances_.push_back(
          {v, at, at, gap_now_[v], made_[v], p_.values[v].bytes, current_[v], outside});
      if (!p_.values[v].stored || outside) current_[v] = static_cast<std::int32_t>(made);
    }
    for (std::uint32_t v : reads(runs_[at])) {
      if (current_[v] < 0) return false;  // its task waits for too long
      touched_.push_back(static_cast<std::uint32_t>(current_[v]));
      instances_[static_cast<std::size_t>(current_[v])].last = at;
      if (!info_[at].again) {
        ++gap_now_[v];
        made_[v] = 0;
      }
    }
  }
  touched_at_.push_back(touched_.size());
  for (std::uint32_t v = 0; v < p_.values.size(); ++v)
    if (p_.values[v].kept && current_[v] >= 0)
      instances_[static_cast<std::size_t>(current_[v])].last =
          static_cast<std::uint32_t>(runs_.size());
  return true;
}

/// Written values take over storage that dies in their run.
void RecomputeEvaluator::take_over() {
  for (std::uint32_t at = 0; at < runs_.size(); ++at) {
    const RecomputeProblem::Task& t = p_.tasks[runs_[at]];
    for (auto [w, r] : t.in_place) {
      Instance& to = instances_[touched_[touched_at_[at] + w]];
      Instance& from = instances_[touched_[touched_at_[at] + t.writes.size() + r]];
      if (to.outside || from.outside || to.took_over || from.taken || from.last != at ||
          p_.values[to.value].bytes > p_.values[from.value].bytes)
        continue;
      to.took_over = from.taken = true;
      to.bytes = from.bytes;
    }
  }
}

RecomputeEvaluator::Measure RecomputeEvaluator::evaluate(const Levels& levels, std::uint64_t target,
                                                         std::size_t max_runs) {
  check_interrupt();
  bool made = make_runs(levels, max_runs);
  work_ += runs_.size() + 1;
  if (!made || (!waiting_.empty() && !delay_waiting())) return {};
  return measure(target);
}

RecomputeEvaluator::Measure RecomputeEvaluator::evaluate_runs(const Runs& runs) {
  runs_ = runs;
  info_.clear();
  std::vector<bool> ran(p_.tasks.size(), false);
  for (std::uint32_t t : runs) {
    info_.push_back({t, ran[t]});
    ran[t] = true;
  }
  if (!waiting_.empty() && !delay_waiting()) return {};
  return measure(0);
}

RecomputeEvaluator::Measure RecomputeEvaluator::measure(std::uint64_t target) {
  Measure m;
  if (!find_lives()) return m;
  if (in_place_) take_over();
  live_.assign(runs_.size() + 2, 0);
  for (const Instance& i : instances_) {
    if (i.outside) continue;
    live_[i.first + (i.took_over ? 1 : 0)] += static_cast<std::int64_t>(i.bytes);
    live_[i.last + 1] -= static_cast<std::int64_t>(i.bytes);
  }
  std::int64_t live = 0;
  plain_run_.resize(p_.tasks.size());
  for (std::uint32_t at = 0; at < runs_.size(); ++at) {
    const RecomputeProblem::Task& t = p_.tasks[runs_[at]];
    if (!info_[at].again) plain_run_[runs_[at]] = at;
    live += live_[at];
    std::uint64_t bytes = static_cast<std::uint64_t>(live) + t.workspace;
    live_[at] = static_cast<std::int64_t>(bytes);
    if (bytes > m.peak) m.peak = bytes, m.peak_run = at;
    if (bytes > target) m.over += static_cast<double>(bytes - target);
    m.cost += t.cost;
  }
  m.legal = true;
  return m;
}

void RecomputeEvaluator::idle_at(std::uint32_t run, std::uint64_t target,
                                 std::vector<Idle>& idle) const {
  constexpr std::ptrdiff_t kSamples = 64;
  idle.clear();
  const auto limit = static_cast<std::int64_t>(target);
  std::vector<std::uint32_t> high;  // runs above the target
  for (std::uint32_t at = 0; at < runs_.size(); ++at)
    if (live_[at] > limit) high.push_back(at);
  for (std::size_t k = 0; k < instances_.size(); ++k) {
    const Instance& i = instances_[k];
    if (i.outside || i.first >= run || i.last <= run || !droppable_[i.value] || i.bytes == 0)
      continue;
    auto begin = touched_.begin() + static_cast<std::ptrdiff_t>(touched_at_[run]);
    auto end = touched_.begin() + static_cast<std::ptrdiff_t>(touched_at_[run + 1]);
    if (std::find(begin, end, k) != end) continue;
    std::uint32_t gap = i.gap;
    while (gaps_[gap].end < info_[run].position ||
           (gaps_[gap].end == info_[run].position && !info_[run].again))
      ++gap;
    double over = 0;
    auto from = std::upper_bound(high.begin(), high.end(), i.first);
    auto to = std::lower_bound(from, high.end(), i.last);
    const std::ptrdiff_t stride = (to - from) / kSamples + 1;
    for (; to - from > 0; from += std::min(stride, to - from))
      over += static_cast<double>(
          stride * std::min(live_[*from] - limit, static_cast<std::int64_t>(i.bytes)));
    idle.push_back({gap, gap == i.gap ? i.made : 0, over});
  }
}

void RecomputeEvaluator::made_at(std::uint32_t run, std::vector<Idle>& made) const {
  made.clear();
  auto same_task = [&](std::uint32_t at) {
    return at < runs_.size() && info_[at].again && info_[at].position == info_[run].position;
  };
  std::uint32_t at = run;
  while (at > 0 && same_task(at - 1)) --at;
  for (; same_task(at); ++at)
    for (std::size_t w = 0; w < writes(runs_[at]).size(); ++w) {
      const Instance& i = instances_[touched_[touched_at_[at] + w]];
      if (!i.outside && droppable_[i.value]) made.push_back({i.gap, i.made, 0});
    }
}

void RecomputeEvaluator::remade(std::vector<Remade>& found) const {
  std::vector<double> batch(p_.tasks.size(), 0), cost(gaps_.size(), 0);
  std::vector<std::uint32_t> count(gaps_.size(), 0);
  for (std::size_t at = 0; at < runs_.size(); ++at)
    if (info_[at].again) batch[info_[at].position] += p_.tasks[runs_[at]].cost;
  found.clear();
  for (const Instance& i : instances_) {
    if (i.made == 0 || i.outside || !droppable_[i.value]) continue;
    if (count[i.gap]++ == 0) found.push_back({0, i.gap, 0});
    const std::uint32_t position = info_[i.first].position;
    cost[i.gap] += gaps_[i.gap].end == position ? batch[position] : p_.tasks[runs_[i.first]].cost;
  }
  for (Remade& r : found) {
    r.count = count[r.gap];
    r.cost = cost[r.gap];
  }
  std::sort(found.begin(), found.end(), [](const Remade& a, const Remade& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.gap < b.gap;
  });
}

bool RecomputeEvaluator::has_room(std::uint32_t gap, std::uint8_t level,
                                  std::uint64_t target) const {
  const Gap& g = gaps_[gap];
  const auto bytes = static_cast<std::int64_t>(p_.values[g.value].bytes);
  const auto limit = static_cast<std::int64_t>(target);
  std::uint32_t begin = level == 0 ? plain_run_[g.begin] : static_cast<std::uint32_t>(runs_.size());
  std::uint32_t end = g.end < p_.tasks.size() ? plain_run_[g.end] : 0;
  for (std::int32_t k = current_[g.value]; k >= 0; k = instance(k).previous) {
    if (instance(k).gap != gap) continue;
    if (instance(k).made == level) begin = instance(k).first;
    end = std::max(end, instance(k).last);
  }
  for (std::uint32_t at = begin; at < end; ++at) {
    if (info_[at].again || live_[at] + bytes <= limit) continue;
    bool there = false;
    for (std::int32_t k = current_[g.value]; k >= 0 && !there; k = instance(k).previous)
      there = instance(k).first <= at && instance(k).last >= at;
    if (!there) return false;
  }
  return true;
}

}  // namespace snug
