#pragma once
#include <csignal>
#include <iterator>

namespace snug {

/// While one lives, what drivers do to the handlers of signals does not last: the compilers inside
/// of them take SIGINT and others, and Ctrl-C would be lost.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t k = 0; k < std::size(kSignals); ++k) sigaction(kSignals[k], nullptr, &was_[k]);
  }
  ~KeptSignals() {
    for (std::size_t k = 0; k < std::size(kSignals); ++k) {
      struct sigaction now;
      if (sigaction(kSignals[k], nullptr, &now) != 0 || now.sa_handler == was_[k].sa_handler)
        continue;
      sigaction(kSignals[k], &was_[k], nullptr);
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2,
                                     SIGSEGV, SIGBUS,  SIGFPE, SIGILL,  SIGABRT, SIGTRAP, SIGSYS};
  struct sigaction was_[std::size(kSignals)];
};

}  // namespace snug
