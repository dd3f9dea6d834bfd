#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "base/error.h"
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
  const std::uint64_t alignment = s.rules_of(space).alignment;
  blocks.of.assign(s.buffers.size(), -1);
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    if (buf.where != Where::Arena || buf.space != space || buf.bytes == 0) continue;
    std::int32_t k =
        buf.in_place_of >= 0 ? blocks.of[static_cast<std::size_t>(buf.in_place_of)] : -1;
    if (k < 0) {
      k = static_cast<std::int32_t>(blocks.items.size());
      blocks.items.push_back({buf.first, buf.last + std::int64_t{1}, 0, 1});
      // The usual one is that of the sizes.
      if (alignment > kArenaAlign) blocks.items.back().alignment = alignment;
    }
    blocks.of[b] = k;
    PackItem& item = blocks.items[static_cast<std::size_t>(k)];
    item.lower = std::min<std::int64_t>(item.lower, buf.first);
    item.upper = std::max<std::int64_t>(item.upper, buf.last + std::int64_t{1});
    item.bytes = std::max(item.bytes, arena_aligned(buf.bytes));
  }
  return blocks;
}

/// The next place that an item may have: inside of one slab; what is larger, as the arena of a
/// loop, which has slabs of its own, begins where one begins.
std::uint64_t next_place(const PackItem& item, std::uint64_t slab, std::uint64_t at) {
  at = (at + item.alignment - 1) / item.alignment * item.alignment;
  const std::uint64_t next_slab = (at + slab - 1) / slab * slab;
  if (item.bytes > slab) return next_slab;
  return item.bytes == 0 || at / slab == (at + item.bytes - 1) / slab ? at : next_slab;
}

bool lies_across(std::span<const PackItem> items, std::span<const std::uint64_t> offsets,
                 std::uint64_t slab) {
  for (std::size_t k = 0; k < items.size(); ++k)
    if (offsets[k] != next_place(items[k], slab, offsets[k])) return true;
  return false;
}

/// Each item, the largest first, at the lowest place that is free while it lives.
void pack_in_slabs(std::span<const PackItem> items, std::uint64_t slab, Packing& packing) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return items[a].bytes > items[b].bytes; });
  std::vector<std::uint32_t> placed;  // by offset
  packing.height = 0;
  for (const std::uint32_t i : order) {
    const PackItem& item = items[i];
    std::uint64_t at = next_place(item, slab, 0);
    for (const std::uint32_t k : placed) {
      const PackItem& other = items[k];
      if (other.lower >= item.upper || item.lower >= other.upper) continue;
      const std::uint64_t begin = packing.offsets[k];
      if (at + item.bytes <= begin) break;
      at = std::max(at, next_place(item, slab, begin + other.bytes));
    }
    packing.offsets[i] = at;
    packing.height = std::max(packing.height, at + item.bytes);
    const auto behind = std::upper_bound(
        placed.begin(), placed.end(), at,
        [&](std::uint64_t offset, std::uint32_t k) { return offset < packing.offsets[k]; });
    placed.insert(behind, i);
  }
}

}  // namespace

bool ArenaLimits::hold(const MemoryPlan& plan) const {
  for (DeviceId d = 0; d < bytes_.size(); ++d)
    if (!allow(d, plan.bytes_in(d))) return false;
  return true;
}

std::vector<std::uint64_t> loads_of(const Schedule& s) {
  std::vector<std::uint64_t> loads(1, 0);
  for (Space space = 0; space < spaces_of(s); ++space) {
    std::vector<std::uint64_t> change(s.steps.size() + 1, 0);  // modulo 2^64
    for (const PackItem& item : make_blocks(s, space).items) {
      change[static_cast<std::size_t>(item.lower)] += item.bytes;
      change[static_cast<std::size_t>(item.upper)] -= item.bytes;
    }
    std::uint64_t live = 0, most = 0;
    for (const std::uint64_t c : change) most = std::max(most, live += c);
    loads.resize(std::max<std::size_t>(loads.size(), memory_of(space) + 1U), 0);
    loads[memory_of(space)] += most;
  }
  return loads;
}

MemoryPlan pack(const Schedule& s, PackEffort effort) {
  // Planning a function may take as long as making one of its kernels.
  constexpr std::uint64_t kWork = 20'000'000;
  MemoryPlan plan;
  plan.offsets.assign(s.buffers.size(), 0);
  plan.arenas.resize(spaces_of(s));
  for (Space space = 0; space < plan.arenas.size(); ++space) {
    const Blocks blocks = make_blocks(s, space);
    Packing packing = effort == PackEffort::Quick ? pack_quickly(blocks.items)
                                                  : pack_thoroughly(blocks.items, {.work = kWork});
    if (const std::uint64_t slab = s.rules_of(space).slab)
      if (lies_across(blocks.items, packing.offsets, slab))
        pack_in_slabs(blocks.items, slab, packing);
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
