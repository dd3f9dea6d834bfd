#pragma once
#include <chrono>
#include <string>

#include "train/fit.h"

namespace snug::nn {

/// Shows how a training goes, on the standard error stream: on a terminal a bar that is drawn at
/// most ten times a second, otherwise one line per epoch.
class ProgressView {
 public:
  struct Numbers {
    std::int64_t epoch = 0, epochs = 0;  // from 1
    std::int64_t batch = 0, batches = 0;
    std::int64_t rows = 0;        // of this epoch, trained by this process
    double seconds = 0;           // of this epoch
    double loss = 0, metric = 0;  // means so far
    std::string metric_name;      // empty: no metric
    std::string memory;           // of a step and of the data
  };

  explicit ProgressView(Progress kind);
  void batch(const Numbers& numbers);
  void epoch(const Epoch& epoch, const History& history, std::int64_t epochs,
             const std::string& memory);
  void say(const std::string& line);

  /// What an epoch gave, in lines of 80 columns: those of the validation data are in the second.
  static std::string lines_of(const Epoch& epoch, const History& history, std::int64_t epochs,
                              const std::string& memory);
  static std::string bar(const Numbers& numbers, int width);

 private:
  void clear();
  Progress kind_;
  std::chrono::steady_clock::time_point drawn_ = {};
  bool shown_ = false;  // a bar stands in the last line
};

}  // namespace snug::nn
