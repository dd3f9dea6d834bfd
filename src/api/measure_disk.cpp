#include "api/measure_disk.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "api/measure_device.h"
#include "base/disk_cache.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/interrupt.h"
#include "exec/offload_file.h"

namespace snug {
namespace {

constexpr const char* kSymbol = "disk";

DiskRates measure(const std::string& directory) {
  constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;
  constexpr int kRounds = 2;
  std::vector<std::byte> data(kBytes);
  for (std::size_t i = 0; i < data.size(); ++i)  // some disks write zeros faster
    data[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
  OffloadFile file(directory);
  file.reserve(kBytes);
  const auto seconds = [&](bool store) {
    double best = std::numeric_limits<double>::max();
    for (int round = 0; round < kRounds; ++round) {
      check_interrupt();
      file.moves() = {{data.data(), kBytes, 0, store}};
      file.start();
      const auto begin = std::chrono::steady_clock::now();
      file.allow(1);
      file.wait(1);
      best = std::min(
          best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  DiskRates rates;
  rates.write = static_cast<double>(kBytes) / seconds(true);
  rates.read = static_cast<double>(kBytes) / seconds(false);
  return rates;
}

std::optional<DiskRates> from_text(std::string_view text) {
  DiskRates rates;
  const char* const end = text.data() + text.size();
  const auto write = std::from_chars(text.data(), end, rates.write);
  if (write.ec != std::errc{} || write.ptr == end) return std::nullopt;
  const auto read = std::from_chars(write.ptr + 1, end, rates.read);
  if (read.ec != std::errc{} || !(rates.write > 0) || !(rates.read > 0)) return std::nullopt;
  return rates;
}

}  // namespace

DiskRates measured_disk(const std::string& directory) {
  static LongMutex& mutex = *new LongMutex;
  static std::map<dev_t, DiskRates>& known = *new std::map<dev_t, DiskRates>;
  OffloadFile usable(directory);  // or an error
  struct stat about {};
  stat(directory.c_str(), &about);
  std::lock_guard lock(mutex);
  if (const auto it = known.find(about.st_dev); it != known.end()) return it->second;
  DiskCache cache(DiskCache::default_directory());
  const CacheKey key =
      hash_bytes(fmt::format("disk 1 {} {} {}", SNUG_VERSION, host_device().model, about.st_dev));
  std::optional<DiskRates> rates;
  if (cache.on())
    if (const auto entry = cache.load(key); entry && entry->symbol == kSymbol)
      rates = from_text(entry->object);
  if (!rates) {
    rates = measure(directory);
    if (cache.on()) cache.store(key, {kSymbol, fmt::format("{} {}", rates->write, rates->read)});
  }
  const NoFork whole;
  return known[about.st_dev] = *rates;
}

std::optional<DiskRates> some_disk_rates() {
  const DiskCache cache(DiskCache::default_directory());
  try {
    return measured_disk(cache.on() ? cache.directory().string() : ".");
  } catch (const Error& e) {
    if (e.fault() == Fault::Interrupted) throw;
    return std::nullopt;
  }
}

}  // namespace snug
