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
                       std::uint64_t height) {
  if (offsets.size() != items.size())
    return fmt::format("{} offsets for {} items", offsets.size(), items.size());
  std::vector<Event> events;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes == 0 || items[i].lower >= items[i].upper) continue;
    if (offsets[i] > height || items[i].bytes > height - offsets[i])
      return fmt::format("item {} of {} bytes at {} leaves the height of {}", i, items[i].bytes,
                         offsets[i], height);
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
      return fmt::format("items {} and {} overlap", after->second, e.item);
    if (after != alive.begin()) {
      auto before = std::prev(after);
      if (offsets[e.item] - before->first < items[before->second].bytes)
        return fmt::format("items {} and {} overlap", before->second, e.item);
    }
    alive.emplace(offsets[e.item], e.item);
  }
  return "";
}

}  // namespace snug
