#include "base/driver_work.h"

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/fork.h"
#include "base/interrupt.h"
#include "base/kept_signals.h"
#include "base/progress_line.h"
#include "base/threads.h"

namespace snug {
namespace {

/// The threads that are inside of a driver.
struct Threads {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  bool gave_up = false;  // one hung while the process was ending
  std::atomic<bool> ending = false;
  const std::uint32_t forks = fork_count();
};
Threads& threads() {
  static auto* const all = new Threads;
  return *all;
}

void count_one_more() {
  const std::lock_guard lock(threads().mutex);
  ++threads().running;
}

/// When the thread has ended, with all that it had.
void count_one_less() {
  std::unique_lock lock(threads().mutex);
  --threads().running;
  std::notify_all_at_thread_exit(threads().changed, std::move(lock));
}

/// One thread at a time has the line of the terminal.
std::mutex& terminal() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

void DriverWork::start(std::function<void(DriverWork&)> work) {
  count_one_more();
  try {
    start_thread(
        [self = shared_from_this(), work] {
          self->run(work);
          count_one_less();
        },
        "a driver")
        .detach();
  } catch (...) {  // no thread, or no memory for one
    run(work);
    const std::lock_guard lock(threads().mutex);
    --threads().running;
    threads().changed.notify_all();
  }
}

void DriverWork::run(const std::function<void(DriverWork&)>& work) {
  const KeptSignals signals;
  try {
    work(*this);
  } catch (...) {
    error_ = std::current_exception();
  }
  signals.keep();  // before anybody is told
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

bool DriverWork::wait(std::chrono::milliseconds silent, std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetween = std::chrono::milliseconds(20);
  const KeptSignals signals;
  const auto begin = Clock::now();
  auto news = begin;
  std::unique_lock shown(terminal(), std::defer_lock);
  std::optional<ProgressLine> line;
  std::string said, heard;
  for (;;) {
    signals.keep();
    check();
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kBetween, [&] { return done_; })) return true;
    if (what_ != heard) {
      heard = what_;
      news = Clock::now();
    }
    if (Clock::now() - news > patience) return false;
    if (Clock::now() - begin <= silent || what_ == said || !(shown || shown.try_lock())) continue;
    said = what_;
    line.reset();
    line.emplace(said);
  }
}

void DriverWork::check() try { check_interrupt(); } catch (...) {
  // Now, when the driver is under way: before what it set up ends.
  if (!stop_.exchange(true)) std::atexit(end_driver_work);
  throw;
}

bool DriverWork::is_done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool DriverWork::stopping() const { return stop_ || threads().ending; }

void end_driver_work() {
  Threads& t = threads();
  if (t.forks != fork_count()) return;  // they did not come along
  t.ending = true;
  std::unique_lock lock(t.mutex);
  const auto grace = std::chrono::seconds(t.gave_up ? 0 : 30);  // drivers may hang
  t.gave_up = !t.changed.wait_for(lock, grace, [&] { return t.running == 0; });
  t.ending = false;
}

void DriverWork::tell(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

}  // namespace snug
