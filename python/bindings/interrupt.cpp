#include <csignal>

#include "bindings.h"

namespace snug::python {
namespace {

unsigned long main_thread = 0;
volatile std::sig_atomic_t running = 0;  // a call of the main thread wants to know of Ctrl-C
struct sigaction next_handler;           // Python's own, which we call after ours

void on_interrupt(int number, siginfo_t* info, void* context) {
  static volatile std::sig_atomic_t inside = 0;
  if (inside) return;  // somebody's handler calls us back
  inside = 1;
  if (running) request_interrupt();
  if (next_handler.sa_flags & SA_SIGINFO) {
    if (next_handler.sa_sigaction) next_handler.sa_sigaction(number, info, context);
  } else if (next_handler.sa_handler != SIG_DFL && next_handler.sa_handler != SIG_IGN) {
    next_handler.sa_handler(number);
  }
  inside = 0;
}

/// Puts our handler in front of the one of the interpreter. Leaves SIG_DFL and SIG_IGN alone.
bool install() {
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0) return false;
  if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_interrupt) return true;
  if (!(current.sa_flags & SA_SIGINFO) &&
      (current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN))
    return false;
  next_handler = current;
  struct sigaction ours = {};
  ours.sa_sigaction = on_interrupt;
  ours.sa_flags = current.sa_flags | SA_SIGINFO;
  ours.sa_mask = current.sa_mask;
  return sigaction(SIGINT, &ours, nullptr) == 0;
}

/// True if Ctrl-C means KeyboardInterrupt: a program with its own handler decides for itself.
bool default_meaning() {
  nb::object signal = nb::module_::import_("signal");
  return signal.attr("getsignal")(SIGINT).is(signal.attr("default_int_handler"));
}

bool wanted = false;

}  // namespace

void init_interrupts() {
  nb::object main = nb::module_::import_("threading").attr("main_thread")();
  main_thread = nb::cast<unsigned long>(main.attr("ident"));
}

InterruptGuard::InterruptGuard(bool check_handler) {
  if (PyThread_get_thread_ident() != main_thread) ignore_.emplace();
  if (ignore_ || running) return;
  if (check_handler) wanted = default_meaning() && install();
  if (!wanted) return;
  armed_ = true;
  running = 1;
}

InterruptGuard::~InterruptGuard() {
  if (!armed_) return;
  running = 0;
  clear_interrupt();  // came too late; Python raises its own KeyboardInterrupt
}

}  // namespace snug::python
