#include "base/threads.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace snug {
namespace {

constexpr const char* kRaise =
    "end other processes, or raise the limit (ulimit -u, pids.max of the control group)";

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
