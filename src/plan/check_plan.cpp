#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plan/memory_plan.h"

namespace snug {
namespace {

/// Walks through the steps with the buffers of one space that are alive, by offset.
class PlanChecker {
 public:
  PlanChecker(const Schedule& s, const MemoryPlan& plan, Space space)
      : s_(s), plan_(plan), space_(space) {}

  void run() {
    std::vector<std::vector<std::uint32_t>> starts(s_.steps.size() + 1), ends(s_.steps.size() + 1);
    for (std::uint32_t b = 0; b < s_.buffers.size(); ++b) {
      const Buffer& buf = s_.buffers[b];
      if (buf.where != Where::Arena || buf.space != space_ || buf.bytes == 0) continue;
      const std::uint64_t height = plan_.arenas[space_].bytes;
      const SpaceRules rules = s_.rules_of(space_);
      const std::uint64_t begin = plan_.offsets[b], end = begin + buf.bytes;
      // The arena of a loop has slabs of its own.
      const bool has_slabs =
          buf.workspace && rules.slab && buf.bytes > rules.slab && begin % rules.slab == 0;
      if (rules.slab && !has_slabs && begin / rules.slab != (end - 1) / rules.slab)
        internal_error("plan", fmt::format("buffer {} of {} bytes at {} lies across slabs of {}", b,
                                           buf.bytes, begin, rules.slab));
      if (begin % std::max(kArenaAlign, rules.alignment) || end > height)
        internal_error("plan",
                       fmt::format("buffer {} of {} bytes at {} leaves the arena of {} bytes", b,
                                   buf.bytes, plan_.offsets[b], height));
      starts.at(buf.first).push_back(b);
      ends.at(buf.last).push_back(b);
    }
    for (std::size_t at = 0; at < starts.size(); ++at) {
      // A buffer in place and the one it takes over are both alive in this step.
      for (std::uint32_t b : starts[at])
        if (taken_over(b) < 0) add(b);
      for (std::uint32_t b : starts[at])
        if (taken_over(b) >= 0) require_free(b, taken_over(b));
      for (std::uint32_t b : starts[at])
        if (std::int32_t from = taken_over(b); from >= 0) drop(static_cast<std::uint32_t>(from));
      for (std::uint32_t b : starts[at])
        if (taken_over(b) >= 0) add(b);
      for (std::uint32_t b : ends[at]) drop(b);
    }
  }

 private:
  /// The buffer that `b` takes over in its first step, the last one of that buffer; or -1.
  std::int32_t taken_over(std::uint32_t b) const {
    std::int32_t from = s_.buffers[b].in_place_of;
    bool taken =
        from >= 0 && s_.buffers[static_cast<std::size_t>(from)].last == s_.buffers[b].first;
    return taken ? from : -1;
  }

  void add(std::uint32_t b) {
    require_free(b, -1);
    alive_[plan_.offsets[b]] = b;
  }

  void drop(std::uint32_t b) {
    auto it = alive_.find(plan_.offsets[b]);
    if (it != alive_.end() && it->second == b) alive_.erase(it);
  }

  void require_free(std::uint32_t b, std::int32_t except) const {
    std::uint64_t begin = plan_.offsets[b], end = begin + s_.buffers[b].bytes;
    auto it = alive_.upper_bound(begin);
    if (it != alive_.begin()) --it;
    for (; it != alive_.end() && it->first < end; ++it)
      if (it->first + s_.buffers[it->second].bytes > begin &&
          static_cast<std::int32_t>(it->second) != except)
        internal_error(
            "plan", fmt::format("buffers {} and {} overlap while both are alive", b, it->second));
  }

  const Schedule& s_;
  const MemoryPlan& plan_;
  Space space_;
  std::map<std::uint64_t, std::uint32_t> alive_;  // offset -> buffer
};

}  // namespace

void verify(const Schedule& s, const MemoryPlan& plan) {
  if (plan.arenas.size() < spaces_of(s)) internal_error("plan", "a space has no arena");
  for (Space space = 0; space < plan.arenas.size(); ++space) PlanChecker(s, plan, space).run();
}

}  // namespace snug
