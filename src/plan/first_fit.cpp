#include "plan/first_fit.h"

#include <algorithm>
#include <numeric>

#include "base/interrupt.h"

namespace snug {
namespace {

/// The lowest gap of `bytes`, walking up over what is taken.
struct GapFinder {
  std::int64_t bytes, alignment, at = 0;
  /// False: the gap below `begin` is large enough.
  bool pass(std::int64_t begin, std::int64_t end) {
    if (begin >= at && begin - at >= bytes) return false;
    if (end > at) at = align_up(end, alignment);
    return true;
  }
};

/// What is placed, by offset, in blocks: found by looking through them from below. Quick where many
/// items meet.
class PlacedByOffset {
 public:
  explicit PlacedByOffset(std::span<const SectionItem> items) : items_(items) {
    blocks_.reserve(items.size() / (kBlock / 2) + 1);
    blocks_.emplace_back();
    order_.push_back(0);
  }

  std::int64_t lowest_gap(const SectionItem& item, std::int64_t alignment) const {
    GapFinder gap{item.bytes, alignment};
    for (std::uint32_t b : order_)
      if (!pass(blocks_[b], item, gap)) break;
    return gap.at;
  }

  void add(std::uint32_t i, std::int64_t offset) {
    auto after = std::upper_bound(
        order_.begin() + 1, order_.end(), offset,
        [&](std::int64_t o, std::uint32_t b) { return o < blocks_[b].ranges[0].offset; });
    std::uint32_t b = *std::prev(after);
    if (blocks_[b].size == kBlock) {
      blocks_.push_back(blocks_[b].split());
      const auto half = static_cast<std::uint32_t>(blocks_.size() - 1);
      order_.insert(after, half);
      if (offset >= blocks_[half].ranges[0].offset) b = half;
    }
    blocks_[b].insert(items_[i], offset);
  }

 private:
  static constexpr std::uint32_t kBlock = 256, kChunk = 32;
  struct Range {
    std::int64_t offset, end;
  };
  struct Block {
    std::uint32_t size = 0;
    std::uint32_t first[kBlock], end[kBlock];  // sections
    Range ranges[kBlock];                      // bytes

    void insert(const SectionItem& item, std::int64_t offset) {
      std::uint32_t at = size++;
      for (; at > 0 && ranges[at - 1].offset > offset; --at) {
        first[at] = first[at - 1];
        end[at] = end[at - 1];
        ranges[at] = ranges[at - 1];
      }
      first[at] = item.first;
      end[at] = item.end;
      ranges[at] = {offset, offset + item.bytes};
    }

    Block split() {
      Block upper;
      upper.size = size / 2;
      size -= upper.size;
      std::copy_n(first + size, upper.size, upper.first);
      std::copy_n(end + size, upper.size, upper.end);
      std::copy_n(ranges + size, upper.size, upper.ranges);
      return upper;
    }
  };

  static bool pass(const Block& b, const SectionItem& item, GapFinder& gap) {
    for (std::uint32_t k = 0; k < b.size; k += kChunk) {
      const std::uint32_t stop = std::min(b.size, k + kChunk);
      int meets = 0;  // most chunks have nothing that meets the item: no branch for each
#pragma omp simd reduction(| : meets)
      for (std::uint32_t j = k; j < stop; ++j)
        meets |= static_cast<int>(b.first[j] < item.end) & static_cast<int>(b.end[j] > item.first);
      if (!meets) continue;
      for (std::uint32_t j = k; j < stop; ++j)
        if (b.first[j] < item.end && b.end[j] > item.first &&
            !gap.pass(b.ranges[j].offset, b.ranges[j].end))
          return false;
    }
    return true;
  }

  std::span<const SectionItem> items_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> order_;  // blocks, from below
};

/// What is placed, in a tree over the items by first section that holds the latest end of those
/// below: what meets an item is found in logarithmic time each. Quick where few items meet.
class PlacedBySection {
 public:
  explicit PlacedBySection(std::span<const SectionItem> items)
      : items_(items), by_first_(items.size()), rank_(items.size()), offset_(items.size()) {
    std::iota(by_first_.begin(), by_first_.end(), 0);
    std::stable_sort(by_first_.begin(), by_first_.end(),
                     [&](auto a, auto b) { return items[a].first < items[b].first; });
    for (std::uint32_t k = 0; k < by_first_.size(); ++k) rank_[by_first_[k]] = k;
    while (leaves_ < items.size()) leaves_ *= 2;
    end_.assign(2 * leaves_, 0);
  }

