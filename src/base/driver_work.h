#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace snug {

/// Work inside of a driver that takes long and that nobody can stop, on a thread of its own. Its
/// thread goes on when nobody waits for it any more; the process ends after it (see below).
class DriverWork : public std::enable_shared_from_this<DriverWork> {
 public:
  /// Once. `work` asks `stopping` between its parts. Runs here if the system starts no thread.
  void start(std::function<void(DriverWork&)> work);

  /// Returns when the work is done. An Interrupted error asks it to stop and leaves it alone. What
  /// takes longer than `silent` says what it does on a terminal. False if it has told nothing new
  /// for longer than `patience`.
  bool wait(std::chrono::milliseconds silent = std::chrono::seconds(2),
            std::chrono::milliseconds patience = std::chrono::hours(24));
  bool is_done() const;
  /// What the work threw; null if it threw nothing. When it is done.
  std::exception_ptr error() const { return error_; }

  // For the work itself.
  bool stopping() const;
  void tell(std::string what);

 private:
  void check();  // whether to stop
  void run(const std::function<void(DriverWork&)>& work);
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::atomic<bool> stop_ = false;
  std::string what_;
  std::exception_ptr error_;
};

/// Asks all work to stop and waits for it, once if it hangs. Before the process ends: drivers take
/// themselves apart then.
void end_driver_work();

}  // namespace snug
