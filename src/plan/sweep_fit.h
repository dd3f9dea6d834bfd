#pragma once
#include <cstdint>
#include <span>

#include "plan/first_fit.h"

namespace snug {

/// Places items outwards from the section of the largest load, for many items: near-linear.
///
/// The items of that section are stacked, in strips of items that end together, each sorted by
/// start. After it and, backwards, before it, items are placed in the order of time, each into a
/// gap beside one that ends when it does: what they leave is then one large gap instead of many
/// small ones. Where one does not fit below `enough`, the sweep goes back some items and places
/// them otherwise, with a limit in steps; then it goes above. Several numbers of strips are tried
/// until the height is at most `enough`, which is no less than the load. Gives the lowest height,
/// or -1 if the sum of bytes is too large.
std::int64_t sweep_fit(std::span<const SectionItem> items, std::int64_t enough,
                       std::span<std::int64_t> offsets);

}  // namespace snug
