#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plan/packing.h"

namespace snug {
namespace {

struct Event {
  std::int64_t time;
  bool start;  // at one time items end before others start
  std::size_t item;
  auto operator<=>(const Event&) const = default;
};

}  // namespace

std::string find_fault(std::span<const PackItem> items, std::span<const std::uint64_t> offsets,
                       std::uint64_t height, std::span<const std::string> names) {
  if (offsets.size() != items.size())
    return fmt::format("{} offsets for {} items", offsets.size(), items.size());
  auto name = [&](std::size_t i) { return names.empty() ? fmt::format("item {}", i) : names[i]; };
  std::vector<Event> events;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes == 0 || items[i].lower >= items[i].upper) continue;
    if (offsets[i] > height || items[i].bytes > height - offsets[i])
      return fmt::format("{} of {} bytes at {} leaves the height of {}", name(i), items[i].bytes,
                         offsets[i], height);
    if (offsets[i] % items[i].alignment != 0)
      return fmt::format("{} at {} is not aligned to {}", name(i), offsets[i], items[i].alignment);
    events.push_back({items[i].lower, true, i});
    events.push_back({items[i].upper, false, i});
  }
  std::sort(events.begin(), events.end());
  std::map<std::uint64_t, std::size_t> alive;  // offset -> item; disjoint, so neighbours suffice
  for (const Event& e : events) {
    if (!e.start) {
      alive.erase(offsets[e.item]);
      continue;
    }
    auto after = alive.lower_bound(offsets[e.item]);
    if (after != alive.end() && after->first - offsets[e.item] < items[e.item].bytes)
      return fmt::format("{} and {} overlap", name(after->second), name(e.item));
    if (after != alive.begin()) {
      auto before = std::prev(after);
      if (offsets[e.item] - before->first < items[before->second].bytes)
        return fmt::format("{} and {} overlap", name(before->second), name(e.item));
    }
    alive.emplace(offsets[e.item], e.item);
  }
  return "";
}

}  // namespace snug
