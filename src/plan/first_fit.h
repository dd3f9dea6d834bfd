#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace snug {

/// An item on an axis of sections: the largest sets of items alive at the same time, in order.
/// Two items meet if and only if they share a section.
struct SectionItem {
  std::uint32_t first = 0, end = 0;  // sections, half-open, not empty
  std::int64_t bytes = 0;            // more than 0
};

/// Number of pairs of items that meet.
std::uint64_t count_meetings(std::span<const SectionItem> items);

/// What first fit takes, about one unit per half a nanosecond.
std::uint64_t first_fit_cost(std::uint64_t items, std::uint64_t meetings);

/// The next multiple of the alignment; INT64_MAX if it is no 63-bit number.
inline std::int64_t align_up(std::int64_t at, std::int64_t alignment) {
  if (alignment == 1) return at;
  const std::int64_t rest = at % alignment;
  if (rest == 0) return at;
  return at > INT64_MAX - (alignment - rest) ? INT64_MAX : at + (alignment - rest);
}

/// Each item at the lowest place that is free in all of its sections and a multiple of its
/// alignment (none given: of 1), in the given order. Gives the height, or -1 if it is no 63-bit
/// number.
std::int64_t first_fit(std::span<const SectionItem> items, std::span<const std::uint32_t> order,
                       std::uint64_t meetings, std::span<std::int64_t> offsets,
                       std::span<const std::int64_t> alignments = {});

}  // namespace snug
