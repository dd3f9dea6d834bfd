#include <algorithm>

#include "plan/memory_plan.h"
#include "plan/packing.h"

namespace snug {
namespace {

/// The arena buffers of one space; those that share storage in place are one item.
struct Blocks {
  std::vector<PackItem> items;
  std::vector<std::int32_t> of;  // per buffer; -1: none
};

Blocks make_blocks(const Schedule& s, Space space) {
  Blocks blocks;
  blocks.of.assign(s.buffers.size(), -1);
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    if (buf.where != Where::Arena || buf.space != space || buf.bytes == 0) continue;
    std::int32_t k =
        buf.in_place_of >= 0 ? blocks.of[static_cast<std::size_t>(buf.in_place_of)] : -1;
    if (k < 0) {
      k = static_cast<std::int32_t>(blocks.items.size());
      blocks.items.push_back({buf.first, buf.last + std::int64_t{1}, 0});
    }
    blocks.of[b] = k;
    PackItem& item = blocks.items[static_cast<std::size_t>(k)];
    item.lower = std::min<std::int64_t>(item.lower, buf.first);
    item.upper = std::max<std::int64_t>(item.upper, buf.last + std::int64_t{1});
    item.bytes = std::max(item.bytes, arena_aligned(buf.bytes));
  }
  return blocks;
}

}  // namespace

std::uint64_t load_of(const Schedule& s) {
  std::vector<std::uint64_t> change(s.steps.size() + 1, 0);  // modulo 2^64
  for (const PackItem& item : make_blocks(s, kHostSpace).items) {
    change[static_cast<std::size_t>(item.lower)] += item.bytes;
    change[static_cast<std::size_t>(item.upper)] -= item.bytes;
  }
  std::uint64_t live = 0, most = 0;
  for (const std::uint64_t c : change) most = std::max(most, live += c);
  return most;
}

MemoryPlan pack(const Schedule& s, PackEffort effort) {
  // Planning a function may take as long as making one of its kernels.
  constexpr std::uint64_t kWork = 20'000'000;
  MemoryPlan plan;
  plan.offsets.assign(s.buffers.size(), 0);
  plan.arenas.resize(spaces_of(s));
  for (Space space = 0; space < plan.arenas.size(); ++space) {
    const Blocks blocks = make_blocks(s, space);
    const Packing packing = effort == PackEffort::Quick
                                ? pack_quickly(blocks.items)
                                : pack_thoroughly(blocks.items, {.work = kWork});
    plan.arenas[space] = {packing.height, packing.load, static_cast<std::uint32_t>(packing.load_at),
                          packing.bound};
    for (std::size_t b = 0; b < s.buffers.size(); ++b)
      if (blocks.of[b] >= 0)
        plan.offsets[b] = packing.offsets[static_cast<std::size_t>(blocks.of[b])];
  }
  verify(s, plan);
  return plan;
}

}  // namespace snug
