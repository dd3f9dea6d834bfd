#include "plan/recompute_seeds.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"

namespace snug {

RecomputeSeeds::RecomputeSeeds(const RecomputeProblem& p, const RecomputeEvaluator& e)
    : p_(p), eval_(e), plain_(e.plain()) {
  for (std::uint32_t at = 0; at < e.runs().size(); ++at) {
    live_.push_back(e.live_at(at));
    if (live_[at] > live_[turn_]) turn_ = at;
  }
  bytes_.assign(turn_ + 2, 0);
  std::vector<std::int64_t> change(turn_ + 3, 0);
  for (std::uint32_t t = 0; t <= turn_; ++t)
    for (std::uint32_t v : p.tasks[t].writes) {
      if (!e.droppable(v) || p.values[v].kept) continue;
      std::uint32_t reach = t;
      for (std::uint32_t g = e.first_gap(v); g + 1 < e.first_gap(v + 1); ++g)
        if (e.gaps()[g].end <= turn_) reach = e.gaps()[g].end;
      values_.push_back(v);
      made_.push_back(t);
      reach_.push_back(reach);
      bytes_[t + 1] += p.values[v].bytes;
      change[t + 1] += static_cast<std::int64_t>(p.values[v].bytes);
      change[reach + 1] -= static_cast<std::int64_t>(p.values[v].bytes);
    }
  std::int64_t sum = 0;
  for (std::uint32_t k = 0; k <= turn_ + 1; ++k) {
    crossing_.push_back(static_cast<std::uint64_t>(sum += change[k]));
    if (k > 0) bytes_[k] += bytes_[k - 1];
  }
  std::vector<double> ratios;
  for (std::uint32_t v : values_) ratios.push_back(cost_per_byte(v));
  std::sort(ratios.begin(), ratios.end());
  ratios.erase(std::unique(ratios.begin(), ratios.end()), ratios.end());
  dear_ = {HUGE_VAL};
  for (std::size_t k = 1; k <= 6 && !ratios.empty(); ++k) {
    double ratio = ratios[(ratios.size() - 1) * k / 6];
    if (ratio > 0 && ratio != dear_.back()) dear_.push_back(ratio);
  }
}

double RecomputeSeeds::cost_per_byte(std::uint32_t v) const {
  return p_.tasks[static_cast<std::size_t>(eval_.producer(v))].cost /
         static_cast<double>(std::max<std::uint64_t>(p_.values[v].bytes, 1));
}

/// Whether a stage that saves what costs more than `dear` per byte saves it; HUGE_VAL: all.
bool RecomputeSeeds::stays(std::uint32_t value, double dear) const {
  return dear == HUGE_VAL || cost_per_byte(value) >= dear;
}

std::size_t RecomputeSeeds::first_made(std::uint32_t position) const {
  return static_cast<std::size_t>(std::lower_bound(made_.begin(), made_.end(), position) -
                                  made_.begin());
}

/// The value has this level in all gaps that lead behind the turn.
void RecomputeSeeds::set_level(Levels& levels, std::uint32_t v, std::uint8_t level,
                               bool tail) const {
  const std::uint32_t end = eval_.first_gap(v + 1);
  for (std::uint32_t g = eval_.first_gap(v); g < end; ++g)
    if (eval_.gaps()[g].end > turn_) levels[g] = g + 1 < end || tail ? level : kDropped;
}

/// Per value made up to the turn: its level, whether it crosses a cut, and the limit above which it
/// stays in any case.
Levels RecomputeSeeds::with(const std::vector<std::uint8_t>& level,
                            const std::vector<bool>& crosses,
                            const std::vector<double>& dear) const {
  Levels levels = plain_;
  for (std::size_t k = 0; k < values_.size(); ++k)
    set_level(levels, values_[k], cost_per_byte(values_[k]) >= dear[k] ? 0 : level[k], crosses[k]);
  return levels;
}

/// The k-th of the cuts that divide the bytes between two positions into parts; one that cuts
/// little is preferred to one in the right place.
std::uint32_t RecomputeSeeds::best_cut(std::uint32_t from, std::uint32_t to, std::uint32_t k,
                                       std::uint32_t parts) const {
  const auto begin = static_cast<double>(bytes_[from]);
  const double part = (static_cast<double>(bytes_[to]) - begin) / parts;
  auto position_of = [&](double bytes) {
    auto it =
        std::lower_bound(bytes_.begin() + from, bytes_.begin() + to, bytes,
                         [](std::uint64_t a, double b) { return static_cast<double>(a) < b; });
    return static_cast<std::uint32_t>(it - bytes_.begin());
  };
  std::uint32_t best = from;
  double least = 0;
  for (std::uint32_t c = std::max(position_of(begin + (k - 0.75) * part), from + 1);
       c < to && static_cast<double>(bytes_[c]) <= begin + (k + 0.75) * part; ++c) {
    double off = std::abs(static_cast<double>(bytes_[c]) - begin - k * part);
    double score = static_cast<double>(crossing_[c]) + off;
    if (best == from || score < least) best = c, least = score;
  }
  return best;
}

/// Cuts a segment into `parts` as long as it has more than `leaf` bytes. What crosses a cut stays
/// from the first pass on, and so does what is in the last part; the others come in later passes.
Levels RecomputeSeeds::segments(std::uint32_t parts, double leaf, double dear) const {
  struct Segment {
    std::uint32_t from, to;
    std::uint8_t level;
  };
  std::vector<std::uint8_t> level(values_.size(), kDropped);
  std::vector<bool> crosses(values_.size(), false);
  std::vector<Segment> stack{{0, turn_ + 1, 0}};
  while (!stack.empty()) {
    Segment s = stack.back();
    stack.pop_back();
    std::vector<std::uint32_t> ends;
    if (static_cast<double>(bytes_[s.to] - bytes_[s.from]) > leaf && s.level < 32)
      for (std::uint32_t k = 1; k < parts; ++k) {
        std::uint32_t c = best_cut(s.from, s.to, k, parts);
        if (c > s.from && (ends.empty() || c > ends.back())) ends.push_back(c);
      }
    const bool whole = ends.empty();
    ends.push_back(s.to);
    for (std::size_t k = first_made(s.from); k < first_made(s.to); ++k) {
      if (level[k] != kDropped) continue;
      std::uint32_t end = *std::upper_bound(ends.begin(), ends.end(), made_[k]);
      bool crossing = end < s.to && reach_[k] >= end;
      if (crossing || whole) level[k] = s.level;
      crosses[k] = crosses[k] || crossing;
    }
    std::uint32_t from = s.from;
    if (!whole)
      for (std::uint32_t end : ends) {
        stack.push_back({from, end, static_cast<std::uint8_t>(s.level + (end < s.to))});
        from = end;
      }
  }
  return with(level, crosses, std::vector<double>(values_.size(), dear));
}

// ---- the best way through a chain of stages ----

/// Cuts that go through little, at most kMaxStages - 1.
std::vector<std::uint32_t> RecomputeSeeds::cuts() const {
  constexpr std::size_t kMaxStages = 40, kMaxLooked = 400;
  std::vector<std::uint32_t> found;
  const std::uint64_t apart = bytes_.back() / kMaxLooked;
  for (std::uint32_t c = 1; c <= turn_; ++c)
    if (crossing_[c] <= crossing_[c - 1] && crossing_[c] <= crossing_[c + 1] &&
        bytes_[c] > (found.empty() ? 0 : bytes_[found.back()] + apart))
      found.push_back(c);
  // The cut whose stages on both sides are smallest goes, until there are few enough.
  while (found.size() >= kMaxStages) {
    std::size_t least = 0;
    std::uint64_t least_bytes = UINT64_MAX;
    for (std::size_t k = 0; k < found.size(); ++k) {
      std::uint32_t before = k == 0 ? 0 : found[k - 1];
      std::uint32_t behind = k + 1 == found.size() ? turn_ + 1 : found[k + 1];
      std::uint64_t joined = bytes_[behind] - bytes_[before] + crossing_[found[k]];
      if (joined < least_bytes) least = k, least_bytes = joined;
    }
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(least));
  }
  return found;
}

