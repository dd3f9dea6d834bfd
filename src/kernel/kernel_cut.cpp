#include "kernel/kernel_cut.h"

#include <algorithm>

namespace snug {
namespace {

std::int64_t grain_of(const KernelSpec& s, std::size_t axis, std::int64_t extent) {
  constexpr std::int64_t kLong = 1024, kLongGrain = 256;
  constexpr std::int64_t kTile = 32, kColumns = 128;  // of reductions, which read rows in pieces
  const bool reduces = s.rank() != s.outer;
  const bool along = std::ranges::any_of(s.operands, [&](const KernelSpec::Operand& o) {
    return o.strides[axis] == 1 && !(reduces && o.write);
  });
  if (extent >= kLong) return kLongGrain;
  return !along ? 1 : reduces ? kColumns : kTile;
}

/// Not of reductions, whose code is chosen by extents; nor if the place on the axis is a value.
bool may_cut(const KernelSpec& s, std::size_t axis) {
  if (s.rank() != s.outer || s.block != 0 || s.extents[axis] != KernelSpec::kRuntime) return false;
  return std::ranges::none_of(s.body, [&](const Instr& in) {
    return in.prim == Prim::FlatIndex ||
           (in.prim == Prim::Index && in.integer == static_cast<std::int64_t>(axis));
  });
}

}  // namespace

KernelCut choose_cut(const KernelSpec& s, const std::int64_t* extents, int threads) {
  if (s.outer == 0) return {};
  const auto cut_at = [&](std::size_t axis) -> KernelCut {
    return {axis, grain_of(s, axis, extents[axis])};
  };
  const auto pieces = [&](const KernelCut& c) { return extents[c.axis] / c.grain; };
  KernelCut best = cut_at(0);
  if (pieces(best) >= 2 * threads) return best;
  for (std::size_t axis = 1; axis < s.outer; ++axis)
    if (const KernelCut c = cut_at(axis); pieces(c) > pieces(best) && may_cut(s, axis)) best = c;
  return best;
}

}  // namespace snug
