#include "base/kept_signals.h"

#include <csignal>
#include <iterator>
#include <mutex>

#include "base/fork.h"

namespace snug {
namespace {

constexpr int kSignals[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2,
                            SIGSEGV, SIGBUS,  SIGFPE, SIGILL,  SIGABRT, SIGTRAP, SIGSYS};

/// The handlers that there were when the first of those that live was made.
struct Kept {
  BriefMutex mutex;
  int living = 0;
  struct sigaction was[std::size(kSignals)];

  void put_back() const {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      struct sigaction now;
      if (sigaction(kSignals[i], nullptr, &now) == 0 && now.sa_handler != was[i].sa_handler)
        sigaction(kSignals[i], &was[i], nullptr);
    }
  }
};
Kept& kept() {
  static auto* const all = new Kept;
  return *all;
}

}  // namespace

KeptSignals::KeptSignals() {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  if (k.living++ > 0) return;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], nullptr, &k.was[i]);
}

KeptSignals::~KeptSignals() {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  if (--k.living == 0) k.put_back();
}

void KeptSignals::keep() const {
  const std::lock_guard lock(kept().mutex);
  kept().put_back();
}

}  // namespace snug
