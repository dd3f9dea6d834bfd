#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "plan/first_fit.h"
#include "plan/pack_seams.h"
#include "plan/pack_search.h"
#include "plan/packing.h"
#include "plan/sweep_fit.h"

namespace snug {
namespace {

/// The items that take room, on the axis of sections. All offsets are multiples of the greatest
/// common divisor of the alignments, so sizes are rounded up to it.
struct Problem {
  std::vector<SectionItem> items;
  std::vector<std::uint32_t> source;  // index of the caller's item
  std::uint64_t meetings = 0;         // pairs
  std::int64_t divisor = 1;           // of all alignments and sizes
  Alignments alignments;              // multiples: where they differ
};

struct Event {
  std::int64_t time;
  bool start;  // at one time items end before others start
  std::uint32_t item;
  auto operator<=>(const Event&) const = default;
};

/// Sums of bytes per section.
std::vector<std::int64_t> loads(std::span<const SectionItem> items) {
  std::uint32_t sections = 0;
  for (const SectionItem& i : items) sections = std::max(sections, i.end);
  std::vector<std::int64_t> sums(sections + 1, 0);
  for (const SectionItem& i : items) sums[i.first] += i.bytes, sums[i.end] -= i.bytes;
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

/// Sizes rounded up, and the bound that gives: in a section, the item at the top needs no padding.
void align(std::span<const PackItem> items, Problem& p, Packing& packing) {
  std::uint64_t divisor = 0, largest = 1;
  for (std::uint32_t i : p.source) {
    divisor = std::gcd(divisor, items[i].alignment);
    largest = std::max(largest, items[i].alignment);
  }
  if (largest == 1) return;
  if (largest > INT64_MAX || divisor == 0 ||
      divisor - 1 > (INT64_MAX - packing.load) / p.items.size())
    fail(Fault::Value, fmt::format("alignments of {} are too large", largest));
  p.divisor = static_cast<std::int64_t>(divisor);
  std::int64_t most = 0;
  for (std::size_t k = 0; k < p.items.size(); ++k) {
    const std::int64_t padding = align_up(p.items[k].bytes, p.divisor) - p.items[k].bytes;
    most = std::max(most, padding);
    p.items[k].bytes += padding;
    p.alignments.padding.push_back(padding);
    if (divisor != largest)
      p.alignments.multiples.push_back(static_cast<std::int64_t>(items[p.source[k]].alignment));
  }
  const std::vector<std::int64_t> sums = loads(p.items);
  const std::int64_t padded = *std::max_element(sums.begin(), sums.end());
  packing.bound = std::max(packing.bound, static_cast<std::uint64_t>(padded - most));
}

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
  align(items, p, packing);
  return p;
}

/// Offsets and their height in units of so many bytes; -1 is no height.
void take_if_lower(const Problem& p, std::span<const std::int64_t> offsets, std::int64_t height,
                   std::int64_t unit, Packing& packing) {
  if (height < 0 || height > INT64_MAX / unit) return;
  std::int64_t end = height * unit;
  if (!p.alignments.padding.empty()) {
    end = 0;
    for (std::size_t k = 0; k < p.items.size(); ++k)
      end = std::max(end, offsets[k] * unit + p.items[k].bytes - p.alignments.padding[k]);
  }
  if (static_cast<std::uint64_t>(end) >= packing.height) return;
  packing.height = static_cast<std::uint64_t>(end);
  for (std::size_t k = 0; k < p.items.size(); ++k)
    packing.offsets[p.source[k]] = static_cast<std::uint64_t>(offsets[k] * unit);
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
    const std::int64_t height =
        first_fit(p.items, order, p.meetings, offsets, p.alignments.multiples);
    take_if_lower(p, offsets, height, 1, packing);
  };
  try_order([&](std::uint32_t i) { return static_cast<double>(p.items[i].bytes); });
  if (p.meetings <= kMostMeetings || packing.height == UINT64_MAX) {
    try_order([&](std::uint32_t i) { return static_cast<double>(p.items[i].bytes) * width(i); });
    try_order(width);
  }
  if (packing.height == UINT64_MAX)
    fail(Fault::Value, fmt::format("found no packing of at most {} bytes", INT64_MAX));
}

/// The same problem without alignments: in units of which all alignments are divisors, with sizes
/// rounded up to them. Nothing if they have no small common multiple.
struct Plain {
  std::vector<SectionItem> items;
  std::int64_t unit = 1;  // bytes
};

std::optional<Plain> without_alignments(const Problem& p) {
  constexpr std::int64_t kMost = 1 << 20;
  Plain plain{p.items, p.divisor};
  for (std::int64_t a : p.alignments.multiples) {
    if (plain.unit > kMost || a > kMost) return std::nullopt;
    plain.unit = std::lcm(plain.unit, a);
  }
  for (SectionItem& i : plain.items) i.bytes = i.bytes / plain.unit + (i.bytes % plain.unit != 0);
  return plain;
}

/// The items of the most bytes by first fit, those of sections that are nearly full first; the
/// others, which take little, above them.
void run_in_two_parts(const Problem& p, const Plain& plain, Packing& packing) {
  const std::span<const SectionItem> items = plain.items;
  const std::vector<std::int64_t> load = loads(items);
  const std::int64_t most = *std::max_element(load.begin(), load.end());
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return items[a].bytes < items[b].bytes; });
  std::vector<SectionItem> small, large;
  // As many small ones as take a 256th of the load.
  std::size_t low = 0, high = order.size();
  while (low + 1 < high) {
    const std::size_t middle = low + (high - low) / 2;
    small.clear();
    for (std::size_t k = 0; k < middle; ++k) small.push_back(items[order[k]]);
    const std::vector<std::int64_t> sums = loads(small);
    (*std::max_element(sums.begin(), sums.end()) <= most / 256 ? low : high) = middle;
  }
  small.clear();
  for (std::size_t k = 0; k < order.size(); ++k)
    (k < low ? small : large).push_back(items[order[k]]);

  const std::vector<std::uint32_t> placing = by_size_and_load(large, load, most);
  std::vector<std::int64_t> below(large.size()), above(small.size()), offsets(items.size());
  const std::int64_t floor = first_fit(large, placing, count_meetings(large), below);
  const std::int64_t rest = small.empty() ? 0 : sweep_fit(small, most / 200, above);
  if (floor < 0 || rest < 0) return;
  for (std::size_t k = 0; k < order.size(); ++k)
    offsets[order[k]] = k < low ? floor + above[k] : below[k - low];
  take_if_lower(p, offsets, floor + rest, plain.unit, packing);
}

