#include "base/interrupt.h"

#include <ctime>

#include "base/error.h"

namespace snug {
namespace {

std::atomic<bool> requested{false};
std::atomic<InterruptProbe*> probe{nullptr};
thread_local int ignoring = 0;

std::int64_t thread_nanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

/// When this thread last asked.
thread_local std::int64_t last = 0;
/// The thread that asked last of all.
std::atomic<const std::int64_t*> last_thread{nullptr};

[[noreturn]] void interrupt() {
  throw InterruptedError("the call was interrupted; shared variables are as they were");
}

}  // namespace

void check_interrupt() {
  if (InterruptProbe* p = probe.load(std::memory_order_relaxed)) p->note();
  if (!requested.load(std::memory_order_relaxed) || ignoring) return;
  if (requested.exchange(false)) interrupt();
}

void request_interrupt() { requested = true; }
void clear_interrupt() { requested = false; }

bool honours_interrupts() { return ignoring == 0; }
IgnoreInterrupts::IgnoreInterrupts() { ++ignoring; }
IgnoreInterrupts::~IgnoreInterrupts() { --ignoring; }

InterruptProbe::InterruptProbe(std::int64_t stop_at) : stop_at_(stop_at) {
  last = thread_nanoseconds();
  last_thread = &last;
  probe = this;
}
InterruptProbe::~InterruptProbe() { probe = nullptr; }

double InterruptProbe::longest() const { return 1e-9 * static_cast<double>(longest_ns_); }

void InterruptProbe::note() {
  const std::int64_t now = thread_nanoseconds();
  if (last_thread.exchange(&last) == &last) {
    std::int64_t longest = longest_ns_;
    while (now - last > longest && !longest_ns_.compare_exchange_weak(longest, now - last)) {
    }
  }
  last = now;
  if (checks_.fetch_add(1) + 1 == stop_at_) interrupt();
}

}  // namespace snug
