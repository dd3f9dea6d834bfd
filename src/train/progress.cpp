#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/bytes.h"
#include "base/seconds.h"

namespace snug::nn {
namespace {

constexpr std::chrono::milliseconds kBetweenDrawings{100};

int terminal_width() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::min(std::ceil(std::max(seconds, 0.0)), 3.6e9));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

ProgressView::ProgressView(Progress kind) : kind_(kind) {
  if (kind == Progress::Auto) kind_ = isatty(STDERR_FILENO) ? Progress::Bar : Progress::Lines;
}

std::string ProgressView::bar(const Numbers& n, int width) {
  const double rate = n.seconds > 0 ? static_cast<double>(n.rows) / n.seconds : 0;
  const double part = n.batches > 0 ? static_cast<double>(n.batch) / n.batches : 0;
  const std::string left =
      fmt::format("epoch {}/{} step {}/{} ", n.epoch, n.epochs, n.batch, n.batches);
  std::string metric, eta;
  if (!n.metric_name.empty()) metric = fmt::format(" {} {:.4f}", n.metric_name, n.metric);
  if (rate > 0 && n.batch > 0) {
    const double rest = static_cast<double>(n.epochs - n.epoch) + 1 - part;
    const double rows = static_cast<double>(n.rows) / n.batch * n.batches * rest;
    eta = " ETA " + clock_text(rows / rate);
  }
  std::string speed = fmt::format(" {:.0f} rows/s", rate);
  std::string bytes = " " + n.memory;
  const std::string loss = fmt::format(" loss {:.4f}", n.loss);
  // What does not fit goes, the least important first.
  for (std::string* field : {&speed, &bytes, &metric})
    if (left.size() + loss.size() + metric.size() + speed.size() + bytes.size() + eta.size() >=
        static_cast<std::size_t>(std::max(width, 1)))
      field->clear();
  const std::string right = loss + metric + speed + bytes + eta;
  const int room = width - 1 - static_cast<int>(left.size() + right.size()) - 2;
  std::string line = left;
  if (room >= 4) {
    const int full = static_cast<int>(part * room);
    line += "[" + std::string(full, '=') + std::string(room - full, ' ') + "]";
  }
  line += right;
  return line.substr(0, static_cast<std::size_t>(std::max(width - 1, 0)));
}

void ProgressView::batch(const Numbers& numbers) {
  if (kind_ != Progress::Bar) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - drawn_ < kBetweenDrawings) return;
  drawn_ = now;
  shown_ = true;
  fmt::print(stderr, "\r\x1b[K{}", bar(numbers, terminal_width()));
  std::fflush(stderr);
}

void ProgressView::clear() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

void ProgressView::epoch(const Epoch& e, const History& history, std::int64_t epochs,
                         const std::string& memory) {
  say(lines_of(e, history, epochs, memory));
}

std::string ProgressView::lines_of(const Epoch& e, const History& history, std::int64_t epochs,
                                   const std::string& memory) {
  const std::string start = fmt::format("epoch {}/{}", e.number, epochs);
  std::vector<std::string> training, validation;
  const auto add = [](std::vector<std::string>& fields, const std::string& name, double value) {
    fields.push_back(fmt::format("{} {:.4f}", name, value));
  };
  add(training, "loss", e.loss);
  for (std::size_t i = 0; i < e.metrics.size(); ++i)
    add(training, history.metrics[i], e.metrics[i]);
  training.push_back(describe_seconds(e.seconds));
  training.push_back(fmt::format("{:.0f} rows/s", e.rows_per_second));
  training.push_back("memory " + memory);
  if (history.validated) {
    add(validation, "validation_loss", e.validation_loss);
    for (std::size_t i = 0; i < e.validation_metrics.size(); ++i)
      add(validation, "validation_" + history.metrics[i], e.validation_metrics[i]);
  }
  if (e.best) (history.validated ? validation : training).back() += "  best";
  // What does not fit a line goes to the next one.
  constexpr std::size_t kWidth = 80;
  std::string text = start;
  std::size_t used = start.size();
  for (const std::vector<std::string>* fields : {&training, &validation})
    for (std::size_t i = 0; i < fields->size(); ++i) {
      const std::string& field = (*fields)[i];
      const bool fits = used + 2 + field.size() <= kWidth;
      if (!fits || (fields == &validation && i == 0)) {
        text += "\n" + std::string(start.size(), ' ');
        used = start.size();
      }
      text += "  " + field;
      used += 2 + field.size();
    }
  return text;
}

void ProgressView::say(const std::string& line) {
  if (kind_ == Progress::Silent) return;
  clear();
  fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

}  // namespace snug::nn
