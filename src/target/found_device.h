#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// A device of this machine, as `snug devices` tells.
struct FoundDevice {
  std::string name;  // "cpu", "opencl:0"
  std::string model, driver;
  bool gpu = false;
  bool fp64 = true, fp16 = false;
  int units = 1;                                     // cores
  std::uint64_t memory = 0, largest_allocation = 0;  // bytes; 0: not known, or all of it
  std::string trouble = {};                          // why it cannot be used; it has no name then
  /// The same card by other drivers, which are not used unless they are asked for by their names.
  std::vector<FoundDevice> others = {};
};

struct FoundDevices {
  std::vector<FoundDevice> devices;   // the host first
  std::vector<FoundDevice> unusable;  // with `trouble`
  std::string trouble;                // why there may be others; empty if there is nothing to say
  std::vector<std::string> names() const;  // of all that may be asked for
  std::string describe() const;            // a table
};

}  // namespace snug
