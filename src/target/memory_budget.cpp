#include "target/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/kept_blocks.h"
#include "base/spelling.h"
#include "target/free_memory.h"
#include "target/settings.h"

namespace snug {
namespace {

constexpr std::size_t kKinds = 3;
BriefMutex mutex;  // guards claimed
std::array<std::uint64_t, kKinds> claimed{};
std::atomic<void (*)()> reclaimer{nullptr};
thread_local int unlimited = 0;

std::atomic<std::uint64_t>& limit() {
  static std::atomic<std::uint64_t> bytes{settings().memory.for_device("cpu")};
  return bytes;
}

/// Of other devices than the host; guarded by the mutex.
BudgetText& device_limits() {
  static BudgetText budgets = settings().memory;
  return budgets;
}

MemoryAccount account_locked() {
  MemoryAccount a;
  a.budget = limit();
  a.shared = claimed[0] + static_cast<std::uint64_t>(shared_storage_bytes());
  a.arenas = claimed[1];
  a.loaders = claimed[2];
  a.kept = static_cast<std::uint64_t>(kept_block_bytes());
  return a;
}

bool fits(const MemoryAccount& a, std::uint64_t more) {
  return a.budget == 0 || unlimited > 0 || more == 0 ||
         (a.total() + a.kept <= a.budget && more <= a.budget - a.total() - a.kept);
}

[[noreturn]] void refuse(const MemoryAccount& a, std::uint64_t more, std::string_view what) {
  const std::uint64_t room = a.total() < a.budget ? a.budget - a.total() : 0;
  fail_memory(
      {.needed = more, .allowed = room},
      fmt::format("{} needs {} ({} bytes), but the budget of the process, {}, leaves {} ({} "
                  "bytes): shared variables have {}, arenas {}, loaders {}",
                  what, describe_bytes(more), more, describe_bytes(a.budget), describe_bytes(room),
                  room, describe_bytes(a.shared), describe_bytes(a.arenas),
                  describe_bytes(a.loaders)),
      fmt::format("let go of variables, functions or loaders, use a smaller batch, or raise {}",
                  process_budget_name()));
}

/// Calls `take` under the lock once the budget allows `more`.
template <class F>
void when_it_fits(std::uint64_t more, std::string_view what, F&& take) {
  for (int asked = 0;; ++asked) {
    {
      std::lock_guard lock(mutex);
      MemoryAccount a = account_locked();
      if (asked > 0) a.kept = 0;  // what others have freed meanwhile gives way, too
      if (fits(a, more)) return take();
      if (asked == 2) refuse(a, more, what);
    }
    if (asked == 0)
      drop_kept_blocks();
    else if (auto* reclaim = reclaimer.load())
      reclaim();
  }
}

/// How many bytes of freed blocks may be kept: a share of what the process may have, within its
/// budget.
std::int64_t most_to_keep() try {
  const std::uint64_t most = share_to_keep();
  const MemoryAccount a = memory_account();
  if (a.budget == 0) return static_cast<std::int64_t>(most);
  const std::uint64_t left = a.budget > a.total() ? a.budget - a.total() : 0;
  return static_cast<std::int64_t>(std::min(most, left));
} catch (const std::bad_alloc&) {
  return 0;
}

[[maybe_unused]] const bool bounded = (set_kept_bound(most_to_keep), true);

}  // namespace

MemoryAccount memory_account() {
  std::lock_guard lock(mutex);
  return account_locked();
}

void set_memory_budget(std::uint64_t bytes) {
  limit() = bytes;
  BudgetText budgets{bytes, {}};
  const std::lock_guard lock(mutex);
  std::swap(device_limits(), budgets);
}

void set_memory_budget(const std::string& text) {
  BudgetText budgets = parse_budget_text(text);
  limit() = budgets.for_device("cpu");
  const std::lock_guard lock(mutex);
  std::swap(device_limits(), budgets);
}

std::uint64_t device_memory_budget(std::string_view device) {
  if (unlimited > 0) return 0;
  const std::lock_guard lock(mutex);
  return device_limits().for_device(device);
}

std::uint64_t memory_budget() { return unlimited > 0 ? 0 : limit().load(); }
void set_memory_reclaimer(void (*reclaim)()) { reclaimer = reclaim; }

void MemoryClaim::grow(std::uint64_t more, std::string_view what) {
  when_it_fits(more, what, [&] { claimed[static_cast<std::size_t>(kind_)] += more; });
  bytes_ += more;
}

void MemoryClaim::drop() noexcept {
  if (bytes_ == 0) return;
  std::lock_guard lock(mutex);
  claimed[static_cast<std::size_t>(kind_)] -= std::exchange(bytes_, 0);
}

void require_memory_budget(std::uint64_t bytes, std::string_view what) {
  when_it_fits(bytes, what, [] {});
}

WithoutMemoryBudget::WithoutMemoryBudget() { ++unlimited; }
WithoutMemoryBudget::~WithoutMemoryBudget() { --unlimited; }

}  // namespace snug
