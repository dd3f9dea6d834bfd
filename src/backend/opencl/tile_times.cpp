#include "backend/opencl/tile_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "backend/opencl/opencl_device.h"
#include "backend/opencl/opencl_queues.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress_line.h"

namespace snug {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

TileTimes::TileTimes(OpenClDevice& device)
    : device_(device), disk_(DiskCache::default_directory()) {}

CacheKey TileTimes::key_of(const std::string& kind) const {
  const OpenClFound& f = device_.found();
  return hash_bytes(
      fmt::format("tile 1\n{}\n{}\n{}\n{}\n{}", f.model, f.platform, f.driver, f.version, kind));
}

std::optional<ProductTile> TileTimes::known(const std::string& kind,
                                            std::span<const ProductTile> tiles) {
  const std::lock_guard lock(mutex_);
  const auto is_one = [&](const ProductTile& t) {
    return std::find(tiles.begin(), tiles.end(), t) != tiles.end();
  };
  if (const auto at = known_.find(kind); at != known_.end() && is_one(at->second))
    return at->second;
  const auto entry = disk_.load(key_of(kind));
  ProductTile t;
  if (!entry || std::sscanf(entry->object.c_str(), "%d %d %d %d %d", &t.rows, &t.columns, &t.depth,
                            &t.items_y, &t.items_x) != 5)
    return {};
  if (!is_one(t)) return {};
  known_[kind] = t;
  return t;
}

std::optional<ProductTile> TileTimes::measure(const std::string& kind,
                                              std::span<const ProductTile> tiles,
                                              const Trial& trial) {
  if (const auto there = known(kind, tiles)) return there;
  const std::lock_guard lock(mutex_);
  if (spent_ >= allowed_ || tiles.empty()) return {};
  std::size_t best = kNone;
  const Stopwatch watch;
  try {
    best = fastest(tiles, trial);
  } catch (const Error& e) {  // no room, or a kernel that this driver does not build
    if (e.fault() == Fault::Interrupted) throw;
  }
  spent_ += watch.seconds();
  if (best == kNone) return {};
  const ProductTile& t = known_[kind] = tiles[best];
  disk_.store(key_of(kind), {"", fmt::format("{} {} {} {} {}", t.rows, t.columns, t.depth,
                                             t.items_y, t.items_x)});
  return t;
}

/// All take turns, since clocks rise under load and fall; the best of the times of each counts.
std::size_t TileTimes::fastest(std::span<const ProductTile> tiles, const Trial& trial) {
  constexpr int kRounds = 4;
  constexpr double kLeast = 2e-3;  // seconds that are measured at a time
  const ProgressLine line("measuring products on " + device_.info().name);
  const auto memory = device_.allocate(trial.bytes, "products that are measured");
  const auto opened = device_.open(1);
  auto& queues = dynamic_cast<OpenClQueues&>(*opened);
  const Stopwatch all;
  const auto time = [&](std::size_t tile, int times) {
    const Stopwatch watch;
    for (int k = 0; k < times; ++k) trial.ask(tile, queues, memory->data());
    queues.finish();
    return watch.seconds() / times;
  };
  constexpr double kFar = std::numeric_limits<double>::infinity();
  std::vector<double> best(tiles.size(), kFar);
  std::vector<int> times(tiles.size(), 1);
  const auto fastest = [&] { return std::min_element(best.begin(), best.end()) - best.begin(); };
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t k = 0; k < tiles.size(); ++k) {
      check_interrupt();
      if (spent_ + all.seconds() > allowed_) return kNone;
      if (round == 0) {
        trial.ready(k);
        time(k, 1);
        times[k] = static_cast<int>(std::clamp(kLeast / time(k, 1), 1.0, 64.0));
      } else if (round <= 2 || best[k] < 2 * best[static_cast<std::size_t>(fastest())]) {
        best[k] = std::min(best[k], time(k, times[k]));
      }
    }
  return static_cast<std::size_t>(fastest());
}

}  // namespace snug
