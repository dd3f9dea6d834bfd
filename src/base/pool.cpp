#include "base/pool.h"

#include <linux/futex.h>
#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/alone_or_together.h"
#include "base/fork.h"
#include "base/threads.h"

namespace snug {
namespace {

/// Longer takes time from others on a busy machine; shorter, and threads sleep between the steps of
/// a call.
constexpr std::chrono::microseconds kSpin{30};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `done()`, for kSpin at most.
template <class F>
bool spin_until(F&& done) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  static_assert(sizeof word == 4);
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// Limits of the process have room for a stack, and for more than that: a thread and libgomp, which
/// ends the process where it gets nothing, allocate as it starts.
bool room_for_thread() {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  void* const room =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  munmap(room, kBytes);
  return true;
}

/// This thread works on a chunk, or waits for chunks.
thread_local bool inside = false;

}  // namespace

class Pool {
 public:
  /// Not destroyed: threads outlive statics.
  static Pool& instance() {
    static Pool& pool = *new Pool;
    return pool;
  }

  int threads(int wanted) {
    const int asked = std::min(wanted, kMostThreads);
    if (asked > started_) {
      const std::lock_guard lock(growing_);
      try {
        for (int next; (next = started_) < std::min(asked, most_.load()); ++started_) {
          if (!room_for_thread()) throw std::system_error(ENOMEM, std::generic_category());
          std::thread([this, next] { serve(next); }).detach();
          ready_.wait(next - 1);  // it has allocated what it needs
          ++awake_;
        }
      } catch (const std::system_error&) {
        most_ = started_.load();
      }
    }
    const int have = std::max(1, std::min(asked, started_.load()));
    if (have < asked)
      warn_of_fewer_threads(static_cast<std::size_t>(asked), static_cast<std::size_t>(have));
    return have;
  }

  void run(std::int64_t chunks, std::int64_t amount, int threads, ChunkWork work) {
    threads = std::min(threads, started_.load(std::memory_order_relaxed));
    const bool wake = amount >= kParallelWork;
    if (threads <= 1 || chunks <= 1 || inside ||
        (!wake && awake_.load(std::memory_order_relaxed) <= 0) ||
        busy_.exchange(true, std::memory_order_acquire))
      return work(0, 0, chunks);
    struct Leave {
      Pool& pool;
      ~Leave() {
        inside = false;
        pool.busy_.store(false, std::memory_order_release);
      }
    } const leave{*this};
    inside = true;
    if (!choice_.watches()) return run_together(chunks, wake, threads, work);
    const std::uint64_t kind = kind_of(chunks, amount, work);
    const Seconds start = now();
    if (choice_.together(kind))
      run_together(chunks, wake, threads, work);
    else
      work(0, 0, chunks);
    choice_.did(kind, (now() - start).count());
  }

  /// A child has none of the threads.
  static void start_over(void* self) {
    Pool& p = *static_cast<Pool*>(self);
    p.started_ = 1;
    p.ready_ = p.awake_ = 0;
    p.most_ = INT_MAX;
    for (Helper& h : p.helpers_) h.asleep = 0, h.core = -1;
    ++p.generation_;  // chunks that others had begun are nobody's
    if (!inside) {
      p.busy_ = false;
      p.choice_ = {};
    }
  }

 private:
  Pool() : hook_(start_over, this) {}

  /// generation << 32 | chunks left. A thread that comes late has another generation, and a chunk
  /// that is taken says that the work it belongs to is not done: so what was read of it before
  /// holds.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> ticket{0};
  };
  struct alignas(64) Helper {
    std::atomic<std::uint32_t> asleep{0};
    std::atomic<int> core{-1};  // where it was last; -1: it sleeps
  };
  static constexpr std::uint32_t kSleeping = std::uint32_t{1} << 31;

  /// Work of the same kind takes about as long.
  static std::uint64_t kind_of(std::int64_t chunks, std::int64_t amount, ChunkWork work) {
    const auto mixed = static_cast<std::uint64_t>(amount) * 0xbf58476d1ce4e5b9 ^
                       static_cast<std::uint64_t>(chunks) * 0x94d049bb133111eb;
    return mixed ^ reinterpret_cast<std::uintptr_t>(work.call_);
  }

  using Seconds = std::chrono::duration<double>;
  static Seconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

  void run_together(std::int64_t chunks, bool wake, int threads, ChunkWork work) {
    const std::uint32_t generation = publish(chunks, threads, wake, work);
    wake_below(0);
    const Seconds start = now();
    const std::uint32_t done = help(0, generation);
    const Seconds own = now() - start;
    wait();
    // Longer than chunks take: a thread lost its core.
    constexpr Seconds kLong{1e-3};
    const Seconds all = now() - start, waited = all - own;
    const bool lost = waited > kLong + 2 * own / std::max(done, 1U);
    choice_.took(all.count(), lost ? waited.count() : 0);
    if (failed_.load(std::memory_order_relaxed))
      std::rethrow_exception(std::exchange(error_, nullptr));
  }

  int shares(std::int64_t chunks, int threads) const {
    return static_cast<int>(std::min<std::int64_t>(chunks, threads));
  }

