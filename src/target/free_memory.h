#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

/// Where the system says what memory there is; tests give files of their own.
struct MemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string status = "/proc/self/status";
  std::string group = "/proc/self/cgroup";
  std::string groups = "/sys/fs/cgroup";
};

/// How much more memory this process may take, and what limits it: "the memory of the machine",
/// "the limit of the control group /a/b", "RLIMIT_DATA".
struct FreeMemory {
  std::uint64_t bytes = UINT64_MAX;  // if nothing is known
  std::string limit;
};

/// The least of: memory that the machine can give without swapping; for the control group of the
/// process and each around it (version 1 and 2) its limit less what it has, where cached files
/// count as free; the limits of the process on address space and data.
FreeMemory free_memory(const MemoryFiles& files = {});

/// Of it what may go to arenas and variables: libraries need some of what a limit of the process or
/// of its control group leaves. What is kept (base/kept_blocks.h) is given back before, as it is
/// wherever something is not free.
std::uint64_t free_for_data();

/// How many bytes of freed blocks (base/kept_blocks.h) may be kept: at most 512 MiB, and a 16th of
/// each limit on the memory of this process. Limits of others (machine, control groups) are looked
/// at once a second.
std::uint64_t share_to_keep();

/// A Memory error if `bytes` more are not free: what needs them, how much is free and what limits
/// it. A guess for the good of the user: others take and free memory, too.
void require_free_memory(std::uint64_t bytes, const std::string& what);

/// What libraries are about to take (code, buffers, stacks of threads). Limits of the process
/// (RLIMIT_AS, RLIMIT_DATA) count what is mapped, control groups what is touched.
struct Room {
  std::uint64_t mapped = 0, touched = 0;
};

/// To be asked right before they do: a Memory error unless all limits leave that and a reserve for
/// what is small. For nothing but the reserve, control groups are not looked at, and without limits
/// of the process it costs two calls of the system.
void require_room(Room room, std::string_view what);
bool has_room(Room room);

/// The Memory error where an allocation has failed: what it was for, how much is free and what
/// limits it.
[[noreturn]] void fail_for_lack_of_memory(std::string_view what);

/// Resident bytes of this process, now and at most so far.
std::int64_t resident_bytes();
std::int64_t high_water_bytes();

}  // namespace snug
