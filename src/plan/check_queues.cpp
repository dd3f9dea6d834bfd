#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "plan/queues.h"

namespace snug {
namespace {

struct Access {
  std::uint32_t step;
  std::uint64_t begin, end;
  bool write;
};

}  // namespace

std::string find_race(const Schedule& s, const MemoryPlan& plan) {
  // clocks[k][q]: how many of the steps up to number k are of queue q and done before k begins;
  // counted by what waits alone say.
  std::size_t queues = 1;
  for (const Step& step : s.steps) queues = std::max<std::size_t>(queues, step.queue + 1U);
  if (queues == 1) return {};
  using Clock = std::vector<std::int64_t>;  // per queue: its last step that is done
  std::vector<Clock> start(s.steps.size()), last(queues, Clock(queues, -1));
  std::vector<Clock> finished(s.steps.size());
  const auto join = [&](Clock& to, const Clock& from) {
    for (std::size_t q = 0; q < queues; ++q) to[q] = std::max(to[q], from[q]);
  };
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    const Step& step = s.steps[at];
    for (const std::uint32_t w : step.waits) {
      if (w >= at) return fmt::format("step {} waits for step {}, which comes later", at, w);
      const QueueId other = s.steps[w].queue;
      const bool thread_waits =
          step.queue == kHostQueue || device_of_queue(other) != device_of_queue(step.queue);
      if (thread_waits) join(last[kHostQueue], finished[w]);
      join(last[step.queue], finished[w]);
    }
    join(last[step.queue], last[kHostQueue]);
    start[at] = last[step.queue];
    last[step.queue][step.queue] = at;
    finished[at] = last[step.queue];
  }
  // By memory: arenas by their space, all else by where it is and its number.
  std::map<std::tuple<Where, Space, std::uint32_t>, std::vector<Access>> memories;
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    const Step& step = s.steps[at];
    std::vector<std::pair<std::uint32_t, bool>> touched;
    for (const std::uint32_t b : step.reads) touched.emplace_back(b, false);
    for (const std::uint32_t b : step.writes) touched.emplace_back(b, true);
    if (step.workspace >= 0) touched.emplace_back(step.workspace, true);
    for (const std::uint32_t b : step.elsewhere) touched.emplace_back(b, true);
    for (const auto& [b, write] : touched) {
      const Buffer& buffer = s.buffers[b];
      const bool planned = buffer.where == Where::Arena;
      const std::uint64_t begin = planned ? plan.offsets[b] : 0, end = begin + buffer.bytes;
      std::vector<Access>& all = memories[{buffer.where, buffer.space, planned ? 0 : buffer.index}];
      for (const Access& other : all) {
        if (!(write || other.write) || other.begin >= end || begin >= other.end) continue;
        const QueueId queue = s.steps[other.step].queue;
        if (queue != step.queue && start[at][queue] < other.step)
          return fmt::format("steps {} and {} touch the same memory, and neither waits", other.step,
                             at);
      }
      all.push_back({at, begin, end, write});
    }
  }
  return {};
}

void verify_queues(const Schedule& s, const MemoryPlan& plan) {
  if (const std::string race = find_race(s, plan); !race.empty()) internal_error("queues", race);
}

}  // namespace snug
