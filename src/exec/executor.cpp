#include "exec/executor.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fork.h"

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
std::atomic<int> team{1};        // threads that OpenMP has for the pool
std::atomic<int> most{INT_MAX};  // more could not be started
BriefMutex pool_mutex;

/// A child has none of the parent's threads: it starts over, and leaves the old pool unused.
const ForkHook start_over(
    [](void*) {
      pool = nullptr;
      team = 1;
      most = INT_MAX;
    },
    nullptr);

/// Null if its thread cannot be started.
Pool* current_pool() {
  if (Pool* p = pool.load(std::memory_order_acquire)) return p;
  std::lock_guard lock(pool_mutex);
  if (!pool) {
    try {
      pool = new Pool;
    } catch (const std::system_error&) {
      return nullptr;
    }
  }
  return pool;
}

/// On the thread of the pool: OpenMP's team grows to `wanted` threads, or to as many as there are.
void grow_team(int wanted) {
  if (wanted <= team) return;
  const int can = team + startable_threads(wanted - team);
  if (can < wanted) most = can;
  if (can > team) {
    int started = 1;
#pragma omp parallel num_threads(can)
    if (omp_get_thread_num() == 0) started = omp_get_num_threads();
    team = started;
    if (started < can) most = started;  // by OMP_THREAD_LIMIT
  }
}

}  // namespace

void run_on_executor(Work work) {
  if (is_executor) return work();
  if (Pool* p = current_pool()) return p->run(work);
  work();  // steps find themselves elsewhere, and take one thread
}

bool on_executor() { return is_executor; }

int pool_threads(int wanted) {
  const int asked = wanted;
  wanted = std::min(wanted, most.load());
  if (wanted > 1 && wanted > team) {
    if (is_executor || current_pool()) {
      auto grow = [&] { grow_team(wanted); };
      run_on_executor(grow);
    } else {
      most = 1;
    }
    wanted = std::min(wanted, most.load());
    if (wanted < asked)
      warn_of_fewer_threads(static_cast<std::size_t>(asked), static_cast<std::size_t>(wanted));
  }
  return std::max(1, wanted);
}

}  // namespace snug
