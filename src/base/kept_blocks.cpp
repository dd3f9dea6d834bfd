#include "base/kept_blocks.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <span>

#include "base/fork.h"
#include "base/huge_pages.h"

namespace snug {
namespace {

// A use after free is caught where the block is gone.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

struct Kept {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;  // whole pages
  std::int64_t since = 0;  // seconds
};

std::atomic<std::int64_t> kept_bytes{0}, reuses{0};
std::atomic<std::int64_t (*)()> bound_of{nullptr};

std::int64_t whole_pages(std::int64_t bytes) {
  static const std::int64_t page = sysconf(_SC_PAGESIZE);
  return bytes / page * page + (bytes % page ? page : 0);
}

std::int64_t now_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec;
}

void unmap(std::byte* data, std::int64_t bytes) { munmap(data, static_cast<std::size_t>(bytes)); }

/// Those that are kept, oldest first. It takes no memory of its own: what gives back must not fail.
/// Blocks leave it under the lock and are unmapped after it, so that nobody waits for that.
class KeptBlocks {
 public:
  using List = std::array<Kept, 64>;

  /// The smallest that holds `bytes` and at most a quarter more.
  Kept take(std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    const Kept* best = nullptr;
    for (const Kept& k : all())
      if (k.bytes >= bytes && k.bytes - bytes <= bytes / 4 && (!best || k.bytes <= best->bytes))
        best = &k;
    if (!best) return {};
    const Kept found = *best;
    remove(static_cast<std::size_t>(best - list_.data()));
    return found;
  }

  /// Adds one and removes the oldest until all that is there keeps to `bound`; unmaps them.
  void add(const Kept& block, std::int64_t bound) {
    List gone;
    std::size_t dropped = 0;
    {
      std::lock_guard lock(mutex_);
      while (count_ == list_.size() || (count_ > 0 && kept_bytes + block.bytes > bound))
        gone[dropped++] = remove(0);
      list_[count_++] = block;
      kept_bytes += block.bytes;
    }
    unmap_all(gone, dropped);
  }

  /// Removes and unmaps what is kept since before `second`; the bytes.
  std::int64_t drop_before(std::int64_t second) {
    List gone;
    std::size_t dropped = 0;
    {
      std::lock_guard lock(mutex_);
      while (count_ > 0 && list_[0].since < second) gone[dropped++] = remove(0);
    }
    return unmap_all(gone, dropped);
  }

  static KeptBlocks& of_process() {
    static KeptBlocks& blocks = *new KeptBlocks;  // arrays may outlive statics
    return blocks;
  }

 private:
  KeptBlocks() : hook_(drop_in_child, this) {}

  /// A child would have to copy their pages before it could use them.
  static void drop_in_child(void* self) { static_cast<KeptBlocks*>(self)->drop_before(INT64_MAX); }

  std::span<const Kept> all() const { return {list_.data(), count_}; }

  Kept remove(std::size_t i) {
    const Kept block = list_[i];
    std::copy(list_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              list_.begin() + static_cast<std::ptrdiff_t>(count_),
              list_.begin() + static_cast<std::ptrdiff_t>(i));
    --count_;
    kept_bytes -= block.bytes;
    return block;
  }

  static std::int64_t unmap_all(const List& blocks, std::size_t count) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      unmap(blocks[i].data, blocks[i].bytes);
      bytes += blocks[i].bytes;
    }
    return bytes;
  }

  BriefMutex mutex_;
  List list_{};
  std::size_t count_ = 0;
  ForkHook hook_;
};

/// Made before threads are, one of which might fork while another makes it.
[[maybe_unused]] const KeptBlocks& made_at_start = KeptBlocks::of_process();

std::byte* map(std::int64_t bytes) {
  void* const p = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  prefer_huge_pages(p, static_cast<std::size_t>(bytes));
  return static_cast<std::byte*>(p);
}

}  // namespace

Block take_block(std::int64_t bytes) noexcept {
  const std::int64_t rounded = whole_pages(bytes);
  if (kept_bytes > 0) {
    const Kept kept = KeptBlocks::of_process().take(rounded);
    drop_old_blocks();
    if (kept.data) {
      if (kept.bytes > rounded) unmap(kept.data + rounded, kept.bytes - rounded);
      ++reuses;
      return {kept.data, false};
    }
  }
  std::byte* data = map(rounded);
  if (!data && drop_kept_blocks() > 0) data = map(rounded);
  return {data, true};
}

void give_block(std::byte* data, std::int64_t bytes, bool keep) noexcept {
  const std::int64_t rounded = whole_pages(bytes);
  auto* const ask = bound_of.load();
  const std::int64_t bound = kKeeps && keep && ask ? ask() : 0;
  if (rounded <= bound)
    KeptBlocks::of_process().add({data, rounded, now_seconds()}, bound);
  else
    unmap(data, rounded);
  drop_old_blocks();
}

std::int64_t kept_block_bytes() { return kept_bytes; }

std::int64_t drop_kept_blocks() noexcept {
  return kept_bytes > 0 ? KeptBlocks::of_process().drop_before(INT64_MAX) : 0;
}

void drop_old_blocks() noexcept {
  if (kept_bytes > 0) KeptBlocks::of_process().drop_before(now_seconds() - kKeptSeconds);
}

void set_kept_bound(std::int64_t (*bound)()) { bound_of = bound; }

std::int64_t reused_blocks() { return reuses; }

}  // namespace snug