  std::int64_t lowest_gap(const SectionItem& item, std::int64_t alignment) {
    taken_.clear();
    stack_.assign(1, {1, leaves_});
    while (!stack_.empty()) {
      auto [node, width] = stack_.back();
      stack_.pop_back();
      if (end_[node] <= item.first) continue;
      std::size_t begin = node * width - leaves_;  // rank of its first leaf
      const std::uint32_t other = by_first_[begin];
      if (items_[other].first >= item.end) continue;
      if (width == 1) {
        taken_.emplace_back(offset_[other], offset_[other] + items_[other].bytes);
        continue;
      }
      stack_.push_back({2 * node + 1, width / 2});
      stack_.push_back({2 * node, width / 2});
    }
    std::sort(taken_.begin(), taken_.end());
    GapFinder gap{item.bytes, alignment};
    for (auto [begin, end] : taken_)
      if (!gap.pass(begin, end)) break;
    return gap.at;
  }

  void add(std::uint32_t i, std::int64_t offset) {
    offset_[i] = offset;
    for (std::size_t k = leaves_ + rank_[i]; k > 0; k /= 2)
      end_[k] = std::max(end_[k], items_[i].end);
  }

 private:
  std::span<const SectionItem> items_;
  std::vector<std::uint32_t> by_first_, rank_;
  std::vector<std::int64_t> offset_;
  std::size_t leaves_ = 1;
  std::vector<std::uint32_t> end_;                          // a heap; 0 where nothing is placed
  std::vector<std::pair<std::size_t, std::size_t>> stack_;  // node, its number of leaves
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
};

template <class Placed>
std::int64_t place(std::span<const SectionItem> items, std::span<const std::uint32_t> order,
                   std::span<std::int64_t> offsets, std::span<const std::int64_t> alignments) {
  Placed placed(items);
  std::int64_t height = 0;
  for (std::uint32_t i : order) {
    check_interrupt();
    offsets[i] = placed.lowest_gap(items[i], alignments.empty() ? 1 : alignments[i]);
    if (offsets[i] > INT64_MAX - items[i].bytes) return -1;
    height = std::max(height, offsets[i] + items[i].bytes);
    placed.add(i, offsets[i]);
  }
  return height;
}

// In looks at an item of the list; a meeting costs the tree about 60 times as much.
std::uint64_t list_cost(std::uint64_t items) { return items * items / 2; }
std::uint64_t tree_cost(std::uint64_t meetings) { return 60 * meetings; }

}  // namespace

std::uint64_t first_fit_cost(std::uint64_t items, std::uint64_t meetings) {
  return std::min(list_cost(items), tree_cost(meetings));
}

std::uint64_t count_meetings(std::span<const SectionItem> items) {
  std::uint32_t sections = 0;
  for (const SectionItem& i : items) sections = std::max(sections, i.end);
  std::vector<std::uint64_t> starts(sections + 1, 0), ends(sections + 1, 0);
  for (const SectionItem& i : items) ++starts[i.first], ++ends[i.end];
  std::uint64_t alive = 0, meetings = 0;
  for (std::uint32_t s = 0; s < sections; ++s) {
    alive -= ends[s];
    meetings += starts[s] * alive + starts[s] * (starts[s] - (starts[s] > 0)) / 2;
    alive += starts[s];
  }
  return meetings;
}

std::int64_t first_fit(std::span<const SectionItem> items, std::span<const std::uint32_t> order,
                       std::uint64_t meetings, std::span<std::int64_t> offsets,
                       std::span<const std::int64_t> alignments) {
  const bool few = tree_cost(meetings) < list_cost(items.size());
  return few ? place<PlacedBySection>(items, order, offsets, alignments)
             : place<PlacedByOffset>(items, order, offsets, alignments);
}

}  // namespace snug
