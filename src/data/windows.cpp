#include "data/windows.h"

#include <algorithm>

#include "base/threads.h"

namespace snug::data {

std::int64_t Window::source_row(std::int64_t i) const {
  const auto range = std::upper_bound(begins.begin(), begins.end(), i) - begins.begin() - 1;
  return reads[range].begin + (i - begins[range]);
}

WindowReader::WindowReader(SourcePtr source, const Order& order, std::int64_t epoch,
                           std::int64_t position, std::int64_t used)
    : source_(std::move(source)),
      order_(order),
      first_(epoch * order.windows() + order.window_of(position)),
      first_position_(position),
      used_(used) {
  for (Window& window : windows_)
    for (const Field& field : source_->fields()) {
      window.data.push_back(Storage::allocate(order_.largest_window() * field.bytes()));
      bytes_ += window.data.back()->bytes();
    }
  thread_ = start_thread([this] { read_all(); }, "Loader");
}

WindowReader::~WindowReader() {
  stop();
  thread_.join();
}

void WindowReader::stop() {
  std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

const Window* WindowReader::wait(std::int64_t epoch, std::int64_t window) {
  const std::int64_t number = epoch * order_.windows() + window;
  Window& place = windows_[number % 2];
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || (place.number == number && place.ready); });
  if (stop_) return nullptr;
  if (place.error) std::rethrow_exception(place.error);
  return &place;
}

void WindowReader::release(const Window& window, std::int64_t rows) {
  std::lock_guard lock(mutex_);
  windows_[window.number % 2].left -= rows;
  changed_.notify_all();
}

void WindowReader::read_all() {
  for (std::int64_t number = first_; read_window(number); ++number) {
  }
}

bool WindowReader::read_window(std::int64_t number) {
  const std::int64_t epoch = number / order_.windows(), w = number % order_.windows();
  std::int64_t begin = order_.window_begin(w);
  if (number == first_) begin = std::max(begin, first_position_);
  const std::int64_t left = std::min(order_.window_end(w), used_) - begin;
  if (left <= 0) return true;
  Window& window = windows_[number % 2];
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || window.left == 0; });
    if (stop_) return false;
    window.ready = false;
    window.number = number;
    window.left = left;
  }
  try {
    window.reads = order_.reads(epoch, w);
    window.begins.clear();
    std::int64_t at = 0;
    for (const RowRange& range : window.reads) {
      std::vector<std::byte*> out;
      for (std::size_t f = 0; f < window.data.size(); ++f)
        out.push_back(window.data[f]->data() + at * source_->fields()[f].bytes());
      source_->read(range.begin, range.count, out);
      window.begins.push_back(at);
      at += range.count;
      std::lock_guard lock(mutex_);
      if (stop_) return false;
    }
  } catch (...) {
    window.error = std::current_exception();
  }
  std::lock_guard lock(mutex_);
  window.ready = true;
  changed_.notify_all();
  return !window.error;
}

}  // namespace snug::data
