#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/memory_plan.h"

namespace snug {
namespace {

std::uint64_t align_up(std::uint64_t n) {
  return (n + kArenaAlign - 1) / kArenaAlign * kArenaAlign;
}

/// Buffers that share storage in place, as one block with one lifetime.
struct Block {
  std::uint32_t first = 0, last = 0;
  std::uint64_t bytes = 0, offset = 0;
  std::vector<std::uint32_t> buffers;
};

std::vector<Block> make_blocks(const Schedule& s) {
  std::vector<std::int32_t> block_of(s.buffers.size(), -1);
  std::vector<Block> blocks;
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    if (buf.where != Where::Arena || buf.bytes == 0) continue;
    std::int32_t k =
        buf.in_place_of >= 0 ? block_of[static_cast<std::size_t>(buf.in_place_of)] : -1;
    if (k < 0) {
      k = static_cast<std::int32_t>(blocks.size());
      blocks.push_back({buf.first, buf.last, 0, 0, {}});
    }
    block_of[b] = k;
    Block& block = blocks[static_cast<std::size_t>(k)];
    block.first = std::min(block.first, buf.first);
    block.last = std::max(block.last, buf.last);
    block.bytes = std::max(block.bytes, align_up(buf.bytes));
    block.buffers.push_back(b);
  }
  return blocks;
}

/// Finds the placed blocks that are alive at the same time as a given one, each in logarithmic
/// time. A tree over the blocks by first step holds the latest last step of what is placed below.
class Placed {
 public:
  explicit Placed(const std::vector<Block>& blocks) : blocks_(blocks), rank_(blocks.size()) {
    by_first_.resize(blocks.size());
    std::iota(by_first_.begin(), by_first_.end(), 0);
    std::stable_sort(by_first_.begin(), by_first_.end(),
                     [&](auto a, auto b) { return blocks[a].first < blocks[b].first; });
    for (std::uint32_t k = 0; k < by_first_.size(); ++k) rank_[by_first_[k]] = k;
    while (leaves_ < blocks.size()) leaves_ *= 2;
    end_.assign(2 * leaves_, 0);
  }

  void add(std::uint32_t block) {
    std::uint32_t end = blocks_[block].last + 1;
    for (std::size_t k = leaves_ + rank_[block]; k > 0; k /= 2) end_[k] = std::max(end_[k], end);
  }

  /// Bytes of the arena, half-open.
  using Range = std::pair<std::uint64_t, std::uint64_t>;

  /// Fills `taken` with the ranges of those that overlap `block` in time, by offset.
  void overlapping(const Block& block, std::vector<Range>& taken) {
    taken.clear();
    stack_.assign(1, {1, leaves_});
    while (!stack_.empty()) {
      auto [node, width] = stack_.back();
      stack_.pop_back();
      if (end_[node] <= block.first) continue;
      std::size_t begin = node * width - leaves_;  // rank of its first leaf
      if (blocks_[by_first_[begin]].first > block.last) continue;
      if (width == 1) {
        const Block& other = blocks_[by_first_[begin]];
        taken.emplace_back(other.offset, other.offset + other.bytes);
        continue;
      }
      stack_.push_back({2 * node + 1, width / 2});
      stack_.push_back({2 * node, width / 2});
    }
    std::sort(taken.begin(), taken.end());
  }

 private:
  const std::vector<Block>& blocks_;
  std::vector<std::uint32_t> by_first_, rank_;
  std::size_t leaves_ = 1;
  std::vector<std::uint32_t> end_;  // a heap: last step + 1, 0 where nothing is placed
  std::vector<std::pair<std::size_t, std::size_t>> stack_;  // node, its number of leaves
};

/// Each block at the lowest gap that is free during its life, in the given order.
std::uint64_t place(std::vector<Block>& blocks, const std::vector<std::uint32_t>& order) {
  Placed placed(blocks);
  std::vector<Placed::Range> taken;
  std::uint64_t height = 0;
  for (std::uint32_t i : order) {
    Block& block = blocks[i];
    std::uint64_t at = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    placed.overlapping(block, taken);
    for (auto [begin, end] : taken) {
      if (begin > at && begin - at >= block.bytes && begin - at < best_gap) {
        best = at;
        best_gap = begin - at;
      }
      at = std::max(at, end);
    }
    block.offset = best == UINT64_MAX ? at : best;
    height = std::max(height, block.offset + block.bytes);
    placed.add(i);
  }
  return height;
}

/// The largest sum of live bytes, and its step.
void find_load(const Schedule& s, const std::vector<Block>& blocks, MemoryPlan& plan) {
  std::vector<std::int64_t> change(s.steps.size() + 2, 0);
  for (const Block& b : blocks) {
    change[b.first] += static_cast<std::int64_t>(b.bytes);
    change[b.last + 1] -= static_cast<std::int64_t>(b.bytes);
  }
  std::int64_t live = 0;
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    live += change[at];
    if (static_cast<std::uint64_t>(live) > plan.load)
      plan.load = static_cast<std::uint64_t>(live), plan.peak_step = at;
  }
}

}  // namespace

MemoryPlan pack(const Schedule& s) {
  std::vector<Block> blocks = make_blocks(s);
  std::vector<std::uint32_t> by_size(blocks.size()), by_time(blocks.size()), by_area(blocks.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  by_area = by_time = by_size;
  auto area = [&](std::uint32_t i) {
    return static_cast<double>(blocks[i].bytes) * (blocks[i].last - blocks[i].first + 1);
  };
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](auto a, auto b) { return blocks[a].bytes > blocks[b].bytes; });
  std::stable_sort(by_time.begin(), by_time.end(), [&](auto a, auto b) {
    return blocks[a].last - blocks[a].first > blocks[b].last - blocks[b].first;
  });
  std::stable_sort(by_area.begin(), by_area.end(),
                   [&](auto a, auto b) { return area(a) > area(b); });
  MemoryPlan plan;
  find_load(s, blocks, plan);
  plan.bytes = UINT64_MAX;
  for (const auto* order : {&by_size, &by_area, &by_time}) {
    if (plan.bytes == plan.load) break;  // none is lower
    std::vector<Block> trial = blocks;
    std::uint64_t height = place(trial, *order);
    if (height < plan.bytes) {
      plan.bytes = height;
      plan.offsets.assign(s.buffers.size(), 0);
      for (const Block& block : trial)
        for (std::uint32_t b : block.buffers) plan.offsets[b] = block.offset;
    }
  }
  verify(s, plan);
  return plan;
}

}  // namespace snug
