#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace snug {

/// Bytes that are needed at the times lower <= t < upper.
struct PackItem {
  std::int64_t lower = 0, upper = 0;
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 1;  // of the offset: any number above 0
};

/// Offsets such that items alive at the same time do not overlap.
struct Packing {
  std::vector<std::uint64_t> offsets;  // per item
  std::uint64_t height = 0;            // largest offset + bytes
  std::uint64_t load = 0;              // largest sum of live bytes
  std::int64_t load_at = 0;            // the first time of that load
  std::uint64_t bound = 0;  // no packing is lower: the load, or more where a search has shown it
  std::uint64_t nodes = 0;  // visited by the search
  bool proved() const { return height == bound; }  // no packing is lower than this one
};

struct PackLimits {
  std::uint64_t capacity = 0;  // stops at the first packing of at most this height; 0: the lowest
  /// Work of the search, about one unit per nanosecond: a limit that is the same on any machine.
  std::uint64_t work = 2'000'000'000;
};

/// First fit in a few fixed orders, of more than 2000 items also a sweep over time (sweep_fit.h):
/// for use inside of other searches.
Packing pack_quickly(std::span<const PackItem> items);

/// The same, and where it reaches neither the load nor the capacity, a search (pack_search.h).
/// Deterministic. The height is never above that of pack_quickly.
Packing pack_thoroughly(std::span<const PackItem> items, const PackLimits& limits = {});

/// Knows nothing of the packers. The first fault of a packing: two items alive at the same time
/// that overlap, one that is not inside the height or not at a multiple of its alignment; "" if
/// there is none. The text calls items by their names; without names, "item 3".
std::string find_fault(std::span<const PackItem> items, std::span<const std::uint64_t> offsets,
                       std::uint64_t height, std::span<const std::string> names = {});

}  // namespace snug
