#include "exec/executor.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace snug {
namespace {

thread_local bool is_executor = false;

/// One job at a time; callers wait their turn in `turn`.
struct Pool {
  std::mutex turn;
  std::mutex mutex;
  std::condition_variable wake, done;
  const Work* job = nullptr;
  bool finished = false;
  std::exception_ptr error;

  Pool() {
    std::thread([this] { serve(); }).detach();
  }

  void serve() {
    is_executor = true;
    for (;;) {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return job != nullptr; });
      lock.unlock();
      try {
        (*job)();
        error = nullptr;
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      job = nullptr;
      finished = true;
      done.notify_one();
    }
  }

  void run(const Work& work) {
    std::lock_guard turn_lock(turn);
    std::unique_lock lock(mutex);
    finished = false;
    job = &work;
    wake.notify_one();
    done.wait(lock, [&] { return finished; });
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
};

std::atomic<Pool*> pool{nullptr};
std::mutex pool_mutex;

Pool& current_pool() {
  if (Pool* p = pool.load(std::memory_order_acquire)) return *p;
  std::lock_guard lock(pool_mutex);
  if (!pool) {
    static std::once_flag once;
    std::call_once(once, [] {
      // A child has none of the parent's threads: it starts over, and leaves the old one unused.
      pthread_atfork(nullptr, nullptr, [] { pool = nullptr; });
    });
    pool = new Pool;
  }
  return *pool;
}

}  // namespace

void run_on_executor(Work work) {
  if (is_executor) return work();
  current_pool().run(work);
}

bool on_executor() { return is_executor; }

int available_threads() {
  static const int count = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return count;
}

}  // namespace snug
