#include "plan/queues.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "schedule/queue_clocks.h"

namespace snug {
namespace {

/// Memory that no other kind of buffer is in: an arena, or storage of its own.
using Memory = std::pair<std::uint32_t, std::uint32_t>;

Memory memory_of(const Buffer& b) {
  if (b.where == Where::Arena) return {static_cast<std::uint32_t>(b.where), b.space};
  return {static_cast<std::uint32_t>(b.where) + (std::uint32_t{b.space} << 8), b.index};
}

bool is_late(const Schedule& s) {
  return std::any_of(s.steps.begin(), s.steps.end(),
                     [](const Step& step) { return step.queue != kHostQueue; });
}

/// The last accesses to every byte of a memory, in pieces.
class Accesses {
 public:
  /// Calls conflict(step) for the accesses to [begin, end) that one of `step` has to come after.
  template <class F>
  void add(std::uint64_t begin, std::uint64_t end, std::uint32_t step, QueueId queue, bool write,
           F&& conflict) {
    split(begin);
    split(end);
    for (auto piece = pieces_.find(begin); piece->first < end; ++piece) {
      Piece& p = piece->second;
      if (p.writer) conflict(*p.writer);
      if (!write) {
        // The last read of a queue comes after its others.
        const auto same = std::find_if(p.reads.begin(), p.reads.end(),
                                       [&](const auto& r) { return r.first == queue; });
        if (same != p.reads.end())
          same->second = step;
        else
          p.reads.emplace_back(queue, step);
        continue;
      }
      for (const auto& [_, reader] : p.reads) conflict(reader);
      p.reads.clear();
      p.writer = step;
    }
  }

 private:
  struct Piece {
    std::optional<std::uint32_t> writer;                     // the last one
    std::vector<std::pair<QueueId, std::uint32_t>> reads{};  // since then, the last of each queue
  };

  void split(std::uint64_t at) {
    auto next = pieces_.lower_bound(at);
    if (next == pieces_.end() || next->first != at) pieces_.emplace(at, std::prev(next)->second);
  }

  std::map<std::uint64_t, Piece> pieces_{{0, {}}};  // by where they begin
};

}  // namespace

void add_waits(Schedule& s, const MemoryPlan& plan) {
  for (Step& step : s.steps) step.waits.clear();
  if (!is_late(s)) return;
  QueueClocks clocks;
  std::map<Memory, Accesses> memories;
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    Step& step = s.steps[at];
    clocks.begin(step.queue);
    std::vector<std::uint32_t> before;
    const auto touch = [&](std::uint32_t b, bool write) {
      const Buffer& buffer = s.buffers[b];
      if (buffer.bytes == 0) return;
      const std::uint64_t begin = buffer.where == Where::Arena ? plan.offsets[b] : 0;
      memories[memory_of(buffer)].add(begin, begin + buffer.bytes, at, step.queue, write,
                                      [&](std::uint32_t other) {
                                        if (other != at) before.push_back(other);
                                      });
    };
    for (std::uint32_t b : step.reads) touch(b, false);
    for (std::uint32_t b : step.writes) touch(b, true);
    if (step.workspace >= 0) touch(static_cast<std::uint32_t>(step.workspace), true);
    for (std::uint32_t b : step.elsewhere) touch(b, true);
    // The latest first: it may stand for others.
    std::sort(before.rbegin(), before.rend());
    for (const std::uint32_t other : before)
      if (s.steps[other].queue != step.queue && !clocks.knows(other)) {
        step.waits.push_back(other);
        clocks.wait(other);
      }
    clocks.end(at);
  }
}

}  // namespace snug
