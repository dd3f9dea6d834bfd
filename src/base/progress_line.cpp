#include "base/progress_line.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

namespace snug {
namespace {
std::atomic<ProgressLine*> innermost{nullptr};
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), shown_(isatty(STDERR_FILENO) != 0) {
  if (!shown_) return;
  around_ = innermost.exchange(this);
  show();
}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show() const {
  std::fprintf(stderr, "\r\033[K%s ...", what_.c_str());
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (!std::exchange(shown_, false)) return;
  innermost = around_;
  if (around_)
    around_->show();
  else
    std::fputs("\r\033[K", stderr);
}

}  // namespace snug
