#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// An OpenCL device as its driver tells.
struct OpenClFound {
  std::string name;  // "opencl:0": cards first, then by model, whatever the order of platforms
  std::string model, vendor, platform, driver, version;
  bool gpu = false;
  bool fp64 = false, fp16 = false;
  bool fma = false;              // a product and a sum rounded once is as fast as one of them
  bool rounds_division = false;  // division and square roots of float32 can be exact
  bool unified = false;          // its memory is the host's
  int units = 1;
  std::uint64_t memory = 0, largest_allocation = 0;    // bytes
  std::uint64_t alignment = 64;                        // bytes
  std::uint64_t local_memory = 0;                      // bytes of a work group
  std::uint64_t most_items = 1;                        // of a work group
  std::uint64_t argument_bytes = 1024;                 // of a kernel, all together
  std::size_t platform_number = 0, device_number = 0;  // as the library lists them
};

struct OpenClSearch {
  std::vector<OpenClFound> devices;
  std::string trouble;  // why there may be others, or none; empty if there is nothing to say
};

/// All devices of this machine. They are looked for in a child of this process, which is ended
/// after `limit`: drivers crash and hang while they are asked.
OpenClSearch find_opencl_devices(std::chrono::milliseconds limit = std::chrono::seconds(20));

}  // namespace snug
