// Work that nobody can stop, on a thread of its own: waiting, interrupts, what a terminal shows.
#include "base/driver_work.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "base/error.h"
#include "base/interrupt.h"

namespace snug {
namespace {

std::shared_ptr<DriverWork> started(std::function<void(DriverWork&)> work) {
  auto made = std::make_shared<DriverWork>();
  made->start(std::move(work));
  return made;
}

TEST(DriverWork, WhatItThrowsIsKept) {
  bool ran = false;
  const auto good = started([&](DriverWork&) { ran = true; });
  good->wait();
  EXPECT_TRUE(ran && good->is_done() && !good->error());
  const auto bad = started([](DriverWork&) { fail(Fault::Device, "the driver said no"); });
  bad->wait();
  EXPECT_THROW(std::rethrow_exception(bad->error()), DeviceError);
}

TEST(DriverWork, AnInterruptEndsTheWaitAndNotTheWork) {
  std::promise<void> go;
  bool stopping = false;
  const auto work = started([&](DriverWork& w) {
    go.get_future().wait();
    stopping = w.stopping();
  });
  {
    const InterruptProbe probe(3);
    EXPECT_THROW(work->wait(), InterruptedError);
  }
  EXPECT_FALSE(work->is_done());
  go.set_value();
  work->wait();
  EXPECT_TRUE(stopping);
  end_driver_work();  // the thread itself, too
}

using Handler = void (*)(int);

/// Code that is loaded late, as that of drivers. Nobody calls it.
Handler of_a_driver() {
  void* const library = dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const code = library ? dlsym(library, "__ctype_get_mb_cur_max") : nullptr;
  EXPECT_NE(code, nullptr);
  return reinterpret_cast<Handler>(code);
}
void of_a_user(int) {}

Handler handler_now() {
  struct sigaction now;
  sigaction(SIGUSR2, nullptr, &now);
  return now.sa_handler;
}

TEST(DriverWork, HandlersOfSignalsArePutBackWhileItRuns) {
  const Handler before = handler_now();
  std::promise<void> go;
  const auto work = started([&](DriverWork&) {
    std::signal(SIGUSR2, of_a_driver());
    go.get_future().wait();
    std::signal(SIGUSR2, of_a_driver());
  });
  for (int check = 2; check < 100; ++check) {
    try {
      const InterruptProbe probe(check);
      work->wait();
    } catch (const InterruptedError&) {
    }
    if (handler_now() == before) break;
  }
  EXPECT_EQ(handler_now(), before);
  go.set_value();
  work->wait();
  EXPECT_EQ(handler_now(), before);
}

TEST(DriverWork, HandlersThatUsersSetWhileItRunsStay) {
  const Handler before = handler_now();
  std::promise<void> begun, go;
  const auto work = started([&](DriverWork&) {
    begun.set_value();
    go.get_future().wait();
    std::signal(SIGUSR2, of_a_driver());
  });
  begun.get_future().wait();
  for (const Handler set : {Handler(SIG_IGN), Handler(of_a_user)}) {
    std::signal(SIGUSR2, set);
    try {
      const InterruptProbe probe(3);
      work->wait();
    } catch (const InterruptedError&) {
    }
    EXPECT_EQ(handler_now(), set);
  }
  go.set_value();
  work->wait();
  end_driver_work();
  EXPECT_EQ(handler_now(), of_a_user);  // it comes back, and not the one before
  std::signal(SIGUSR2, before);
}

/// What is written to stderr, as a terminal gets it.
class Terminal {
 public:
  Terminal() : terminal_(posix_openpt(O_RDWR | O_NOCTTY)), kept_(dup(STDERR_FILENO)) {
    if (grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) return;
    const int end = open(ptsname(terminal_), O_RDWR | O_NOCTTY);
    dup2(end, STDERR_FILENO);
    close(end);
  }
  ~Terminal() {
    dup2(kept_, STDERR_FILENO);
    close(kept_), close(terminal_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Waits for it.
  std::string read_until(const std::string& end) const {
    std::string text;
    char piece[256];
    while (text.find(end) == std::string::npos) {
      const ssize_t got = read(terminal_, piece, sizeof piece);
      if (got <= 0) break;
      text.append(piece, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int terminal_, kept_;
};

TEST(DriverWork, WhatTakesLongIsShown) {
  const Terminal terminal;
  std::promise<void> go;
  const auto work = started([&](DriverWork& w) {
    w.tell("compiling 1 of 2");
    terminal.read_until("compiling 1 of 2 ...");
    w.tell("compiling 2 of 2");
    terminal.read_until("compiling 2 of 2 ...");
  });
  work->wait(std::chrono::milliseconds(1));
  EXPECT_EQ(terminal.read_until("\r\x1b[K"), "\r\x1b[K");  // and is gone with it
}

}  // namespace
}  // namespace snug
