#include "base/kept_signals.h"

#include <link.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>
#include <vector>

#include "base/fork.h"

namespace snug {
namespace {

constexpr int kSignals[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2,
                            SIGSEGV, SIGBUS,  SIGFPE, SIGILL,  SIGABRT, SIGTRAP, SIGSYS};

struct Range {
  std::uintptr_t begin, end;
};

/// Where the program and its libraries are. Without LLVM, which drivers may share with this library
/// and which takes signals for them alone.
std::vector<Range> loaded_code() {
  std::vector<Range> all;
  const auto add = [](dl_phdr_info* object, std::size_t, void* to) {
    if (std::strstr(object->dlpi_name, "libLLVM")) return 0;
    for (int k = 0; k < object->dlpi_phnum; ++k) {
      const auto& part = object->dlpi_phdr[k];
      const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_LOAD && (part.p_flags & PF_X))
        static_cast<std::vector<Range>*>(to)->push_back({begin, begin + part.p_memsz});
    }
    return 0;
  };
  dl_iterate_phdr(add, &all);
  return all;
}

/// The handlers that are not of drivers, as they were last seen.
struct Kept {
  BriefMutex mutex;
  int living = 0;
  struct sigaction was[std::size(kSignals)];
  /// Before drivers are loaded: it is the program, Python and what users have.
  const std::vector<Range> known = loaded_code();

  bool is_of_driver(const struct sigaction& action) const {
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return false;
    const auto code = reinterpret_cast<std::uintptr_t>(action.sa_handler);
    return std::none_of(known.begin(), known.end(),
                        [&](const Range& r) { return r.begin <= code && code < r.end; });
  }
  void put_back() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      struct sigaction now;
      if (sigaction(kSignals[i], nullptr, &now) != 0) continue;
      if (!is_of_driver(now))
        was[i] = now;
      else if (now.sa_handler != was[i].sa_handler)
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
  if (k.living++ > 0)
    k.put_back();
  else
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], nullptr, &k.was[i]);
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
