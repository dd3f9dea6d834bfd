#pragma once
#include <atomic>
#include <cstdint>

namespace snug {

/// Throws an Interrupted error if a stop was requested, and forgets the request. All that takes
/// long (compiling, planning, measuring, running) asks every few milliseconds, where stopping
/// leaves everything as it was.
void check_interrupt();

/// From any thread, also from a handler of signals.
void request_interrupt();
/// Forgets a request that nobody has honoured.
void clear_interrupt();

/// False: requests are meant for other threads. Threads that work for this one must ask it.
bool honours_interrupts();

/// While one lives, its thread honours no requests.
class IgnoreInterrupts {
 public:
  IgnoreInterrupts();
  ~IgnoreInterrupts();
  IgnoreInterrupts(const IgnoreInterrupts&) = delete;
  IgnoreInterrupts& operator=(const IgnoreInterrupts&) = delete;
};

/// For tests, one at a time: counts the checks of all threads, and interrupts at one of them.
class InterruptProbe {
 public:
  /// `stop_at`: the number of the check that throws; 0: none.
  explicit InterruptProbe(std::int64_t stop_at = 0);
  ~InterruptProbe();
  InterruptProbe(const InterruptProbe&) = delete;
  InterruptProbe& operator=(const InterruptProbe&) = delete;

  std::int64_t checks() const { return checks_; }
  /// The longest that a thread worked, in seconds of its own, between two checks of it with none of
  /// another in between.
  double longest() const;

 private:
  friend void check_interrupt();
  void note();
  const std::int64_t stop_at_;
  std::atomic<std::int64_t> checks_{0}, longest_ns_{0};
};

}  // namespace snug
