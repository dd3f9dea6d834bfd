#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "expr/exports.h"
#include "target/device_ledger.h"

namespace snug {

/// What this process has now, in bytes.
struct ProcessMemory {
  std::int64_t resident = 0, high_water = 0;
  std::int64_t arrays = 0;       // shared variables, constants and other arrays of ours
  std::int64_t arenas = 0;       // of functions
  std::int64_t kept = 0;         // freed blocks, until an array or somebody else needs them
  std::int64_t caches = 0;       // plans that are kept, of `not_planned`
  std::int64_t not_planned = 0;  // resident besides: code, libraries, Python and its arrays
  std::int64_t free = 0;         // more that it may take
  std::string limit;             // what limits that
  std::vector<Export> exports;   // memory of shared variables that others hold
  /// What counts against the budget of the process, and that.
  std::int64_t budget = 0;                            // 0: none
  std::int64_t shared = 0, loaders = 0, counted = 0;  // counted: with arenas
  std::vector<DeviceMemoryUse> devices;               // that are open
  std::string describe() const;                       // an aligned table
};
ProcessMemory process_memory();

std::int64_t not_planned_bytes();

}  // namespace snug
