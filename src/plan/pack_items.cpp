#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "plan/first_fit.h"
#include "plan/pack_search.h"
#include "plan/packing.h"
#include "plan/sweep_fit.h"

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

/// Sums of bytes per section.
std::vector<std::int64_t> loads(std::span<const SectionItem> items) {
  std::uint32_t sections = 0;
  for (const SectionItem& i : items) sections = std::max(sections, i.end);
  std::vector<std::int64_t> sums(sections + 1, 0);
  for (const SectionItem& i : items) sums[i.first] += i.bytes, sums[i.end] -= i.bytes;
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

/// By size, which counts in powers of 4; those of a size by the largest load of their sections,
/// which counts in hundredths of `most`; then by start.
std::vector<std::uint32_t> by_size_and_load(std::span<const SectionItem> items,
                                            const std::vector<std::int64_t>& load,
                                            std::int64_t most) {
  // Per power of two, the largest load of so many sections from each on.
  std::vector<std::vector<std::int64_t>> largest = {load};
  for (std::size_t w = 1; 2 * w <= load.size(); w *= 2) {
    const std::vector<std::int64_t>& half = largest.back();
    std::vector<std::int64_t> whole(half.size() - w);
    for (std::size_t s = 0; s < whole.size(); ++s) whole[s] = std::max(half[s], half[s + w]);
    largest.push_back(std::move(whole));
  }
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::uint32_t>;
  std::vector<Key> keys;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    const std::uint32_t first = items[i].first, end = items[i].end;
    const int w = std::bit_width(end - first) - 1;
    const std::int64_t load = std::max(largest[w][first], largest[w][end - (1U << w)]);
    const int size = std::bit_width(static_cast<std::uint64_t>(items[i].bytes)) / 2;
    keys.emplace_back(-size, -(load / (most / 100 + 1)), first, i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::uint32_t> order;
  for (const Key& key : keys) order.push_back(std::get<3>(key));
  return order;
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

/// The items of the most bytes by first fit, those of sections that are nearly full first; the
/// others, which take little, above them.
void run_in_two_parts(const Problem& p, Packing& packing) {
  const std::vector<std::int64_t> load = loads(p.items);
  const auto most = static_cast<std::int64_t>(packing.load);
  std::vector<std::uint32_t> order(p.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return p.items[a].bytes < p.items[b].bytes; });
  std::vector<SectionItem> small, large;
  // As many small ones as take a 256th of the load.
  std::size_t low = 0, high = order.size();
  while (low + 1 < high) {
    const std::size_t middle = low + (high - low) / 2;
    small.clear();
    for (std::size_t k = 0; k < middle; ++k) small.push_back(p.items[order[k]]);
    const std::vector<std::int64_t> sums = loads(small);
    (*std::max_element(sums.begin(), sums.end()) <= most / 256 ? low : high) = middle;
  }
  small.clear();
  for (std::size_t k = 0; k < order.size(); ++k)
    (k < low ? small : large).push_back(p.items[order[k]]);

  const std::vector<std::uint32_t> placing = by_size_and_load(large, load, most);
  std::vector<std::int64_t> below(large.size()), above(small.size()), offsets(p.items.size());
  const std::int64_t floor = first_fit(large, placing, count_meetings(large), below);
  const std::int64_t rest = small.empty() ? 0 : sweep_fit(small, most / 200, above);
  if (floor < 0 || rest < 0) return;
  for (std::size_t k = 0; k < order.size(); ++k)
    offsets[order[k]] = k < low ? floor + above[k] : below[k - low];
  take_if_lower(p, offsets, floor + rest, packing);
}

/// The quick ways, as long as they may help: the load, or of many items less than a hundredth
/// above.
void place_greedily(const Problem& p, Packing& packing) {
  constexpr std::uint64_t kCheap = 200'000'000;  // about 0.1 s
  if (first_fit_cost(p.items.size(), p.meetings) <= kCheap) run_first_fit(p, packing);
  const std::uint64_t enough = packing.load + packing.load / 128;
  if (p.items.size() > PackSearch::kMaxItems && enough <= INT64_MAX / 4) {
    std::vector<std::int64_t> offsets(p.items.size());
    if (packing.height > enough)
      take_if_lower(p, offsets, sweep_fit(p.items, static_cast<std::int64_t>(enough), offsets),
                    packing);
    if (packing.height > enough) run_in_two_parts(p, packing);
  }
  if (packing.height == UINT64_MAX) run_first_fit(p, packing);
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
  if (!p.items.empty()) place_greedily(p, packing);
  return packing;
}

Packing pack_thoroughly(std::span<const PackItem> items, const PackLimits& limits) {
  Packing packing;
  const Problem p = make_problem(items, packing);
  if (p.items.empty()) return packing;
  place_greedily(p, packing);
  const bool done = packing.height <= std::max(packing.bound, limits.capacity);
  const bool hopeless = limits.capacity != 0 && limits.capacity < packing.load;
  // Sums of the search are of a lowest place and a load.
  if (!done && !hopeless && p.items.size() <= PackSearch::kMaxItems &&
      packing.height <= INT64_MAX / 4)
    Minimizer(p, limits, packing).run();
  return packing;
}

}  // namespace snug