std::vector<RecomputeSeeds::Stage> RecomputeSeeds::stages() const {
  std::vector<Stage> stages;
  std::uint32_t from = 0;
  for (std::uint32_t to : cuts()) {
    stages.emplace_back().from = from;
    stages.back().to = to;
    from = to;
  }
  stages.emplace_back().from = from;
  stages.back().to = turn_ + 1;
  std::vector<std::uint32_t> stage_of(turn_ + 1), last(values_.size());  // last read
  for (std::uint32_t s = 0; s < stages.size(); ++s)
    for (std::uint32_t at = stages[s].from; at < stages[s].to; ++at) stage_of[at] = s;
  // The stage that a position behind the turn belongs to: the last one it or its successors read.
  std::vector<std::uint32_t> back_stage(p_.tasks.size() + 1, 0);
  for (std::size_t k = 0; k < values_.size(); ++k) {
    std::uint32_t v = values_[k];
    last[k] = made_[k];
    if (eval_.first_gap(v + 1) - eval_.first_gap(v) > 1)
      last[k] = eval_.gaps()[eval_.first_gap(v + 1) - 2].end;
    back_stage[last[k]] = std::max(back_stage[last[k]], stage_of[made_[k]]);
  }
  for (std::size_t at = p_.tasks.size(); at-- > turn_;)
    back_stage[at] = std::max(back_stage[at], back_stage[at + 1]);
  // Bytes that earlier stages keep while one has its backward tasks.
  std::vector<std::uint32_t> stage_ends(stages.size(), turn_);  // where earlier ones begin
  for (std::uint32_t at = turn_; at < p_.tasks.size(); ++at) stage_ends[back_stage[at]] = at + 1;
  for (std::size_t s = stages.size() - 1; s-- > 0;)
    stage_ends[s] = std::max(stage_ends[s], stage_ends[s + 1]);
  std::vector<std::int64_t> others(p_.tasks.size() + 2, 0);
  for (std::size_t k = 0; k < values_.size(); ++k) {
    std::uint32_t s = stage_of[made_[k]];
    if (last[k] <= turn_ || s + 1 == stages.size()) continue;
    others[turn_] += static_cast<std::int64_t>(p_.values[values_[k]].bytes);
    others[std::min(last[k] + 1, stage_ends[s + 1])] -=
        static_cast<std::int64_t>(p_.values[values_[k]].bytes);
  }
  std::vector<std::uint64_t> back(stages.size(), 0);
  std::int64_t sum = 0;
  for (std::uint32_t at = turn_; at < p_.tasks.size(); ++at) {
    sum += others[at];
    auto own = static_cast<std::int64_t>(live_[at]) - sum;
    std::uint64_t& most = back[back_stage[at]];
    most = std::max(most, static_cast<std::uint64_t>(std::max<std::int64_t>(own, 0)));
  }
  for (std::uint32_t s = 0; s < stages.size(); ++s) measure(stages[s], back[s], last);
  return stages;
}

