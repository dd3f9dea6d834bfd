#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/first_fit.h"

namespace snug {

struct SeamPacking {
  std::vector<std::int64_t> offsets;             // empty: none was found
  std::uint64_t nodes = 0, work = 0, tries = 0;  // spent; work as in PackLimits
};

/// A packing as high as the load, of items whose sum is the same in all sections: they leave no
/// gap.
///
/// What ends between two sections and what starts there then meets in seams: intervals of offsets
/// with as many bytes that end as start. Going over time, it keeps all orders in which the items
/// alive can lie upon each other (PackOrders): what ends at a seam lies together, and what starts
/// there takes its place in any order. Mostly there is one seam; where there are more, it tries
/// ways to match what ends and what starts. An order that is left at the end is a packing: a test
/// for planarity, of a graph whose nodes are the seams and whose edges are the items.
///
/// Many short tries, each in another order; a later call may go on with those that are not tried.
SeamPacking pack_seams(std::span<const SectionItem> items, std::uint64_t work,
                       std::uint64_t tried = 0);

}  // namespace snug
