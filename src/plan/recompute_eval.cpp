#include "plan/recompute_eval.h"

#include <algorithm>

namespace snug {

RecomputeEvaluator::RecomputeEvaluator(const RecomputeProblem& p) : p_(p) {
  const std::size_t n = p.values.size();
  producer_.assign(n, -1);
  droppable_.assign(n, false);
  std::vector<std::vector<std::uint32_t>> reads(n);
  for (std::uint32_t t = 0; t < p.tasks.size(); ++t) {
    for (std::uint32_t v : p.tasks[t].reads) reads[v].push_back(t);
    for (std::uint32_t v : p.tasks[t].writes) {
      producer_[v] = static_cast<std::int32_t>(t);
      droppable_[v] = p.tasks[t].repeatable && !p.values[v].stored;
    }
    if (!p.tasks[t].after.empty()) waiting_.push_back(t);
    in_place_ |= !p.tasks[t].in_place.empty();
  }
  const auto end = static_cast<std::uint32_t>(p.tasks.size());
  for (std::uint32_t v = 0; v < n; ++v) {
    first_gap_.push_back(static_cast<std::uint32_t>(gaps_.size()));
    auto begin = static_cast<std::uint32_t>(std::max(producer_[v], 0));
    for (std::uint32_t r : reads[v]) {
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
bool RecomputeEvaluator::collect_missing(const RecomputeProblem::Task& task) {
  batch_.clear();
  ++stamp_now_;
  auto want = [&](const RecomputeProblem::Task& t) {
    for (std::uint32_t v : t.reads) {
      if (there_[v]) continue;
      auto maker = static_cast<std::uint32_t>(producer_[v]);
      if (!p_.tasks[maker].repeatable) return false;
      if (stamp_[maker] == stamp_now_) continue;
      stamp_[maker] = stamp_now_;
      batch_.push_back(maker);
    }
    return true;
  };
  if (!want(task)) return false;
  for (std::size_t k = 0; k < batch_.size(); ++k)
    if (!want(p_.tasks[batch_[k]])) return false;
  std::sort(batch_.begin(), batch_.end());
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
    const RecomputeProblem::Task& task = p_.tasks[at];
    if (!collect_missing(task) || runs_.size() + batch_.size() >= max_runs) return false;
    for (std::uint32_t t : batch_) {
      runs_.push_back(t);
      info_.push_back({at, true});
    }
    runs_.push_back(at);
    info_.push_back({at, false});
    for (std::uint32_t t : batch_)
      for (std::uint32_t v : p_.tasks[t].writes)
        if (droppable_[v]) arrive(levels, v);
    for (std::uint32_t v : task.reads) {
      ++gap_now_[v];
      made_[v] = 0;
      there_[v] = !droppable_[v] || levels[gap_now_[v]] == 0;
    }
    for (std::uint32_t v : task.writes) there_[v] = !droppable_[v] || levels[gap_now_[v]] == 0;
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
    std::stable_sort(moves.begin(), moves.end(),
                     [](auto a, auto b) { return a.first < b.first; });
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
      instances_.push_back({v, 0, 0, gap_now_[v], 0, p_.values[v].bytes, p_.values[v].stored});
    }
  for (std::uint32_t at = 0; at < runs_.size(); ++at) {
    const RecomputeProblem::Task& t = p_.tasks[runs_[at]];
    touched_at_.push_back(touched_.size());
    for (std::uint32_t v : t.writes) {
      auto made = static_cast<std::uint32_t>(instances_.size());
      touched_.push_back(made);
      if (info_[at].again) ++made_[v];
      bool outside = p_.values[v].stored && !info_[at].again;
      instances_.push_back({v, at, at, gap_now_[v], made_[v], p_.values[v].bytes, outside});
      if (!p_.values[v].stored || outside) current_[v] = static_cast<std::int32_t>(made);
    }
    for (std::uint32_t v : t.reads) {
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
  Measure m;
  bool made = make_runs(levels, max_runs);
  work_ += runs_.size() + 1;
  if (!made || (!waiting_.empty() && !delay_waiting()) || !find_lives()) return m;
  if (in_place_) take_over();
  live_.assign(runs_.size() + 2, 0);
  for (const Instance& i : instances_) {
    if (i.outside) continue;
    live_[i.first + (i.took_over ? 1 : 0)] += static_cast<std::int64_t>(i.bytes);
    live_[i.last + 1] -= static_cast<std::int64_t>(i.bytes);
  }
  std::int64_t live = 0;
  for (std::uint32_t at = 0; at < runs_.size(); ++at) {
    const RecomputeProblem::Task& t = p_.tasks[runs_[at]];
    live += live_[at];
    std::uint64_t bytes = static_cast<std::uint64_t>(live) + t.workspace;
    if (bytes > m.peak) m.peak = bytes, m.peak_run = at;
    if (bytes > target) m.over += static_cast<double>(bytes - target);
    m.cost += t.cost;
  }
  m.legal = true;
  return m;
}

void RecomputeEvaluator::idle_at(std::uint32_t run, std::vector<Idle>& idle) const {
  idle.clear();
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
    idle.push_back({gap, gap == i.gap ? i.made : 0});
  }
}

void RecomputeEvaluator::remade(std::vector<std::pair<double, std::uint32_t>>& gaps) const {
  std::vector<double> cost(gaps_.size(), 0);
  gaps.clear();
  for (const Instance& i : instances_) {
    if (i.made == 0 || i.outside || !droppable_[i.value]) continue;
    if (cost[i.gap] == 0) gaps.emplace_back(0, i.gap);
    cost[i.gap] += p_.tasks[static_cast<std::size_t>(producer_[i.value])].cost + 1e-300;
  }
  for (auto& [sum, gap] : gaps) sum = cost[gap];
  std::sort(gaps.begin(), gaps.end(), [](auto a, auto b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
}

}  // namespace snug