/// `last`: per value made up to the turn, its last read.
void RecomputeSeeds::measure(Stage& stage, std::uint64_t back,
                             const std::vector<std::uint32_t>& last) const {
  stage.before = crossing_[stage.from];
  for (std::uint32_t at = stage.from; at < stage.to; ++at) {
    stage.forward += p_.tasks[at].cost;
    std::uint64_t touched = p_.tasks[at].workspace;
    for (std::uint32_t v : p_.tasks[at].reads) touched += p_.values[v].bytes;
    for (std::uint32_t v : p_.tasks[at].writes) touched += p_.values[v].bytes;
    stage.passing = std::max(stage.passing, touched);
  }
  for (double dear : dear_) {
    Stage::Way way{0, 0, 0};
    std::uint64_t dropped = 0;
    for (std::size_t k = first_made(stage.from); k < first_made(stage.to); ++k) {
      if (last[k] <= turn_) continue;
      if (stays(values_[k], dear)) {
        way.saved += p_.values[values_[k]].bytes;
      } else {
        dropped += p_.values[values_[k]].bytes;
        way.cost += p_.tasks[made_[k]].cost;
      }
    }
    // What is not saved is mostly there one after the other.
    way.back = back - std::min(back, dropped / 2);
    stage.ways.push_back(way);
  }
}

/// Dynamic programming over the stages and the memory left: a stage is saved whole in some way, or
/// the tasks run through to a later one, which is done first, and come back to this one. The bytes
/// are estimates; what counts is what the evaluator makes of the plan.
class ChainPlanner {
 public:
  explicit ChainPlanner(const RecomputeSeeds& seeds)
      : seeds_(seeds), stages_(seeds.stages()), n_(stages_.size()) {
    for (std::uint64_t b : seeds.live_) slot_ = std::max(slot_, b / kSlots + 1);
    cells_.resize(n_ * n_ * (kSlots + 1));
    for (std::size_t length = 0; length < n_; ++length) {
      check_interrupt();
      for (std::size_t s = 0; s + length < n_; ++s)
        for (std::int64_t m = 0; m <= kSlots; ++m) fill(s, s + length, m);
    }
  }

  static constexpr std::int64_t kSlots = 160;

  bool possible(std::int64_t m) const { return cell(0, n_ - 1, m).cost < HUGE_VAL; }

