#pragma once
#include <algorithm>
#include <cstdint>

namespace snug {

// One pool of threads does all parallel work of the process. Work is cut into chunks; a thread
// takes one at a time, first of its own share, then of the shares of others, and the thread that
// brings the work takes part. So it waits only for chunks that have begun, and a thread that lost
// its core holds up one chunk. Threads that find nothing to do spin for some microseconds, then
// sleep.
//
// Work that comes while the pool works for another thread, or from inside a chunk, is done by the
// thread that brings it; so is all work while that is faster (alone_or_together.h). A child of fork
// starts with no threads.

/// The threads that work can be done on, this one included: at most `wanted`. Those that are
/// missing are started; a warning, once, if the system starts fewer.
int pool_threads(int wanted);

/// A view of a callable f(slot, begin, end); valid while the callable lives.
class ChunkWork {
 public:
  template <class F>
  ChunkWork(F& f)
      : object_(&f), call_([](void* o, int slot, std::int64_t begin, std::int64_t end) {
          (*static_cast<F*>(o))(slot, begin, end);
        }) {}
  void operator()(int slot, std::int64_t begin, std::int64_t end) const {
    call_(object_, slot, begin, end);
  }

 private:
  friend class Pool;
  ChunkWork() = default;
  void* object_ = nullptr;
  void (*call_)(void*, int, std::int64_t, std::int64_t) = nullptr;
};

/// Work, in elements touched or what takes as long, from which threads that are awake help, and
/// from which those that sleep are woken, which costs some 7 us.
inline constexpr std::int64_t kAwakeWork = 16 * 1024, kParallelWork = 64 * 1024;

/// Does every chunk of [0, chunks) once, in ranges, on at most `threads` threads; slots are numbers
/// below `threads` that no two threads have at once. What a chunk throws is thrown here, and chunks
/// that have not begun are left out. `amount`: the work of all chunks.
void run_chunks(std::int64_t chunks, std::int64_t amount, int threads, ChunkWork work);

/// Calls f(slot, begin, end) for parts of [0, count) on at most `threads` threads of the pool.
/// Parts start at multiples of `grain`, and are more than there are threads where that pays, so
/// that a thread that is free takes over: what is computed must not depend on how it is cut.
template <class F>
void parallel_slots(std::int64_t count, std::int64_t work, int threads, F&& f,
                    std::int64_t grain = 1) {
  constexpr std::int64_t kChunksPerThread = 8;
  const std::int64_t units = (count + grain - 1) / grain;
  if (threads <= 1 || units <= 1 || work < kAwakeWork) {
    if (count > 0) f(0, std::int64_t{0}, count);
    return;
  }
  const std::int64_t chunks =
      std::min({units, std::max<std::int64_t>(work / kAwakeWork, 2), threads * kChunksPerThread});
  auto range = [&](int slot, std::int64_t first, std::int64_t last) {
    const std::int64_t begin = units * first / chunks * grain, end = units * last / chunks * grain;
    f(slot, begin, std::min(end, count));
  };
  run_chunks(chunks, work, threads, range);
}
template <class F>
void parallel_ranges(std::int64_t count, std::int64_t work, int threads, F&& f) {
  parallel_slots(count, work, threads,
                 [&](int, std::int64_t begin, std::int64_t end) { f(begin, end); });
}

}  // namespace snug
