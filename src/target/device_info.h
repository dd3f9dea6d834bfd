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
  // Measured rates of all cores together; 0: not measured, `bandwidth` and `flops` count.
  double cache_bandwidth = 0;  // bytes per second where all that a task touches is in `cache_bytes`
  double kernel_flops = 0;     // operations in fused loops, functions counted as kernel_cost says
  // float32 operations where all sizes are large: in products of matrices, in convolutions with
  // their gradients by images, in gradients by filters, and where every channel has its own filter.
  double product_flops = 0, conv_flops = 0, filter_flops = 0, depthwise_flops = 0;
  /// Pixels of a row of images at which gradients by filters fall to half of `filter_flops`; 0:
  /// never.
  double filter_row_pixels = 0;
  double strided_elements = 0;         // elements per second that are read or written one by one
  double filter_elements = 0;          // elements of filters per second that convolutions rearrange
  double parallel_latency = 0;         // seconds to start one task on all cores
  double product_latency = 0;          // seconds that the smallest product on all cores takes
  double launch_latency = 1e-6;        // seconds to start one task on one
  std::int64_t cache_bytes = 1 << 20;  // of the caches that cores have for themselves, all together
  int lanes = 16;                      // float32 numbers of one vector
  bool measured_busy = false;          // others used the machine while the rates were measured
  double rate_factor = 1;              // by which good and bad calls differed meanwhile
  double measured_at = 0;              // seconds since 1970
  double transfer_bandwidth = 1e10;    // bytes per second to and from the host
  double transfer_latency = 0;         // seconds per transfer to or from the host
  std::int64_t memory_bytes = 0;
  std::int64_t largest_allocation = 0;  // bytes; 0: all of its memory
  std::int64_t alignment = 64;          // of what kernels and copies begin at, in bytes
  std::string isa;                      // "x86-64-v4"; "" if that says nothing
};

/// This machine's processor. Cores that the process may use, memory with the limit of its group;
/// the bandwidth is measured once per process, in a few milliseconds.
const DeviceInfo& host_device();

/// The widest common level of this processor: "x86-64-v2", "x86-64-v3", "x86-64-v4", else the name
/// of the architecture.
std::string host_isa();

/// Bytes per second where a task touches `bytes` in all: between the rate of the caches and that of
/// memory.
double bandwidth_for(const DeviceInfo& device, double bytes);

/// "cpu:0: 2 cores, x86-64-v4, 16.0 GiB, 12.3 GB/s, 200 Gflop/s".
std::string describe(const DeviceInfo& device);

}  // namespace snug
