#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/opencl/tiled_product.h"
#include "base/disk_cache.h"
#include "base/fork.h"

namespace snug {

class OpenClDevice;
class OpenClQueues;

/// Which tile is fastest for a kind of products on a device: measured once, and kept on disk. A
/// process measures for two seconds at most, unless it may for longer; what is not known by then,
/// later ones find out.
class TileTimes {
 public:
  explicit TileTimes(OpenClDevice& device);

  /// What was measured before, by this process or by another one with this driver.
  std::optional<ProductTile> known(const std::string& kind, std::span<const ProductTile> tiles);

  struct Trial {
    std::uint64_t bytes = 0;                 // that it works in
    std::function<void(std::size_t)> ready;  // makes the kernel of a tile, by its number
    /// Asks for a product by it.
    std::function<void(std::size_t, OpenClQueues&, std::byte* memory)> ask;
  };
  /// Nothing where memory or time do not suffice, or where a kernel fails.
  std::optional<ProductTile> measure(const std::string& kind, std::span<const ProductTile> tiles,
                                     const Trial& trial);

  /// Kinds whose tile is known to this process.
  std::size_t count() const { return known_.size(); }
  /// Seconds that this process may measure for.
  void allow(double seconds) { allowed_ = seconds; }
  /// For tests: all products that are prepared from now on have this tile.
  void force(std::optional<ProductTile> tile) { forced_ = tile; }
  std::optional<ProductTile> forced() const { return forced_; }

 private:
  CacheKey key_of(const std::string& kind) const;
  std::size_t fastest(std::span<const ProductTile> tiles, const Trial& trial);

  OpenClDevice& device_;
  DiskCache disk_;
  LongMutex mutex_;
  std::map<std::string, ProductTile> known_;
  double allowed_ = 2, spent_ = 0;  // seconds
  std::optional<ProductTile> forced_;
};

}  // namespace snug