/// The quick ways, as long as they may help: the load, or of many items less than a hundredth
/// above.
void place_greedily(const Problem& p, Packing& packing) {
  constexpr std::uint64_t kCheap = 200'000'000;  // about 0.1 s
  if (first_fit_cost(p.items.size(), p.meetings) <= kCheap) run_first_fit(p, packing);
  const std::uint64_t enough = packing.bound + packing.bound / 128;
  if (p.items.size() > PackSearch::kMaxItems && enough <= INT64_MAX / 4 &&
      packing.height > enough) {
    if (const std::optional<Plain> plain = without_alignments(p)) {
      std::vector<std::int64_t> offsets(p.items.size());
      const std::vector<std::int64_t> load = loads(plain->items);
      const std::int64_t limit = std::max(static_cast<std::int64_t>(enough) / plain->unit,
                                          *std::max_element(load.begin(), load.end()));
      take_if_lower(p, offsets, sweep_fit(plain->items, limit, offsets), plain->unit, packing);
      if (packing.height > enough) run_in_two_parts(p, *plain, packing);
    }
  }
  if (packing.height == UINT64_MAX) run_first_fit(p, packing);
}

/// Lowers the height by searches for less and less, until it is known to be the lowest or the work
/// is spent.
///
/// The heights that are possible have numbers, the levels: those of a unit that divides all sizes
/// or, of padded sizes, of that unit less one of the paddings.
class Minimizer {
 public:
  Minimizer(const Problem& p, const PackLimits& limits, Packing& packing)
      : p_(p), limits_(limits), packing_(packing), scaled_(p.items) {
    if (!p.alignments.multiples.empty()) unit_ = p.divisor;
    for (const SectionItem& i : scaled_) unit_ = std::gcd(unit_, i.bytes);
    for (SectionItem& i : scaled_) i.bytes /= unit_;
    scaled_alignments_ = p.alignments;
    for (std::int64_t& m : scaled_alignments_.multiples) m /= unit_;
    paddings_ = p.alignments.padding;
    if (paddings_.empty()) paddings_ = {0};
    std::sort(paddings_.begin(), paddings_.end(), std::greater<>());
    paddings_.erase(std::unique(paddings_.begin(), paddings_.end()), paddings_.end());
    search_.emplace(scaled_, scaled_alignments_);
    const std::vector<std::int64_t> sums = loads(scaled_);
    is_full_ = p.alignments.multiples.empty() && paddings_.front() == 0 &&
               std::all_of(sums.begin(), sums.end() - 1, [&](auto s) { return s == sums[0]; });
  }

