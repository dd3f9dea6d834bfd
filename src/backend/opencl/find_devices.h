#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// An OpenCL device as its driver tells.
struct OpenClFound {
  /// "opencl:0": cards first, then by model, whatever the order of platforms. By another driver
  /// than the best one of its card: "opencl:0@clover". Empty: it cannot be used.
  std::string name;
  std::string trouble;  // why it cannot be used
  std::string model, vendor, platform, platform_vendor, driver, version;
  bool gpu = false;
  bool fp64 = false, fp16 = false;
  bool fma = false;              // a product and a sum rounded once is as fast as one of them
  bool rounds_division = false;  // division and square roots of float32 can be exact
  bool unified = false;          // its memory is the host's
  int units = 1;
  std::uint64_t memory = 0, largest_allocation = 0;  // bytes
  std::uint64_t alignment = 64;                      // bytes
  std::uint64_t local_memory = 0;                    // bytes of a work group
  std::uint64_t most_items = 1;                      // of a work group
  std::uint64_t argument_bytes = 1024;               // of a kernel, all together
  std::uint64_t vendor_id = 0;
  std::string pci, uuid;  // what tells cards apart, where the driver says
  /// Of those that its platform lists, of the platforms with that name.
  std::size_t platform_number = 0, device_number = 0;
  std::vector<OpenClFound> others;  // the same card by other drivers
};

struct OpenClSearch {
  std::vector<OpenClFound> devices;   // by name
  std::vector<OpenClFound> unusable;  // with `trouble`
  std::string trouble;  // why there may be others, or none; empty if there is nothing to say
};

/// How long drivers may take to answer; 20 s if nobody says otherwise.
void set_opencl_patience(std::chrono::milliseconds patience);

/// All devices of this machine. They are looked for in a child of this process, which is ended
/// after that time: drivers crash and hang while they are asked. If that happens each driver is
/// asked in a child of its own, and this process loads none of those that fail. `devices_folder`:
/// where files of cards are that the process may not be allowed to open.
OpenClSearch find_opencl_devices(const std::string& devices_folder = "/dev");

/// What drivers listed, as one entry per card with the best driver (the newest OpenCL, the vendor's
/// own before others), and names.
OpenClSearch name_devices(std::vector<OpenClFound> listed);

}  // namespace snug
