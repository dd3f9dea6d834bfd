#include "exec/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/kept_blocks.h"
#include "base/spelling.h"
#include "target/free_memory.h"

namespace snug {
namespace {
std::uint64_t page() {
  static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

Arena::~Arena() { unmap(); }

void Arena::unmap() {
  if (data_) munmap(data_, bytes_ + page());
  data_ = nullptr;
  bytes_ = 0;
}

std::uint64_t Arena::mapped_for(std::uint64_t bytes) {
  return (bytes + page() - 1) / page() * page();
}

std::uint64_t Arena::most_to_map() {
  const MemoryAccount account = memory_account();
  const std::uint64_t left =
      account.budget > account.total() ? account.budget - account.total() : 0;
  constexpr std::uint64_t kUnknown = INT64_MAX;
  return std::min({free_for_data(), account.budget ? left : kUnknown, kUnknown}) / page() * page();
}

std::uint64_t Arena::mapped_in_process() { return memory_account().arenas; }

void Arena::ensure(std::uint64_t bytes, std::string_view whose) {
  if (bytes <= bytes_) return;
  const std::uint64_t rounded = mapped_for(bytes);
  const std::string what = whose.empty() ? "the arena" : fmt::format("the arena of {}", whose);
  require_free_memory(rounded - bytes_, what);
  claim_.grow(rounded - bytes_, what);
  unmap();
  drop_kept_blocks();  // plans do not count them
  void* p =
      mmap(nullptr, rounded + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    claim_.drop();
    fail_memory({.needed = rounded},
                fmt::format("the system refused {} bytes for the arena", rounded),
                "free memory, use smaller batches, or give a budget: " + option("memory", "..."));
  }
  mprotect(static_cast<std::byte*>(p) + rounded, page(), PROT_NONE);
  prefer_huge_pages(p, rounded);
#ifdef MADV_POPULATE_WRITE
  bool populated = madvise(p, rounded, MADV_POPULATE_WRITE) == 0;
#else
  bool populated = false;
#endif
  if (!populated)
    for (std::uint64_t i = 0; i < rounded; i += page()) static_cast<volatile char*>(p)[i] = 0;
  data_ = static_cast<std::byte*>(p);
  bytes_ = rounded;
}

ArenaPool& ArenaPool::shared() {
  static ArenaPool* pool = [] {
    set_memory_reclaimer([] { shared().drop_idle(); });
    return new ArenaPool;  // lives as long as any function
  }();
  return *pool;
}

bool ArenaPool::wanted(const Arena& arena) const {
  return !claims_.empty() && arena.bytes() <= Arena::mapped_for(*claims_.rbegin());
}

ArenaPool::Idle::const_iterator ArenaPool::best_for(std::uint64_t bytes) const {
  auto better = [&](const Arena& a, const Arena& b) {
    const bool fits_a = a.bytes() >= bytes, fits_b = b.bytes() >= bytes;
    if (fits_a != fits_b) return fits_a;
    return fits_a ? a.bytes() < b.bytes() : a.bytes() > b.bytes();
  };
  auto best = idle_.begin();
  for (auto it = idle_.begin(); it != idle_.end(); ++it)
    if (better(**it, **best)) best = it;
  return best;
}

std::uint64_t ArenaPool::idle_for(std::uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto best = best_for(bytes);
  return best == idle_.end() ? 0 : (*best)->bytes();
}

void ArenaPool::drop_idle() {
  Idle dropped;  // unmapped after the lock
  std::lock_guard lock(mutex_);
  dropped.swap(idle_);
  idle_.reserve(dropped.capacity());  // what gives back must not fail
}

std::unique_ptr<Arena> ArenaPool::lease(std::uint64_t bytes, std::string_view whose) {
  std::unique_ptr<Arena> arena;
  {
    std::lock_guard lock(mutex_);
    if (const auto best = best_for(bytes); best != idle_.end()) {
      const auto at = idle_.begin() + (best - idle_.cbegin());
      arena = std::move(*at);
      idle_.erase(at);
    }
  }
  if (!arena) arena = std::make_unique<Arena>();
  try {
    arena->ensure(bytes, whose);
  } catch (...) {
    give_back(std::move(arena));
    throw;
  }
  return arena;
}

void ArenaPool::give_back(std::unique_ptr<Arena> arena) noexcept {
  std::lock_guard lock(mutex_);
  if (arena && arena->bytes() && wanted(*arena)) idle_.push_back(std::move(arena));
}

void ArenaPool::change_claim(std::uint64_t before, std::uint64_t after) {
  std::vector<std::unique_ptr<Arena>> unwanted;  // unmapped after the lock
  std::lock_guard lock(mutex_);
  if (before) claims_.erase(claims_.find(before));
  if (after) claims_.insert(after);
  idle_.reserve(claims_.size() + idle_.size() + 1);
  for (auto& arena : idle_)
    if (!wanted(*arena)) unwanted.push_back(std::move(arena));
  std::erase(idle_, nullptr);
}

}  // namespace snug
