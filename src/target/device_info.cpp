#include "target/device_info.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>

#include "target/free_memory.h"

namespace snug {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Physical memory, or the limit of the control group if that is less.
std::int64_t usable_memory() {
  std::int64_t bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::int64_t limit = 0;
    if (file >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

/// The value of a field of /proc/cpuinfo, from the first processor that has it.
std::string cpuinfo(std::string_view field) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(field) || colon == std::string::npos) continue;
    return line.substr(std::min(line.size(), colon + 2));
  }
  return {};
}

/// Of the caches of the second level of all cores.
std::int64_t private_cache(int cores) {
  const std::int64_t each = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return (each > 0 ? each : std::int64_t{256} << 10) * cores;
}

double clock_rate() {
  const double mhz = std::atof(cpuinfo("cpu MHz").c_str());
  return mhz > 0 ? mhz * 1e6 : 2e9;
}

/// Bytes read and written per second by one core copying more than its caches usually hold.
double copy_bandwidth() {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  constexpr double kUsual = 1e10;
  if (!has_room({2 * kBytes, 2 * kBytes})) return kUsual;
  std::unique_ptr<char[]> from(new char[kBytes]), to(new char[kBytes]);
  std::memset(from.get(), 1, kBytes);
  std::memset(to.get(), 2, kBytes);
  double best = std::numeric_limits<double>::max();
  for (int round = 0; round < 3; ++round) {
    auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.get(), from.get(), kBytes);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    from[static_cast<std::size_t>(round)] = to[kBytes - 1];  // the copy is used
  }
  return 2.0 * kBytes / best;
}

}  // namespace

std::string host_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "x86-64-v4";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "x86-64-v3";
  if (__builtin_cpu_supports("sse4.2")) return "x86-64-v2";
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "generic";
#endif
}

const DeviceInfo& host_device() {
  static const DeviceInfo device = [] {
    DeviceInfo d;
    d.name = "cpu:0";
    d.kind = DeviceInfo::Kind::Cpu;
    d.cores = usable_cores();
    d.isa = host_isa();
    d.model = cpuinfo("model name");
    d.bandwidth = copy_bandwidth();  // a few cores use up what one socket has
    d.lanes = d.isa == "x86-64-v4" ? 16 : d.isa == "x86-64-v3" ? 8 : 4;
    d.flops = d.cores * clock_rate() * d.lanes * 2 * 2;  // two multiply-adds per cycle
    d.launch_latency = 2e-7;
    d.parallel_latency = d.cores > 1 ? 5e-6 : d.launch_latency;
    d.cache_bytes = private_cache(d.cores);
    d.transfer_bandwidth = d.bandwidth;
    d.transfer_latency = 0;
    d.memory_bytes = usable_memory();
    return d;
  }();
  return device;
}

double bandwidth_for(const DeviceInfo& d, double bytes) {
  constexpr double kShared = 8;  // caches that cores share: this many times those of their own
  if (d.cache_bandwidth <= 0) return d.bandwidth;
  const double times = bytes / static_cast<double>(std::max<std::int64_t>(d.cache_bytes, 1));
  const double out = std::clamp(std::log(times) / std::log(kShared), 0.0, 1.0);
  return 1 / ((1 - out) / d.cache_bandwidth + out / d.bandwidth);
}

std::string describe(const DeviceInfo& d) {
  std::string text = fmt::format(
      "{}: {} cores{}{}, {:.1f} GiB, {:.1f} GB/s, ", d.name, d.cores, d.isa.empty() ? "" : ", ",
      d.isa, static_cast<double>(d.memory_bytes) / (1 << 30), d.bandwidth / 1e9);
  if (d.conv_flops == 0) return text + fmt::format("{:.0f} Gflop/s", d.flops / 1e9);
  return text +
         fmt::format(
             "{:.0f} in caches, {:.0f} Gflop/s in products, {:.0f} in convolutions, {:.0f} by "
             "filters, {:.0f} by channel, {:.0f} in loops, {:.1f} us to start threads{}",
             d.cache_bandwidth / 1e9, d.product_flops / 1e9, d.conv_flops / 1e9,
             d.filter_flops / 1e9, d.depthwise_flops / 1e9, d.kernel_flops / 1e9,
             d.parallel_latency * 1e6,
             d.measured_busy ? fmt::format("; measured while the machine was busy, so within a "
                                           "factor of {:.1f} and kept for an hour only",
                                           d.rate_factor)
                             : "");
}

}  // namespace snug
