#pragma once
#include <chrono>
#include <map>
#include <vector>

#include "api/function.h"
#include "base/fork.h"
#include "exec/executable.h"

namespace snug {

/// Where the time of a function's calls went, over all of them.
class StepTimes {
 public:
  void add(const Executable& executable, const RunState& state, std::span<const double> seconds);
  ProfileReport report() const;

 private:
  struct Sum {
    std::int64_t count = 0;
    double seconds = 0, predicted = 0;
  };
  mutable BriefMutex mutex_;
  std::map<std::vector<std::string>, Sum> sums_;  // by name, result and place
  std::int64_t calls_ = 0;
};

/// Takes the time of every step of one call.
class StepTimer : public StepObserver {
 public:
  explicit StepTimer(std::size_t steps) : seconds_(steps) {}
  void before(const RunState&, std::uint32_t) override { start_ = Clock::now(); }
  void after(const RunState&, std::uint32_t step) override {
    seconds_[step] = std::chrono::duration<double>(Clock::now() - start_).count();
  }
  std::span<const double> seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  std::vector<double> seconds_;
};

}  // namespace snug
