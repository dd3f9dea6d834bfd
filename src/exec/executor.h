#pragma once
#include <cstdint>

#include "base/threads.h"

namespace snug {

/// A view of a callable; valid while the callable lives.
class Work {
 public:
  template <class F>
  Work(F& f) : object_(&f), call_([](void* o) { (*static_cast<F*>(o))(); }) {}
  void operator()() const { call_(object_); }

 private:
  void* object_;
  void (*call_)(void*);
};

/// Runs `work` on the one thread that owns the OpenMP pool and waits. Exceptions come back. So many
/// calling threads share one pool. A child of fork gets a new thread at its first use. Where that
/// thread cannot be started, this one does the work.
void run_on_executor(Work work);

/// True on that thread.
bool on_executor();

/// How many threads the pool has, at most `wanted`: they are started here, since OpenMP would end
/// the process if it got fewer than it asks for later. A warning, once, if there are fewer. Waits
/// for work that runs on the pool, if that has to grow.
int pool_threads(int wanted);

/// Calls body(begin, end) for parts of [0, count) on `threads` threads of the executor's pool. The
/// parts depend on `count` and `threads` only and start at multiples of `grain`.
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, int threads, F&& body);

}  // namespace snug

namespace snug {
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, int threads, F&& body) {
  std::int64_t units = (count + grain - 1) / grain;
  if (threads <= 1 || units <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int t = 0; t < threads; ++t) {
    std::int64_t begin = units * t / threads * grain, end = units * (t + 1) / threads * grain;
    if (end > count) end = count;
    if (begin < end) body(begin, end);
  }
}
}  // namespace snug
