#pragma once
#include <algorithm>
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
  std::uint64_t staging() const { return bytes_in(0) - host().bytes; }
  /// All that is in the memory of a device.
  std::uint64_t bytes_in(DeviceId d) const { return sum_in(d, &ArenaPlan::bytes); }
  std::uint64_t load_in(DeviceId d) const { return sum_in(d, &ArenaPlan::load); }
  /// In all memories.
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const ArenaPlan& a : arenas) sum += a.bytes;
    return sum;
  }

 private:
  std::uint64_t sum_in(DeviceId d, std::uint64_t ArenaPlan::*number) const {
    std::uint64_t sum = 0;
    for (Space space = 0; space < arenas.size(); ++space)
      if (memory_of(space) == d) sum += arenas[space].*number;
    return sum;
  }
};

/// How many bytes arenas may have in the memory of each device; 0: any number. What other devices
/// copy from and to is memory of the host.
class ArenaLimits {
 public:
  ArenaLimits(std::uint64_t host = 0) : bytes_{host} {}

  std::size_t size() const { return bytes_.size(); }
  std::uint64_t of(DeviceId d) const { return d < bytes_.size() ? bytes_[d] : 0; }
  void set(DeviceId d, std::uint64_t bytes) {
    bytes_.resize(std::max<std::size_t>(bytes_.size(), d + 1U), 0);
    bytes_[d] = bytes;
  }
  bool allow(DeviceId d, std::uint64_t bytes) const { return of(d) == 0 || bytes <= of(d); }
  bool hold(const MemoryPlan& plan) const;

 private:
  std::vector<std::uint64_t> bytes_;  // by DeviceId
};

/// A schedule with its plan; serves every set of sizes whose buffers are each no larger.
struct Planned {
  Schedule schedule;
  MemoryPlan plan;
  CallKind kind;
  std::vector<std::string> recomputed;    // tasks that run again
  double seconds = 0, plain_seconds = 0;  // predicted: of this plan, and if nothing ran again
  std::vector<std::uint64_t> bounds;      // by DeviceId: no plan of these tasks has less there
};

enum class PackEffort : std::uint8_t {
  Quick,     // first fit in a few orders: inside of searches
  Thorough,  // and a search where that leaves a gap: for plans that are kept
};

/// Places buffers so that those alive at the same time do not overlap; in-place buffers share.
/// Deterministic; thorough plans are never higher than quick ones.
MemoryPlan pack(const Schedule& schedule, PackEffort effort = PackEffort::Quick);

/// By DeviceId, the largest sums of live bytes of its arenas, as ArenaPlan has them, without
/// packing.
std::vector<std::uint64_t> loads_of(const Schedule& schedule);

/// Knows nothing of the packer: no two live buffers overlap, all lie inside the arena. An internal
/// error names the pair.
void verify(const Schedule& schedule, const MemoryPlan& plan);

}  // namespace snug
