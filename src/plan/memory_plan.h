#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace snug {

inline constexpr std::uint64_t kArenaAlign = 64;
inline std::uint64_t arena_aligned(std::uint64_t bytes) {
  return (bytes + kArenaAlign - 1) / kArenaAlign * kArenaAlign;
}

/// The arena of one space.
struct ArenaPlan {
  std::uint64_t bytes = 0;      // its height
  std::uint64_t load = 0;       // largest sum of live bytes: no plan can be lower
  std::uint32_t peak_step = 0;  // step of that load
  std::uint64_t bound = 0;      // no plan is lower: the load, or more where the packer has shown it

  std::uint64_t gap() const { return bytes - load; }
  bool proved() const { return bytes == bound; }  // no plan of this schedule is lower
};

/// Offsets of the arena buffers of a Schedule; other buffers have none.
struct MemoryPlan {
  std::vector<std::uint64_t> offsets;             // per buffer, bytes from the start of its arena
  std::vector<ArenaPlan> arenas = {ArenaPlan{}};  // by space

  const ArenaPlan& host() const { return arenas[kHostSpace]; }
  /// Memory of the host that other devices copy from and to.
  std::uint64_t staging() const {
    std::uint64_t sum = 0;
    for (Space space = 1; space < arenas.size(); ++space)
      if (on_host(space)) sum += arenas[space].bytes;
    return sum;
  }
};

/// How many bytes arenas may have; 0: any number. What other devices copy from and to is memory of
/// the host.
struct ArenaLimits {
  ArenaLimits(std::uint64_t host = 0, std::vector<std::uint64_t> others = {})
      : host(host), others(std::move(others)) {}
  std::uint64_t host;
  std::vector<std::uint64_t> others;  // by DeviceId; the first does not count

  std::uint64_t of(DeviceId d) const { return d == 0 ? host : d < others.size() ? others[d] : 0; }
  bool hold(const MemoryPlan& plan) const;
};

/// A schedule with its plan; serves every set of sizes whose buffers are each no larger.
struct Planned {
  Schedule schedule;
  MemoryPlan plan;
  CallKind kind;
  std::vector<std::string> recomputed;    // tasks that run again
  double seconds = 0, plain_seconds = 0;  // predicted: of this plan, and if nothing ran again
  std::uint64_t bound = 0;                // no arena for these tasks is lower
};

enum class PackEffort : std::uint8_t {
  Quick,     // first fit in a few orders: inside of searches
  Thorough,  // and a search where that leaves a gap: for plans that are kept
};

/// Places buffers so that those alive at the same time do not overlap; in-place buffers share.
/// Deterministic; thorough plans are never higher than quick ones.
MemoryPlan pack(const Schedule& schedule, PackEffort effort = PackEffort::Quick);

/// The largest sum of live bytes of the host's arena, as ArenaPlan has it, without packing.
std::uint64_t load_of(const Schedule& schedule);

/// Knows nothing of the packer: no two live buffers overlap, all lie inside the arena. An internal
/// error names the pair.
void verify(const Schedule& schedule, const MemoryPlan& plan);

}  // namespace snug
