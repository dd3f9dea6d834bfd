#include "plan/offload.h"

#include <algorithm>

#include "plan/memory_plan.h"
#include "plan/recompute_eval.h"

namespace snug {
namespace {

constexpr std::uint64_t kLeastBytes = 4096;  // below, a file holds nothing worth it

std::vector<Offload> candidates(const RecomputeProblem& p, const RecomputeEvaluator& eval) {
  std::vector<Offload> found;
  for (std::uint32_t v = 0; v < p.values.size(); ++v) {
    const RecomputeProblem::Value& value = p.values[v];
    if (value.kept || value.given || value.stored || value.bytes < kLeastBytes) continue;
    for (std::uint32_t g = eval.first_gap(v); g + 1 < eval.first_gap(v + 1); ++g)
      if (const auto& gap = eval.gaps()[g]; gap.begin + 1 < gap.end)
        found.push_back({v, gap.begin, gap.end});
  }
  return found;
}

double seconds_of(const Schedule& s, std::uint32_t at, std::span<const double> seconds_of_task) {
  return s.steps[at].commit_copy ? 0 : seconds_of_task[s.steps[at].task];
}

/// Bytes at each step.
std::vector<std::uint64_t> live_bytes(const Schedule& s) {
  std::vector<std::int64_t> change(s.steps.size() + 2, 0);
  for (const Buffer& b : s.buffers) {
    if (b.where != Where::Arena || b.space != kHostSpace) continue;
    const auto bytes = static_cast<std::int64_t>(arena_aligned(b.bytes));
    change[b.first + (b.in_place_of >= 0 ? 1 : 0)] += bytes;
    change[b.last + 1] -= bytes;
  }
  std::vector<std::uint64_t> live;
  std::int64_t now = 0;
  for (std::size_t at = 0; at < s.steps.size(); ++at)
    live.push_back(static_cast<std::uint64_t>(now += change[at]));
  return live;
}

}  // namespace

std::vector<Offload> find_offloads(const RecomputeProblem& p, const DiskRates& disk) {
  constexpr std::size_t kMost = 512;
  constexpr std::uint64_t kBelow = 64;  // what is less than this part below the highest counts
  RecomputeEvaluator eval(p);
  eval.evaluate(eval.plain(), 0, SIZE_MAX);
  std::vector<std::uint64_t> live;
  for (std::uint32_t at = 0; at < p.tasks.size(); ++at) live.push_back(eval.live_at(at));
  std::vector<Offload> left = candidates(p, eval), found;
  const std::uint64_t bound = peak_bound(p);
  while (found.size() < kMost && !left.empty()) {
    const std::uint64_t peak = *std::max_element(live.begin(), live.end());
    if (peak <= bound) break;
    std::vector<std::uint32_t> high{0};  // places above the limit before each place
    for (std::uint64_t bytes : live) high.push_back(high.back() + (bytes > peak - peak / kBelow));
    const Offload* best = nullptr;
    double most = 0;
    for (const Offload& o : left) {
      const auto bytes = static_cast<double>(p.values[o.value].bytes);
      const double score = (high[o.end] - high[o.begin + 1]) * bytes /
                           (disk.store_seconds(bytes) + disk.load_seconds(bytes));
      if (score > most) best = &o, most = score;
    }
    if (!best) break;
    found.push_back(*best);
    for (std::uint32_t at = best->begin + 1; at < best->end; ++at)
      live[at] -= std::min(live[at], p.values[best->value].bytes);
    std::erase_if(left, [&](const Offload& o) { return o.value == found.back().value; });
  }
  return found;
}

OffloadProblem with_offloads(const RecomputeProblem& p, std::span<const Offload> offloads,
                             const DiskRates& disk) {
  const auto n = static_cast<std::uint32_t>(p.tasks.size());
  OffloadProblem out;
  std::vector<RecomputeProblem::Value>& values = out.problem.values;
  values = p.values;
  std::vector<std::vector<std::uint32_t>> loads(n), stores(n);  // before and behind a task
  std::vector<std::int32_t> offload_of(p.values.size(), -1);
  const auto first_new = static_cast<std::uint32_t>(values.size());  // in the file, then read back
  for (std::uint32_t k = 0; k < offloads.size(); ++k) {
    const std::uint32_t v = offloads[k].value;
    offload_of[v] = static_cast<std::int32_t>(k);
    loads[offloads[k].end].push_back(k);
    values.push_back({.stored = true});
    values.push_back({.bytes = p.values[v].bytes});
    for (std::uint32_t t = 0; t <= offloads[k].begin; ++t)
      if (const auto& w = p.tasks[t].writes; std::find(w.begin(), w.end(), v) != w.end())
        stores[t].push_back(k);
  }
  std::vector<std::uint32_t> place(n);
  const auto add = [&](RecomputeProblem::Task task, std::uint32_t run) {
    out.problem.tasks.push_back(std::move(task));
    out.run_of.push_back(run);
  };
  for (std::uint32_t t = 0; t < n; ++t) {
    for (std::uint32_t k : loads[t]) {
      const auto bytes = static_cast<double>(p.values[offloads[k].value].bytes);
      add({.reads = {first_new + 2 * k},
           .writes = {first_new + 2 * k + 1},
           .cost = disk.load_seconds(bytes)},
          n + k);
    }
    RecomputeProblem::Task task = p.tasks[t];
    for (std::uint32_t& v : task.reads)
      if (const std::int32_t k = offload_of[v];
          k >= 0 && t >= offloads[static_cast<std::size_t>(k)].end)
        v = first_new + 2 * static_cast<std::uint32_t>(k) + 1;
    place[t] = static_cast<std::uint32_t>(out.problem.tasks.size());
    add(std::move(task), t);
    for (std::uint32_t k : stores[t]) {
      const auto bytes = static_cast<double>(p.values[offloads[k].value].bytes);
      add({.reads = {offloads[k].value},
           .writes = {first_new + 2 * k},
           .cost = disk.store_seconds(bytes),
           .repeatable = false},
          OffloadProblem::kStores);
    }
  }
  for (auto& task : out.problem.tasks)
    for (std::uint32_t& before : task.after) before = place[before];
  return out;
}

void overlap_transfers(Schedule& s, std::span<const double> seconds, const DiskRates& disk) {
  constexpr double kShare = 2;  // of the time a transfer takes: others are under way as well
  std::vector<std::uint64_t> live = live_bytes(s);
  if (live.empty()) return;
  const std::uint64_t limit = *std::max_element(live.begin(), live.end());
  std::vector<bool> taken(s.buffers.size(), false);
  for (const Buffer& b : s.buffers)
    if (b.in_place_of >= 0) taken[static_cast<std::size_t>(b.in_place_of)] = true;
  for (Transfer& t : s.transfers) {
    Buffer& b = s.buffers[t.buffer];
    const std::uint64_t bytes = arena_aligned(b.bytes);
    double have = 0;
    for (std::uint32_t at = t.begin; at < t.end; ++at) have += seconds_of(s, at, seconds);
    // No further than the other end of the time in the file.
    std::uint32_t other = t.store ? static_cast<std::uint32_t>(s.steps.size()) : 0;
    for (const Transfer& o : s.transfers)
      if (o.offset == t.offset && o.store != t.store)
        other = t.store ? std::min(other, o.begin) : std::max(other, o.end);
    const double want = kShare * (t.store ? disk.store_seconds(static_cast<double>(b.bytes))
                                          : disk.load_seconds(static_cast<double>(b.bytes)));
    if (t.store) {
      for (; !taken[t.buffer] && have < want && t.end < other && live[t.end] + bytes <= limit;
           ++t.end) {
        live[t.end] += bytes;
        b.last = t.end;
        have += seconds_of(s, t.end, seconds);
      }
    } else {
      for (; have < want && t.begin > other && live[t.begin - 1] + bytes <= limit; --t.begin) {
        b.first = t.begin - 1;
        live[b.first] += bytes;
        have += seconds_of(s, b.first, seconds);
      }
    }
  }
  sort_transfers(s);
}

double predict_seconds(const Schedule& s, std::span<const double> seconds, const DiskRates& disk) {
  constexpr double kTaken = 0.1;  // of the time of a transfer: the thread that moves needs a core
  double now = 0, file_free = 0;  // when steps, and when transfers, have got so far
  std::vector<double> done(s.transfers.size());
  std::size_t begun = 0;
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    for (; begun < s.transfers.size() && s.transfers[begun].begin <= at; ++begun) {
      const Transfer& t = s.transfers[begun];
      const auto bytes = static_cast<double>(s.buffers[t.buffer].bytes);
      const double takes = t.store ? disk.store_seconds(bytes) : disk.load_seconds(bytes);
      file_free = std::max(file_free, now) + takes;
      done[begun] = file_free;
      now += kTaken * takes;
    }
    for (std::size_t k = 0; k < begun; ++k)
      if (s.transfers[k].end == at) now = std::max(now, done[k]);
    now += seconds_of(s, at, seconds);
  }
  return now;
}

}  // namespace snug
