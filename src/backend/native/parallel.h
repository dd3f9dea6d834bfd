#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "exec/executor.h"

namespace snug::native {

/// Less work than this (in elements touched, or multiply-adds) runs on the calling thread.
inline constexpr std::int64_t kParallelWork = 64 * 1024;

/// Calls f(slot, begin, end) on parts of [0, count), one per thread, cut by count and threads
/// alone. Slots are numbers below `threads`; no two parts that run at once have the same. Off the
/// executor, which alone has a pool, it is one part. The team has one size, whatever the count:
/// OpenMP ends the threads that a smaller one leaves out.
template <class F>
void parallel_slots(std::int64_t count, std::int64_t work, int threads, F&& f) {
  if (threads <= 1 || count <= 1 || work < kParallelWork || !on_executor()) {
    if (count > 0) f(std::int64_t{0}, std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t n = omp_get_num_threads(), t = omp_get_thread_num();
    const std::int64_t begin = count * t / n, end = count * (t + 1) / n;
    if (begin < end) f(t, begin, end);
  }
}
template <class F>
void parallel_ranges(std::int64_t count, std::int64_t work, int threads, F&& f) {
  parallel_slots(count, work, threads,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) { f(begin, end); });
}

/// Threads of a library call that runs now.
inline int threads_here(int threads) { return on_executor() ? threads : 1; }

/// Libraries on OpenMP take their number of threads from the calling thread's setting. It belongs
/// to this thread alone, so this costs a store.
class OmpThreads {
 public:
  explicit OmpThreads(int threads) : saved_(omp_get_max_threads()) {
    if (threads != saved_) omp_set_num_threads(threads);
  }
  ~OmpThreads() {
    if (omp_get_max_threads() != saved_) omp_set_num_threads(saved_);
  }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int saved_;
};

}  // namespace snug::native
