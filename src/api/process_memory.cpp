#include "api/process_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/array.h"
#include "base/bytes.h"
#include "base/kept_blocks.h"
#include "base/spelling.h"
#include "exec/arena.h"
#include "exec/frontier_cache.h"
#include "exec/kept_plans.h"
#include "target/free_memory.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

std::string row(const char* what, std::int64_t bytes, const std::string& remark = {}) {
  return fmt::format("  {:<14} {:>11}{}{}\n", what,
                     describe_bytes(static_cast<std::uint64_t>(bytes)), remark.empty() ? "" : "   ",
                     remark);
}

}  // namespace

std::int64_t not_planned_bytes() {
  return std::max<std::int64_t>(0, resident_bytes() - live_storage_bytes() - kept_block_bytes() -
                                       static_cast<std::int64_t>(Arena::mapped_in_process()));
}

ProcessMemory process_memory() {
  ProcessMemory m;
  m.resident = resident_bytes();
  m.high_water = high_water_bytes();
  m.arrays = live_storage_bytes();
  m.arenas = static_cast<std::int64_t>(Arena::mapped_in_process());
  m.kept = kept_block_bytes();
  m.caches = kept_plan_bytes() + static_cast<std::int64_t>(FrontierCache::of_process().bytes());
  m.not_planned = not_planned_bytes();
  const FreeMemory free = free_memory();
  m.free = static_cast<std::int64_t>(std::min<std::uint64_t>(free.bytes, INT64_MAX));
  m.limit = free.limit;
  m.exports = live_exports();
  const MemoryAccount account = memory_account();
  m.budget = static_cast<std::int64_t>(account.budget);
  m.shared = static_cast<std::int64_t>(account.shared);
  m.loaders = static_cast<std::int64_t>(account.loaders);
  m.counted = static_cast<std::int64_t>(account.total());
  m.devices = device_memory_of_process();
  return m;
}

std::string ProcessMemory::describe() const {
  std::string text;
  text += row("arrays", arrays,
              fmt::format("shared variables ({}), constants and other arrays",
                          describe_bytes(static_cast<std::uint64_t>(shared))));
  text += row("arenas", arenas, "of functions");
  text += row("kept", kept, "freed arrays, for the next ones; given back when they are needed");
  text += row("not planned", not_planned,
              fmt::format("{}; kept plans have {}",
                          spelled("process, code, libraries",
                                  "process, code, libraries, Python and its arrays"),
                          describe_bytes(static_cast<std::uint64_t>(caches))));
  text +=
      row("resident", resident,
          fmt::format("at most {} so far", describe_bytes(static_cast<std::uint64_t>(high_water))));
  text += row("free", free, limit);
  if (budget > 0)
    text += row("budget", budget,
                fmt::format("{} taken by shared variables, arenas and loaders ({})",
                            describe_bytes(static_cast<std::uint64_t>(counted)),
                            describe_bytes(static_cast<std::uint64_t>(loaders))));
  for (const DeviceMemoryUse& d : devices) {
    constexpr std::size_t kShown = 5;
    std::string whose;
    for (std::size_t k = 0; k < d.owners.size() && k < kShown; ++k)
      whose += fmt::format("{}{} {}", k ? ", " : "", d.owners[k].first,
                           describe_bytes(d.owners[k].second));
    if (d.owners.size() > kShown) whose += fmt::format(" and {} more", d.owners.size() - kShown);
    text += row(
        d.device.c_str(), static_cast<std::int64_t>(d.claimed),
        fmt::format("{}{}{}{}", d.limit ? "of " + describe_bytes(d.limit) : std::string("taken"),
                    d.budget ? ", budget " + describe_bytes(d.budget) : std::string(),
                    whose.empty() ? "" : ": ", whose));
  }
  for (const Export& e : exports)
    text += fmt::format("  held by others: {} of {}{}\n",
                        describe_bytes(static_cast<std::uint64_t>(e.bytes)),
                        e.name.empty() ? "a shared variable" : e.name,
                        e.current ? "" : ", which has no use of it any more");
  return text;
}

}  // namespace snug
