#pragma once
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "data/order.h"
#include "data/source.h"

namespace snug::data {

/// Rows of a source that are in memory together, in the order they were read.
struct Window {
  std::int64_t number = -1;                    // counted over all epochs
  std::vector<std::shared_ptr<Storage>> data;  // per field
  std::vector<RowRange> reads;
  std::vector<std::int64_t> begins;  // where each of them begins in `data`, in rows
  std::int64_t left = 0;             // rows that nobody has taken yet
  bool ready = false;
  std::exception_ptr error;
  /// The row of the source that is row i of the data.
  std::int64_t source_row(std::int64_t i) const;
};

/// Reads the windows of an order ahead: one thread, two windows. Whoever takes rows takes them in
/// order.
class WindowReader {
 public:
  /// From this position of this epoch on; rows at `used` and after it are left out in every epoch.
  WindowReader(SourcePtr source, const Order& order, std::int64_t epoch, std::int64_t position,
               std::int64_t used);
  ~WindowReader();
  WindowReader(const WindowReader&) = delete;

  /// Waits for a window; null if `stop` was called. The error of reading it, if there was one.
  const Window* wait(std::int64_t epoch, std::int64_t window);
  /// That many rows of it were taken.
  void release(const Window& window, std::int64_t rows);
  /// Ends all waiting.
  void stop();
  std::int64_t bytes() const { return bytes_; }

 private:
  void read_all();
  bool read_window(std::int64_t number);

  SourcePtr source_;
  const Order& order_;
  std::int64_t first_, first_position_, used_, bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Window, 2> windows_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace snug::data
