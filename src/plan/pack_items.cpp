#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "plan/first_fit.h"
#include "plan/pack_search.h"
#include "plan/packing.h"

namespace snug {
namespace {

/// The items that take room, on the axis of sections.
struct Problem {
  std::vector<SectionItem> items;
  std::vector<std::uint32_t> source;  // index of the caller's item
  std::uint64_t meetings = 0;         // pairs
};

struct Event {
  std::int64_t time;
  bool start;  // at one time items end before others start
  std::uint32_t item;
  auto operator<=>(const Event&) const = default;
};

Problem make_problem(std::span<const PackItem> items, Packing& packing) {
  Problem p;
  std::vector<Event> events;
  events.reserve(2 * items.size());
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes == 0 || items[i].lower >= items[i].upper) continue;
    const auto k = static_cast<std::uint32_t>(p.items.size());
    if (items[i].bytes > INT64_MAX)
      fail(Fault::Value, fmt::format("an item of {} bytes is too large", items[i].bytes));
    p.items.push_back({0, 0, static_cast<std::int64_t>(items[i].bytes)});
    p.source.push_back(i);
    events.push_back({items[i].lower, true, k});
    events.push_back({items[i].upper, false, k});
  }
  std::sort(events.begin(), events.end());
  std::uint32_t section = 0;
  std::uint64_t live = 0;
  bool starting = false;
  for (const Event& e : events) {
    SectionItem& item = p.items[e.item];
    if (!e.start && starting) ++section;  // the items alive are a largest set
    starting = e.start;
    if (!e.start) {
      item.end = section;
      live -= static_cast<std::uint64_t>(item.bytes);
      continue;
    }
    item.first = section;
    live += static_cast<std::uint64_t>(item.bytes);
    if (live > INT64_MAX)
      fail(Fault::Value, fmt::format("more than {} bytes are alive at {}", INT64_MAX, e.time));
    if (live > packing.load) packing.load = live, packing.load_at = e.time;
  }
  p.meetings = count_meetings(p.items);
  packing.bound = packing.load;
  packing.offsets.assign(items.size(), 0);
  packing.height = UINT64_MAX;
  if (p.items.empty()) packing.height = 0;
  return p;
}

void take_if_lower(const Problem& p, std::span<const std::int64_t> offsets, std::int64_t height,
                   Packing& packing) {
  if (height < 0 || static_cast<std::uint64_t>(height) >= packing.height) return;
  packing.height = static_cast<std::uint64_t>(height);
  for (std::size_t k = 0; k < p.items.size(); ++k)
    packing.offsets[p.source[k]] = static_cast<std::uint64_t>(offsets[k]);
}

/// First fit in order of bytes, area and length of life, as long as that may help.
void run_first_fit(const Problem& p, Packing& packing) {
  constexpr std::uint64_t kMostMeetings = 30'000'000;  // for more than one order
  std::vector<std::uint32_t> order(p.items.size());
  std::vector<std::int64_t> offsets(p.items.size());
  auto width = [&](std::uint32_t i) {
    return static_cast<double>(p.items[i].end - p.items[i].first);
  };
  auto try_order = [&](auto key) {
    if (packing.height <= packing.bound) return;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return key(a) > key(b); });
    take_if_lower(p, offsets, first_fit(p.items, order, p.meetings, offsets), packing);
  };
  try_order([&](std::uint32_t i) { return static_cast<double>(p.items[i].bytes); });
  if (p.meetings <= kMostMeetings || packing.height == UINT64_MAX) {
    try_order([&](std::uint32_t i) { return static_cast<double>(p.items[i].bytes) * width(i); });
    try_order(width);
  }
  if (packing.height == UINT64_MAX)
    fail(Fault::Value, fmt::format("found no packing of at most {} bytes", INT64_MAX));
}

/// Lowers the height by searches for less and less, until it is known to be the lowest or the work
/// is spent.
class Minimizer {
 public:
  Minimizer(const Problem& p, const PackLimits& limits, Packing& packing)
      : p_(p), limits_(limits), packing_(packing), scaled_(p.items) {
    for (const SectionItem& i : scaled_) unit_ = std::gcd(unit_, i.bytes);
    for (SectionItem& i : scaled_) i.bytes /= unit_;
    search_.emplace(scaled_);
  }

  void run() {
    if (limits_.capacity > packing_.load) {
      attempt(units(limits_.capacity), limits_.work);
    } else {
      // Mostly the load is reached; a bisection finds the way there where it is hard.
      attempt(units(packing_.load), limits_.work / 2);
      std::int64_t low = units(packing_.load) + 1;
      while (low < units(packing_.height) && search_->work() < limits_.work) {
        const std::int64_t middle = low + (units(packing_.height) - 1 - low) / 2;
        if (!attempt(middle, (limits_.work - search_->work()) / 4 + 1)) low = middle + 1;
      }
    }
    packing_.nodes = search_->nodes();
  }

 private:
  std::int64_t units(std::uint64_t bytes) const { return static_cast<std::int64_t>(bytes) / unit_; }

  bool attempt(std::int64_t capacity, std::uint64_t work) {
    const PackSearch::Outcome outcome = search_->run(capacity, work);
    if (outcome == PackSearch::Outcome::Impossible)
      packing_.bound = std::max(packing_.bound, static_cast<std::uint64_t>((capacity + 1) * unit_));
    if (outcome != PackSearch::Outcome::Found) return false;
    std::vector<std::int64_t> offsets(search_->offsets().begin(), search_->offsets().end());
    const std::int64_t height = settle(offsets);
    for (std::int64_t& o : offsets) o *= unit_;
    take_if_lower(p_, offsets, height * unit_, packing_);
    return true;
  }

  /// Items from below, each to the lowest free place: never higher than it was.
  std::int64_t settle(std::vector<std::int64_t>& offsets) const {
    std::vector<std::uint32_t> order(offsets.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return offsets[a] < offsets[b]; });
    return first_fit(scaled_, order, p_.meetings, offsets);
  }

  const Problem& p_;
  const PackLimits& limits_;
  Packing& packing_;
  std::vector<SectionItem> scaled_;
  std::int64_t unit_ = 0;  // divides all sizes
  std::optional<PackSearch> search_;
};

}  // namespace

Packing pack_quickly(std::span<const PackItem> items) {
  Packing packing;
  const Problem p = make_problem(items, packing);
  if (!p.items.empty()) run_first_fit(p, packing);
  return packing;
}

Packing pack_thoroughly(std::span<const PackItem> items, const PackLimits& limits) {
  Packing packing;
  const Problem p = make_problem(items, packing);
  if (p.items.empty()) return packing;
  run_first_fit(p, packing);
  const bool done = packing.height <= std::max(packing.bound, limits.capacity);
  const bool hopeless = limits.capacity != 0 && limits.capacity < packing.load;
  // Sums of the search are of a lowest place and a load.
  if (!done && !hopeless && p.items.size() <= PackSearch::kMaxItems &&
      packing.height <= INT64_MAX / 4)
    Minimizer(p, limits, packing).run();
  return packing;
}

}  // namespace snug
