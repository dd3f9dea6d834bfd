#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "api/memory_report.h"

namespace snug {

/// A batch that fits a budget by a way of keeping to it.
struct BatchWay {
  std::string name;       // "as it is", "recompute", "slices", "file or rounding"
  std::int64_t rows = 0;  // 0: not even one fits, or it is no way for this function
  MemoryReport plan;      // of these rows; of none where there are none
  std::string how;        // "in 8 slices, tasks run again", or why there is none; may be empty

  double seconds_per_row() const;  // predicted; 0: not predicted
};

/// The largest batches that fit a budget, and the one to take.
struct MaxBatch {
  std::int64_t rows = 0;       // the most by any way; 0: not even one fits
  MemoryReport plan;           // of these; of one row without a budget if none fits
  std::uint8_t device = 0;     // whose memory is fullest with these; 0: the host's
  std::vector<BatchWay> ways;  // the largest batch of each way the function may use
  /// The smallest batch beyond which the predicted time per row no longer falls by more than
  /// kWorthwhile: more rows gain nothing but another training. No rows if none fits.
  BatchWay advised;
  std::string why;  // it is advised

  static constexpr double kWorthwhile = 0.03;
  /// A table of the ways, and the advice below it.
  std::string describe() const;
};

}  // namespace snug
