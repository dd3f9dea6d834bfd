#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/program.h"
#include "target/device_info.h"
#include "target/disk_rates.h"

namespace snug {

/// A memory that is planned: 0 is that of the host. Any other device has its own, and a part of the
/// host's that it copies from and to (staging).
using Space = std::uint8_t;
inline constexpr Space kHostSpace = 0;
inline constexpr std::size_t kMostSpaces = 2 * 64 + 1;  // of 64 devices
constexpr Space own_space(DeviceId d) {
  return d == 0 ? kHostSpace : static_cast<Space>(2 * d - 1);
}
constexpr Space staging_space(DeviceId d) { return static_cast<Space>(2 * d); }
constexpr DeviceId device_of(Space s) { return static_cast<DeviceId>((s + 1) / 2); }
constexpr bool on_host(Space s) { return s % 2 == 0; }
/// Whose memory it is in: what other devices copy from and to is the host's.
constexpr DeviceId memory_of(Space s) { return on_host(s) ? DeviceId{0} : device_of(s); }
/// Memories by their DeviceId, as bits.
using MemorySet = std::uint64_t;
inline constexpr MemorySet kHostMemory = 1;
constexpr bool in(MemorySet set, Space s) { return set >> memory_of(s) & 1; }

/// What runs steps in order, beside the others: 0 is the thread that calls; any other device has
/// three (as CommandQueues). Steps of others are asked for in order by that thread, and run later.
using QueueId = std::uint8_t;
inline constexpr QueueId kHostQueue = 0;
constexpr QueueId queue_of(DeviceId d, std::uint8_t queue) {
  return static_cast<QueueId>(3 * (d - 1) + 1 + queue);
}
constexpr DeviceId device_of_queue(QueueId q) {
  return q == kHostQueue ? DeviceId{0} : static_cast<DeviceId>((q - 1) / 3 + 1);
}
constexpr std::uint8_t number_of_queue(QueueId q) { return static_cast<std::uint8_t>((q - 1) % 3); }

/// Where the bytes of a buffer are.
enum class Where : std::uint8_t {
  Arena,     // planned by plan/, in its space; of an argument: its copy, there from the start
  Argument,  // the caller's array `index`
  Shared,    // storage of graph input `index`: a shared variable or the state of a loop
  Fresh,     // new storage for graph input `index`, swapped in when the call has succeeded
  Output,    // the caller's memory for output `index`
  Constant,  // value of node `index`
};

struct Buffer {
  Value value;  // what it holds; workspace: of no value
  Where where = Where::Arena;
  Space space = kHostSpace;  // the memory it is in
  std::uint32_t index = 0;
  std::uint64_t bytes = 0;
  std::uint32_t first = 0, last = 0;  // steps, both included; the buffer is alive in between
  std::int32_t in_place_of = -1;      // takes over the storage of that buffer at step `first`
  bool workspace = false;
};

struct Step {
  std::uint32_t task = 0;
  std::vector<std::uint32_t> reads, writes;   // buffers; writes as in the task
  std::int32_t workspace = -1;                // buffer
  std::vector<std::uint32_t> elsewhere = {};  // of a loop: its workspaces in other memories
  bool again = false;  // computes a second time what was dropped to save memory
  /// Copies buffer reads[0] into the storage of a shared variable (writes[0]); no task.
  bool commit_copy = false;
  QueueId queue = kHostQueue;
  /// Earlier steps of other queues that are done before this one begins. The calling thread waits
  /// itself for those of its own steps and for those of another device.
  std::vector<std::uint32_t> waits = {};
};

/// Takes a value to a file, or back from there into another buffer, beside the steps.
struct Transfer {
  std::uint32_t buffer = 0;
  bool store = true;         // to the file
  std::uint64_t offset = 0;  // in the file
  std::uint32_t begin = 0;   // may start before this step runs
  std::uint32_t end = 0;     // is done before this step runs
};

/// What offsets in a memory have to keep to.
struct SpaceRules {
  std::uint64_t slab = 0;  // no buffer lies across a multiple of it; 0: they may
  std::uint64_t alignment = 64;
};

/// The order of execution for one set of sizes. A value recomputed has two buffers, and so has one
/// that a file holds in between.
struct Schedule {
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  std::vector<Transfer> transfers;  // one after another, in this order: `begin` rises
  std::uint64_t file_bytes = 0;     // size of that file
  std::vector<SpaceRules> rules;    // by space; those that are missing are the usual ones
  /// First step that writes shared storage; steps.size() if none does. Every step that may fail
  /// comes before it, so a failed call leaves all shared variables as they were.
  std::uint32_t commit = 0;
  /// Proved: no order of the tasks, each once, has a lower peak of the bytes in values and
  /// workspaces (without what aligning them adds).
  bool best_order = false;

  SpaceRules rules_of(Space space) const {
    return space < rules.size() ? rules[space] : SpaceRules{};
  }
};

/// What decides a plan besides sizes.
struct CallKind {
  std::vector<bool> same_shape;  // per update: the new value has the shape of the old one
  /// Per argument: it is copied into the arena before the first step, as its memory is strided,
  /// not aligned, or storage that the call writes.
  std::vector<bool> copied;
  bool operator==(const CallKind&) const = default;
};

struct TaskSizes {
  std::vector<std::uint64_t> workspace;  // per task, bytes
  /// Per task: in other memories, as PreparedCall has it.
  std::vector<std::vector<std::pair<std::uint8_t, std::uint64_t>>> elsewhere = {};
  std::span<const std::int64_t> sizes;  // value of every size expression, at its bound
  CallKind kind;
  std::vector<double> loop_seconds = {};  // per task, predicted: of all iterations; 0: no loop
  const DeviceInfo* device = nullptr;     // whose rates predictions are for; null: this machine
  const DiskRates* disk = nullptr;        // of a file that values may go to; null: none
  std::vector<SpaceRules> rules = {};     // as Schedule has them
};

std::uint64_t bytes_of(const Program& program, std::span<const std::int64_t> sizes, Value v);

/// Orders the tasks for small memory: the best of all orders where the search for it ends, else of
/// program order, a greedy one, and the better with tasks moved forward that free much. Decides
/// which updates are written straight into shared storage, which are copied at the end and which
/// get new storage.
Schedule order(const Program& program, const TaskSizes& sizes);

/// The schedule of `order`, and one with another order that may be worth more where tasks run
/// again; that one is not verified.
std::vector<Schedule> orders(const Program& program, const TaskSizes& sizes);

/// The same decisions with the tasks in a given order; a task may stand in it twice (the second
/// time it computes again what the first one made). A number k behind those of the tasks reads
/// offloaded[k - tasks] back from a file, where it is written once it is made. Not verified: look
/// for faults.
Schedule order_as(const Program& program, const TaskSizes& sizes,
                  const std::vector<std::uint32_t>& runs, std::span<const Value> offloaded = {});

/// How many memories its buffers are in, counted from 0.
Space spaces_of(const Schedule& schedule);

/// Sorts transfers as they have to run.
void sort_transfers(Schedule& schedule);

/// Independent of `order`: every read comes after its write and sees the right version of shared
/// storage; nothing that may fail comes after the commit point; lifetimes cover all uses. Gives the
/// first fault, or "".
std::string find_fault(const Program& program, const Schedule& schedule);
/// An internal error if there is a fault.
void verify(const Program& program, const Schedule& schedule);

std::string print(const Program& program, const Schedule& schedule);

}  // namespace snug