  Levels plan(std::int64_t room) const {
    struct Part {
      std::size_t s, t;
      std::int64_t m;
      std::uint8_t level;
    };
    const std::size_t count = seeds_.values_.size();
    std::vector<std::uint8_t> level(count, kDropped);
    std::vector<bool> crosses(count, false);
    std::vector<double> dear(count, HUGE_VAL);
    std::vector<Part> stack{{0, n_ - 1, room, 0}};
    while (!stack.empty()) {
      auto [s, t, m, pass] = stack.back();
      stack.pop_back();
      const Cell& c = cell(s, t, m);
      if (c.split == 0) {
        for (std::size_t k = seeds_.first_made(stages_[s].from);
             k < seeds_.first_made(stages_[s].to); ++k) {
          if (level[k] != kDropped) continue;
          if (seeds_.stays(seeds_.values_[k], seeds_.dear_[c.way])) level[k] = pass;
        }
        if (s < t) stack.push_back({s + 1, t, m - slots(stages_[s].ways[c.way].saved), pass});
        continue;
      }
      const std::size_t cut = s + c.split;
      for (std::size_t k = seeds_.first_made(stages_[s].from);
           k < seeds_.first_made(stages_[cut].from); ++k)
        if (seeds_.reach_[k] >= stages_[cut].from && level[k] == kDropped)
          level[k] = pass, crosses[k] = true;
      stack.push_back({cut, t, m - slots(stages_[cut].before), pass});
      stack.push_back({s, cut - 1, m, static_cast<std::uint8_t>(std::min(pass + 1, 40))});
    }
    return seeds_.with(level, crosses, dear);
  }

 private:
  struct Cell {
    double cost = HUGE_VAL;
    std::uint16_t split = 0, way = 0;
  };

  std::int64_t slots(std::uint64_t bytes) const {
    return static_cast<std::int64_t>((bytes + slot_ / 2) / slot_);
  }
  std::size_t index(std::size_t s, std::size_t t, std::int64_t m) const {
    return (s * n_ + t) * (kSlots + 1) + static_cast<std::size_t>(m);
  }
  const Cell& cell(std::size_t s, std::size_t t, std::int64_t m) const {
    return cells_[index(s, t, m)];
  }

  void fill(std::size_t s, std::size_t t, std::int64_t m) {
    Cell best;
    auto better = [&](double cost, std::size_t split, std::size_t way) {
      if (cost < best.cost)
        best = {cost, static_cast<std::uint16_t>(split), static_cast<std::uint16_t>(way)};
    };
    if (slots(stages_[s].passing) <= m)
      for (std::size_t w = 0; w < stages_[s].ways.size(); ++w) {
        const auto& way = stages_[s].ways[w];
        if (slots(way.back) > m) continue;
        double cost = stages_[s].forward + way.cost;
        std::int64_t left = m - slots(way.saved);
        if (s < t) cost = left < 0 ? HUGE_VAL : cost + cell(s + 1, t, left).cost;
        better(cost, 0, w);
      }
    double through = 0;
    for (std::size_t cut = s + 1; cut <= t; ++cut) {
      through += stages_[cut - 1].forward;
      if (slots(stages_[cut - 1].passing) > m) break;
      std::int64_t left = m - slots(stages_[cut].before);
      if (left >= 0)
        better(through + cell(cut, t, left).cost + cell(s, cut - 1, m).cost, cut - s, 0);
    }
    cells_[index(s, t, m)] = best;
  }

  const RecomputeSeeds& seeds_;
  std::vector<RecomputeSeeds::Stage> stages_;
  std::size_t n_;
  std::uint64_t slot_ = 1;
  std::vector<Cell> cells_;
};

void RecomputeSeeds::each(const std::function<bool(const Levels&)>& use) const {
  if (values_.empty()) return;
  for (double dear : dear_)
    for (std::uint8_t level : {std::uint8_t{1}, kDropped}) {
      Levels levels = plain_;
      for (std::uint32_t v : values_)
        if (cost_per_byte(v) < dear) set_level(levels, v, level, false);
      if (!use(levels)) return;
    }
  ChainPlanner chain(*this);
  for (std::int64_t m = ChainPlanner::kSlots; m > 0; --m)
    if (chain.possible(m) && !use(chain.plan(m))) return;
  const auto all = static_cast<double>(bytes_.back());
  for (double dear : dear_)
    for (std::uint32_t parts : {2u, 3u, 4u, 5u, 6u, 8u, 10u, 12u, 16u, 24u, 32u, 48u})
      for (double leaf = all / 1.5; leaf > all / static_cast<double>(values_.size() + 1); leaf /= 2)
        if (!use(segments(parts, leaf, dear))) return;
}

}  // namespace snug
