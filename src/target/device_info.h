#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// What the compiler knows about a device: plain data, so that one can plan for a machine one does
/// not own.
struct DeviceInfo {
  enum class Kind : std::uint8_t { Cpu, Gpu };
  std::string name;   // "cpu:0"
  std::string model;  // "Intel(R) Xeon(R) ..."; "" if that says nothing
  Kind kind = Kind::Cpu;
  int cores = 1;
  double bandwidth = 1e10;  // bytes per second, reading and writing
  double flops = 1e10;      // float32 operations per second
  // The same in products of matrices, in convolutions with their gradients by images, and in
  // gradients by filters; 0: not measured, `flops` counts.
  double product_flops = 0, conv_flops = 0, filter_flops = 0;
  double launch_latency = 1e-6;      // seconds to start one task
  double transfer_bandwidth = 1e10;  // bytes per second to and from the host
  double transfer_latency = 0;       // seconds per transfer to or from the host
  std::int64_t memory_bytes = 0;
  std::string isa;                       // "x86-64-v4"; "" if that says nothing
  std::vector<std::string> cannot = {};  // ops it does not run
};

/// This machine's processor. Cores that the process may use, memory with the limit of its group;
/// the bandwidth is measured once per process, in a few milliseconds.
const DeviceInfo& host_device();

/// The widest common level of this processor: "x86-64-v2", "x86-64-v3", "x86-64-v4", else the name
/// of the architecture.
std::string host_isa();

/// "cpu:0: 2 cores, x86-64-v4, 16.0 GiB, 12.3 GB/s, 200 Gflop/s".
std::string describe(const DeviceInfo& device);

}  // namespace snug
