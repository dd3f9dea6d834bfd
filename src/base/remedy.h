#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace snug {

/// A way to fit a budget, which was planned.
struct Remedy {
  enum class Kind : std::uint8_t {
    Contiguous,  // arguments of the caller that need not be copied into the arena
    Batch,
    Recompute,
    MicroBatches,
    Offload,
    Activations,
    Host,  // all of it on the host
    Memory
  };
  Kind kind = Kind::Memory;
  std::int64_t count = 0;       // rows of the batch, or slices
  std::int64_t peak = 0;        // bytes
  double time_ratio = 0;        // predicted time per row over that of the plain plan
  bool recompute = false;       // slices in which tasks run again
  std::int64_t accumulate = 1;  // > 1: batches of `count` rows, with an update for so many of them
  /// More memory for a function on several devices: what each may have. The peak is of one of them.
  std::vector<std::pair<std::string, std::uint64_t>> budgets = {};
  std::string flag() const;    // "--micro-batch 2"
  std::string option() const;  // in the language of the process (base/spelling.h)
};

}  // namespace snug