  void run() {
    if (limits_.capacity > packing_.bound) {
      search_below(level(limits_.capacity), limits_.work);
    } else {
      // Mostly the load is reached; a bisection finds the way there where it is hard.
      std::int64_t low = level(packing_.bound) + 1;
      if (is_full_)
        search_below(low - 1, limits_.work / 2);
      else
        attempt(low - 1, limits_.work / 2);
      while (low < level(packing_.height) && spent() < limits_.work) {
        const std::int64_t middle = low + (level(packing_.height) - 1 - low) / 2;
        if (!attempt(middle, (limits_.work - spent()) / 4 + 1)) low = middle + 1;
      }
    }
    packing_.nodes += search_->nodes();
  }

 private:
  std::uint64_t spent() const { return search_->work() + work_of_seams_; }

  std::int64_t levels_per_unit() const { return static_cast<std::int64_t>(paddings_.size()); }
  std::int64_t padding(std::int64_t level) const {
    return paddings_[static_cast<std::size_t>(level % levels_per_unit())];
  }
  std::int64_t height(std::int64_t level) const {
    return level / levels_per_unit() * unit_ - padding(level);
  }

  /// The highest one that is not above so many bytes.
  std::int64_t level(std::uint64_t bytes) const {
    const auto most = static_cast<std::int64_t>(bytes);
    std::int64_t found = (most / unit_ + 2) * levels_per_unit() - 1;
    while (height(found) > most) --found;
    return found;
  }

  /// Takes turns at the capacity and at the bound, where fewer ways are open and dead ends show
  /// earlier.
  void search_below(std::int64_t capacity, std::uint64_t work) {
    constexpr std::uint64_t kFirstTurn = 64'000'000;
    auto left = [&] { return work - std::min(work, spent()); };
    auto quickly = [&](std::uint64_t part) { return std::min(kFirstTurn, left()) / part; };
    if (is_full_ && (try_seams(quickly(16)) || attempt(capacity, quickly(8)))) return;
    for (std::uint64_t turn = kFirstTurn; left() > 0; turn *= 2) {
      if (level(packing_.bound) > capacity) return;
      if (is_full_ && try_seams(std::min(turn, left() / 4))) return;
      for (std::int64_t below : {capacity, level(packing_.bound)}) {
        if (attempt(below, std::min(turn, left())) || level(packing_.bound) > capacity) return;
        if (below == level(packing_.bound)) break;
      }
    }
  }

  /// Finds only packings that are as high as the load.
  bool try_seams(std::uint64_t work) {
    const SeamPacking found = pack_seams(scaled_, work, tries_of_seams_);
    packing_.nodes += found.nodes;
    work_of_seams_ += found.work;
    tries_of_seams_ += found.tries;
    if (found.offsets.empty()) return false;
    take_if_lower(p_, found.offsets, static_cast<std::int64_t>(packing_.load) / unit_, unit_,
                  packing_);
    return true;
  }

  bool attempt(std::int64_t level, std::uint64_t work) {
    const PackSearch::Outcome outcome =
        search_->run(level / levels_per_unit(), padding(level), work);
    if (outcome == PackSearch::Outcome::Impossible)
      packing_.bound = std::max(packing_.bound, static_cast<std::uint64_t>(height(level + 1)));
    if (outcome != PackSearch::Outcome::Found) return false;
    std::vector<std::int64_t> offsets(search_->offsets().begin(), search_->offsets().end());
    const std::int64_t settled = settle(offsets);
    take_if_lower(p_, offsets, settled, unit_, packing_);
    return true;
  }

  /// Items from below, each to the lowest free place: never higher than it was.
  std::int64_t settle(std::vector<std::int64_t>& offsets) const {
    std::vector<std::uint32_t> order(offsets.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return offsets[a] < offsets[b]; });
    return first_fit(scaled_, order, p_.meetings, offsets, scaled_alignments_.multiples);
  }

  const Problem& p_;
  const PackLimits& limits_;
  Packing& packing_;
  std::vector<SectionItem> scaled_;
  Alignments scaled_alignments_;
  std::int64_t unit_ = 0;               // divides all sizes and alignments
  std::vector<std::int64_t> paddings_;  // that occur, the largest first
  std::optional<PackSearch> search_;
  bool is_full_ = false;  // every section is as full as the fullest
  std::uint64_t work_of_seams_ = 0, tries_of_seams_ = 0;
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
  const bool hopeless = limits.capacity != 0 && limits.capacity < packing.bound;
  // Sums of the search are of a lowest place and a load.
  if (!done && !hopeless && p.items.size() <= PackSearch::kMaxItems &&
      packing.height <= INT64_MAX / 4)
    Minimizer(p, limits, packing).run();
  return packing;
}

}  // namespace snug
