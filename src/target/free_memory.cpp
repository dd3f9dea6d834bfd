#include "target/free_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/bytes.h"
#include "base/control_groups.h"
#include "base/error.h"
#include "base/kept_blocks.h"
#include "base/spelling.h"

namespace snug {
namespace {

/// The number behind `key` in lines "key 123" or "key: 123 kB".
std::optional<std::uint64_t> number_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const char* rest = line.c_str() + key.size();
    if (*rest == ':') ++rest;
    if (*rest != ' ' && *rest != '\t') continue;
    char* end = nullptr;
    const std::uint64_t n = std::strtoull(rest, &end, 10);
    if (end != rest) return std::strncmp(end, " kB", 3) == 0 ? n * 1024 : n;
  }
  return std::nullopt;
}

/// A file that is one number; "max" is none.
std::optional<std::uint64_t> whole_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t n = 0;
  if (file >> n) return n;
  return std::nullopt;
}

std::uint64_t less(std::uint64_t limit, std::uint64_t used) {
  return limit > used ? limit - used : 0;
}

/// Names of the files of the two versions of control groups.
struct GroupNames {
  const char *limit, *used, *inactive, *active;
};
constexpr GroupNames kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file", "total_active_file"};
constexpr GroupNames kVersion2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

void look_at_group(const ControlGroup& group, FreeMemory& least) {
  const GroupNames& names = group.version == 1 ? kVersion1 : kVersion2;
  const auto limit = whole_number(group.folder + names.limit),
             used = whole_number(group.folder + names.used);
  if (!limit || !used) return;
  std::uint64_t free = less(*limit, *used);
  for (const char* files : {names.inactive, names.active})
    if (auto cached = number_of(group.folder + "memory.stat", files)) free += *cached;
  free = std::min(free, *limit);
  if (free < least.bytes)
    least = {free, fmt::format("the limit of the control group {}", group.name)};
}

void look_at_process(int resource, const char* name, const char* key, const MemoryFiles& files,
                     FreeMemory& least) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (auto used = number_of(files.status, key))
    if (std::uint64_t free = less(limit.rlim_cur, *used); free < least.bytes) least = {free, name};
}

}  // namespace

FreeMemory free_memory(const MemoryFiles& files) {
  FreeMemory least;
  if (auto bytes = number_of(files.meminfo, "MemAvailable"))
    least = {*bytes, "the memory of the machine"};
  for (const ControlGroup& group : control_groups("memory", {files.group, files.groups}))
    look_at_group(group, least);
  look_at_process(RLIMIT_AS, "RLIMIT_AS", "VmSize", files, least);
  look_at_process(RLIMIT_DATA, "RLIMIT_DATA", "VmData", files, least);
  return least;
}

namespace {

/// The least that the machine and the control groups give to the process in all.
std::uint64_t memory_of_others() {
  std::uint64_t least = number_of("/proc/meminfo", "MemTotal").value_or(UINT64_MAX);
  for (const ControlGroup& group : control_groups("memory"))
    if (auto limit =
            whole_number(group.folder + (group.version == 1 ? kVersion1.limit : kVersion2.limit)))
      least = std::min(least, *limit);
  return least;
}

std::uint64_t recent_memory_of_others() {
  static std::atomic<std::int64_t> looked_at{-1};
  static std::atomic<std::uint64_t> least{0};
  const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::steady_clock::now().time_since_epoch())
                               .count();
  if (looked_at != now) {
    least = memory_of_others();
    looked_at = now;
  }
  return least;
}

}  // namespace

std::uint64_t share_to_keep() {
  constexpr std::uint64_t kMost = std::uint64_t{512} << 20, kShare = 16;
  std::uint64_t all = recent_memory_of_others();
  rlimit limit{};
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA})
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      all = std::min<std::uint64_t>(all, limit.rlim_cur);
  return std::min(kMost, all / kShare);
}

namespace {

/// For small allocations of libraries and of the rest of the process, which nobody asks before.
/// Libraries do not survive if they get none.
constexpr std::uint64_t kReserve = std::uint64_t{16} << 20;
/// A control group counts what is touched, and that is also what OpenBLAS packs into its buffers.
constexpr std::uint64_t kGroupReserve = std::uint64_t{48} << 20;

bool is_limited() {
  rlimit limit{};
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA})
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return true;
  return false;
}

std::string free_text(const FreeMemory& free) {
  return fmt::format("{} ({} bytes) are free: {}", describe_bytes(free.bytes), free.bytes,
                     free.limit);
}

std::uint64_t reserve_of(const FreeMemory& free) {
  if (free.limit.starts_with("RLIMIT")) return kReserve;
  return free.limit.starts_with("the limit of the control group") ? kGroupReserve : 0;
}

std::uint64_t for_data(const FreeMemory& free) { return less(free.bytes, reserve_of(free)); }

}  // namespace

std::uint64_t free_for_data() {
  drop_kept_blocks();
  return for_data(free_memory());
}

void require_free_memory(std::uint64_t bytes, const std::string& what) {
  FreeMemory free = free_memory();
  if (bytes > for_data(free) && drop_kept_blocks() > 0) free = free_memory();
  if (bytes <= for_data(free)) return;
  fail_memory({.needed = bytes, .allowed = for_data(free)},
              fmt::format("{} needs {} ({} bytes), but {} ({} bytes) are free{}: {}", what,
                          describe_bytes(bytes), bytes, describe_bytes(free.bytes), free.bytes,
                          reserve_of(free) ? fmt::format(", {} of them for libraries and threads",
                                                         describe_bytes(reserve_of(free)))
                                           : "",
                          free.limit),
              "free memory, use a smaller batch, or give a budget: " + option("memory", "..."));
}

namespace {

bool has_room_now(Room room) {
  if (room.touched && free_memory().bytes < room.touched + kReserve) return false;
  if (!is_limited()) return true;
  // Mapping is what libraries do, and counts against both limits; nothing is touched.
  const std::size_t size = room.mapped + kReserve;
  void* const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, size);
  return true;
}

}  // namespace

bool has_room(Room room) {
  return has_room_now(room) || (drop_kept_blocks() > 0 && has_room_now(room));
}

void require_room(Room room, std::string_view what) {
  if (has_room(room)) return;
  const std::uint64_t bytes = std::max(room.mapped, room.touched);
  fail(Fault::Memory,
       fmt::format("{} needs {}{}, but {}", what,
                   bytes ? fmt::format("{} ({} bytes) and ", describe_bytes(bytes), bytes) : "",
                   fmt::format("a reserve of {}", describe_bytes(kReserve)),
                   free_text(free_memory())),
       "raise the limit of the process, or free memory");
}

void fail_for_lack_of_memory(std::string_view what) {
  fail(Fault::Memory, fmt::format("{}: an allocation failed, {}", what, free_text(free_memory())),
       "raise the limit of the process, free memory, or use a smaller batch");
}

std::int64_t resident_bytes() {
  return static_cast<std::int64_t>(number_of("/proc/self/status", "VmRSS").value_or(0));
}

std::int64_t high_water_bytes() {
  return static_cast<std::int64_t>(number_of("/proc/self/status", "VmHWM").value_or(0));
}

}  // namespace snug