  std::uint32_t publish(std::int64_t chunks, int threads, bool wake, ChunkWork work) {
    const std::uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
    object_.store(work.object_, std::memory_order_relaxed);
    call_.store(work.call_, std::memory_order_relaxed);
    chunks_.store(chunks, std::memory_order_relaxed);
    threads_.store(threads, std::memory_order_relaxed);
    wakes_.store(wake, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    left_.store(static_cast<std::uint32_t>(chunks), std::memory_order_relaxed);
    const int n = shares(chunks, threads);
    for (int s = 0; s < n; ++s) {
      const std::int64_t size = chunks * (s + 1) / n - chunks * s / n;
      shares_[s].ticket.store(std::uint64_t{generation} << 32 | static_cast<std::uint64_t>(size),
                              std::memory_order_release);
    }
    helpers_[0].core.store(sched_getcpu(), std::memory_order_relaxed);
    generation_.store(generation);  // before `asleep` is read
    return generation;
  }

  /// The system may wake a thread on the core of another one of these, and leave both there for
  /// tens of milliseconds while a core is idle. The one that came later moves.
  void leave_shared_core(int self, Seconds& moved) {
    const int core = sched_getcpu();
    helpers_[self].core.store(core, std::memory_order_relaxed);
    const auto is_there = [&](const Helper& h) { return h.core.load() == core; };
    if (std::none_of(helpers_, helpers_ + self, is_there)) return;
    constexpr Seconds kRest{1e-3};
    const Seconds time = now();
    if (time - moved < kRest) return;
    moved = time;
    cpu_set_t all, others;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return;
    others = all;
    for (int i = 0; i < started_; ++i)
      if (const int taken = helpers_[i].core; i != self && taken >= 0) CPU_CLR(taken, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
    helpers_[self].core.store(sched_getcpu(), std::memory_order_relaxed);
    sched_setaffinity(0, sizeof all, &all);
  }

  /// The threads that thread `self` wakes, so that many are woken by many.
  void wake_below(int self) {
    if (!wakes_.load(std::memory_order_relaxed)) return;
    const int n =
        shares(chunks_.load(std::memory_order_relaxed), threads_.load(std::memory_order_relaxed));
    for (int i = 2 * self + 1; i <= 2 * self + 2 && i < n; ++i)
      if (helpers_[i].asleep.exchange(0)) {
        ++awake_;
        futex_wake(helpers_[i].asleep);
      }
  }

  /// Takes chunks of `generation` until there are none; how many.
  std::uint32_t help(int self, std::uint32_t generation) {
    ChunkWork work;
    work.object_ = object_.load(std::memory_order_relaxed);
    work.call_ = call_.load(std::memory_order_relaxed);
    const std::int64_t chunks = chunks_.load(std::memory_order_relaxed);
    const int n = shares(chunks, threads_.load(std::memory_order_relaxed));
    std::uint32_t done = 0;
    for (int k = 0; k < n; ++k) {
      const int s = (self + k) % n;
      const std::int64_t end = chunks * (s + 1) / n;
      std::uint64_t ticket = shares_[s].ticket.load(std::memory_order_acquire);
      while (ticket >> 32 == generation && static_cast<std::uint32_t>(ticket) > 0) {
        if (!shares_[s].ticket.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                                     std::memory_order_acquire))
          continue;
        const std::int64_t chunk = end - static_cast<std::uint32_t>(ticket);
        if (!failed_.load(std::memory_order_relaxed)) try {
            work(self, chunk, chunk + 1);
          } catch (...) {
            if (!failed_.exchange(true)) error_ = std::current_exception();
          }
        ++done;
        ticket = shares_[s].ticket.load(std::memory_order_acquire);
      }
    }
    if (done > 0 && left_.fetch_sub(done, std::memory_order_acq_rel) - done == kSleeping)
      futex_wake(left_);
    return done;
  }

  /// Until all chunks are done.
  void wait() {
    const auto done = [&] { return left_.load(std::memory_order_acquire) == 0; };
    if (spin_until(done)) return;
    std::uint32_t left = left_.load(std::memory_order_acquire);
    while ((left & ~kSleeping) != 0) {
      if (left & kSleeping || left_.compare_exchange_strong(left, left | kSleeping))
        futex_wait(left_, left | kSleeping);
      left = left_.load(std::memory_order_acquire);
    }
  }

  void serve(int self) {
    inside = true;           // what a chunk brings is done by its thread
    omp_set_num_threads(1);  // for libraries, on this thread alone
    ready_.store(self);
    ready_.notify_one();
    Helper& me = helpers_[self];
    std::uint32_t seen = 0;
    Seconds moved{};
    const auto news = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    bool rests = false;
    for (;;) {
      while (std::exchange(rests, false) || !spin_until(news)) {
        --awake_;
        me.core.store(-1);
        me.asleep.store(1);
        if (generation_.load() == seen) {
          while (me.asleep.load() == 1) futex_wait(me.asleep, 1);  // who wakes it counts it
        } else if (me.asleep.exchange(0)) {
          ++awake_;
        }
      }
      seen = generation_.load(std::memory_order_acquire);
      rests = self >= threads_.load(std::memory_order_relaxed);
      if (rests) continue;
      wake_below(self);
      leave_shared_core(self, moved);
      help(self, seen);
    }
  }

  std::atomic<int> started_{1}, most_{INT_MAX};  // threads, with the one that brings work
  std::atomic<int> ready_{0};                    // the last thread that runs
  std::atomic<int> awake_{0};
  std::atomic<bool> busy_{false};
  AloneOrTogether choice_;  // for who has `busy_`

  // The work of a generation.
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<void*> object_{nullptr};
  std::atomic<void (*)(void*, int, std::int64_t, std::int64_t)> call_{nullptr};
  std::atomic<std::int64_t> chunks_{0};
  std::atomic<int> threads_{1};
  std::atomic<bool> wakes_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  alignas(64) std::atomic<std::uint32_t> left_{0};  // chunks that are not done, and kSleeping

  Share shares_[kMostThreads];
  Helper helpers_[kMostThreads];
  BriefMutex growing_;
  ForkHook hook_;
};

int pool_threads(int wanted) { return Pool::instance().threads(wanted); }

void run_chunks(std::int64_t chunks, std::int64_t amount, int threads, ChunkWork work) {
  Pool::instance().run(chunks, amount, threads, work);
}

}  // namespace snug
