#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/memory_plan.h"

namespace snug {

void verify(const Schedule& s, const MemoryPlan& plan) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    if (buf.where != Where::Arena || buf.bytes == 0) continue;
    order.push_back(b);
    if (plan.offsets[b] % kArenaAlign || plan.offsets[b] + buf.bytes > plan.bytes)
      internal_error("plan", fmt::format("buffer {} of {} bytes at {} leaves the arena of {} bytes",
                                         b, buf.bytes, plan.offsets[b], plan.bytes));
  }
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return plan.offsets[a] < plan.offsets[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Buffer& a = s.buffers[order[i]];
    std::uint64_t end = plan.offsets[order[i]] + a.bytes;
    for (std::size_t j = i + 1; j < order.size() && plan.offsets[order[j]] < end; ++j) {
      const Buffer& b = s.buffers[order[j]];
      bool apart = a.last < b.first || b.last < a.first;
      // The one in place starts in the very step in which the other ends.
      bool handed = (a.in_place_of == static_cast<std::int32_t>(order[j]) && b.last == a.first) ||
                    (b.in_place_of == static_cast<std::int32_t>(order[i]) && a.last == b.first);
      if (!apart && !handed)
        internal_error("plan", fmt::format("buffers {} and {} overlap while both are alive",
                                           order[i], order[j]));
    }
  }
}

}  // namespace snug
