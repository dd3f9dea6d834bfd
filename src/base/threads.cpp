#include "base/threads.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace snug {
namespace {

constexpr const char* kRaise =
    "end other processes, or raise the limit (ulimit -u, pids.max of the control group)";

/// A thread that waits until `end` is free.
struct Waiting {
  std::mutex* end;
  std::atomic<pid_t> id{0};
  pthread_t thread{};
};

void* wait_for_end(void* argument) {
  Waiting& self = *static_cast<Waiting*>(argument);
  self.id = static_cast<pid_t>(syscall(SYS_gettid));
  std::lock_guard lock(*self.end);
  return nullptr;
}

}  // namespace

int quota_cores(const GroupFiles& files) {
  int least = 0;
  for (const ControlGroup& group : control_groups("cpu", files)) {
    double quota = 0, period = 0;  // "max" and -1 are none
    if (group.version == 1) {
      std::ifstream(group.folder + "cpu.cfs_quota_us") >> quota;
      std::ifstream(group.folder + "cpu.cfs_period_us") >> period;
    } else {
      std::ifstream(group.folder + "cpu.max") >> quota >> period;
    }
    if (!(quota > 0 && period > 0)) continue;
    const double cores = std::min<double>(std::ceil(quota / period), kMostThreads);
    if (least == 0 || cores < least) least = static_cast<int>(cores);
  }
  return least;
}

int available_threads() {
  static const int count = [] {
    // The first number of "4" or "4,2".
    if (const char* given = std::getenv("OMP_NUM_THREADS"))
      if (const int n = std::atoi(given); n > 0) return std::min(n, kMostThreads);
    int cores = static_cast<int>(std::thread::hardware_concurrency());
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
    if (const int quota = quota_cores()) cores = std::min(cores, quota);
    return std::max(1, cores);
  }();
  return count;
}

int startable_threads(int wanted) {
  std::mutex end;
  std::vector<Waiting> threads(static_cast<std::size_t>(std::max(wanted, 0)));
  int started = 0;
  {
    std::lock_guard lock(end);
    for (Waiting& t : threads) {
      t.end = &end;
      if (pthread_create(&t.thread, nullptr, wait_for_end, &t) != 0) break;
      ++started;
    }
  }
  for (int i = 0; i < started; ++i) {
    Waiting& t = threads[static_cast<std::size_t>(i)];
    pthread_join(t.thread, nullptr);
    // It counts until the system has forgotten it, a moment after it ended.
    while (syscall(SYS_tgkill, getpid(), t.id.load(), 0) == 0) sched_yield();
  }
  return started;
}

void run_together(std::size_t threads, const std::function<void()>& work) {
  std::vector<std::thread> others;
  others.reserve(threads);
  try {
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    warn_of_fewer_threads(threads, others.size() + 1);
  }
  work();
  for (std::thread& t : others) t.join();
}

std::thread start_thread(std::function<void()> work, std::string_view what) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& e) {
    fail(Fault::Device, fmt::format("{}: no thread can be started: {}", what, e.code().message()),
         kRaise);
  }
}

void warn_of_fewer_threads(std::size_t wanted, std::size_t got) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  warn(fmt::format("the system starts no more threads: working with {} instead of {}; {}", got,
                   wanted, kRaise));
}

}  // namespace snug
