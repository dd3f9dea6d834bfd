#include "plan/sweep_fit.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/interrupt.h"

namespace snug {
namespace {

/// One direction of time. The items of the stack are there from the beginning, the others start
/// one after the other; what starts and ends when does not depend on where items are.
class Sweep {
 public:
  Sweep(std::span<const SectionItem> items, bool back, std::span<const std::uint32_t> stack,
        std::span<const std::uint32_t> later)
      : items_(items),
        back_(back),
        above_(items.size() + 1),
        below_(items.size() + 2),
        gap_at_(items.size() + 1) {
    for (std::uint32_t i : stack) events_.push_back({end(i), false, items[i].bytes, i});
    for (std::uint32_t i : later) {
      events_.push_back({begin(i), true, items[i].bytes, i});
      events_.push_back({end(i), false, items[i].bytes, i});
    }
    std::sort(events_.begin(), events_.end());
  }

  /// Keeps below `capacity` as long as it can; items are placed again with at most so many
  /// looks at gaps. Gives the height.
  std::int64_t run(std::span<const std::uint32_t> stack, std::int64_t capacity, std::uint64_t looks,
                   std::span<std::int64_t> offsets) {
    constexpr std::size_t kFirstWay = 128, kWays = 10, kTries = 32;  // events, doublings, each
    offsets_ = offsets;
    gaps_.clear();
    std::fill(gap_at_.begin(), gap_at_.end(), kNone);
    std::int64_t height = 0;
    std::uint32_t top = ground();
    for (std::uint32_t i : stack) {
      offsets_[i] = height;
      height += items_[i].bytes;
      link(top, i);
      top = i;
    }
    link(top, ceiling());
    set_gap(top);
    looks_ = 0;
    // Where an item does not fit, it goes back and places those before it otherwise: a few of them,
    // then more and more.
    std::size_t hard = 0, tries = 0;
    for (std::size_t e = 0; e < events_.size();) {
      check_interrupt();
      const Event& event = events_[e];
      if (e > hard) tries = 0;
      if (!event.start) {
        take_out(event.item);
      } else if (!place(event.item, tries, capacity)) {
        hard = std::max(hard, e);
        if (looks_ < looks && ++tries < kTries * kWays) {
          const std::size_t first = e - std::min(e, kFirstWay << (tries / kTries));
          while (e > first) undo(events_[--e]);
          continue;
        }
        put(event.item, below_[ceiling()], top_of(below_[ceiling()]));
      }
      ++e;
    }
    for (const Event& event : events_) height = std::max(height, top_of(event.item));
    return height;
  }

 private:
  struct Event {
    std::int64_t time;
    bool start;  // at one time items end before others start
    std::int64_t bytes;
    std::uint32_t item;
    /// Of those that start together the largest is first.
    bool operator<(const Event& other) const {
      return std::tuple(time, start, -bytes, item) <
             std::tuple(other.time, other.start, -other.bytes, other.item);
    }
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::int64_t kCeiling = INT64_MAX / 2;

  std::uint32_t ground() const { return static_cast<std::uint32_t>(items_.size()); }
  std::uint32_t ceiling() const { return ground() + 1; }
  std::int64_t begin(std::uint32_t i) const {
    return back_ ? -std::int64_t{items_[i].end} : std::int64_t{items_[i].first};
  }
  std::int64_t end(std::uint32_t i) const {
    return back_ ? -std::int64_t{items_[i].first} : std::int64_t{items_[i].end};
  }
  std::int64_t bottom_of(std::uint32_t i) const { return i == ceiling() ? kCeiling : offsets_[i]; }
  std::int64_t top_of(std::uint32_t i) const {
    return i == ground() ? 0 : offsets_[i] + items_[i].bytes;
  }

  void link(std::uint32_t lower, std::uint32_t upper) {
    above_[lower] = upper;
    below_[upper] = lower;
  }

  /// What is above an item that is alive has changed.
  void set_gap(std::uint32_t lower) {
    if (top_of(lower) == bottom_of(above_[lower])) return close_gap(lower);
    if (gap_at_[lower] != kNone) return;
    gap_at_[lower] = static_cast<std::uint32_t>(gaps_.size());
    gaps_.push_back(lower);
  }

  void close_gap(std::uint32_t lower) {
    if (gap_at_[lower] == kNone) return;
    gap_at_[gaps_.back()] = gap_at_[lower];
    gaps_[gap_at_[lower]] = gaps_.back();
    gaps_.pop_back();
    gap_at_[lower] = kNone;
  }

  void put(std::uint32_t i, std::uint32_t lower, std::int64_t offset) {
    offsets_[i] = offset;
    above_[i] = above_[lower];
    below_[i] = lower;
    put_back(i);
  }

  /// Between the two that were its neighbours when it was taken out.
  void put_back(std::uint32_t i) {
    link(below_[i], i);
    link(i, above_[i]);
    set_gap(below_[i]);
    set_gap(i);
  }

  void take_out(std::uint32_t i) {
    close_gap(i);
    link(below_[i], above_[i]);
    set_gap(below_[i]);
  }

  void undo(const Event& event) { event.start ? take_out(event.item) : put_back(event.item); }

  /// Into the gap of the least cost: the time between the ends of the item and of its neighbour,
  /// more where much of the gap stays free. Later tries vary it. False: no gap is large enough.
  bool place(std::uint32_t i, std::size_t tries, std::int64_t capacity) {
    const std::int64_t bytes = items_[i].bytes, ends = end(i);
    std::uint32_t under = kNone;
    std::int64_t offset = 0;
    double least = 0;
    if (tries > 0) looks_ += gaps_.size();
    for (std::uint32_t lower : gaps_) {
      const std::uint32_t upper = above_[lower];
      const std::int64_t from = top_of(lower), to = std::min(bottom_of(upper), capacity);
      const std::int64_t left = to - from - bytes;
      if (left < 0) continue;
      const std::int64_t beside_lower = lower == ground() ? 0 : std::abs(ends - end(lower));
      const std::int64_t beside_upper =
          upper == ceiling() ? INT64_MAX : std::abs(ends - end(upper));
      const double rest = static_cast<double>(left) / static_cast<double>(bytes);
      double cost = static_cast<double>(std::min(beside_lower, beside_upper));
      if (tries % 2 == 0)
        cost *= std::min(1 + rest, 4.0);
      else if (rest < 0.1)
        cost *= 0.1;
      if (tries > 1) cost *= vary(i, lower, tries);
      const std::int64_t at = beside_lower <= beside_upper ? from : to - bytes;
      if (under != kNone && (cost > least || (cost == least && at >= offset))) continue;
      least = cost;
      under = lower;
      offset = at;
    }
    if (under == kNone) return false;
    put(i, under, offset);
    return true;
  }

  /// Between 1 and 3, as good as random.
  static double vary(std::uint32_t i, std::uint32_t lower, std::size_t tries) {
    std::uint64_t x = (std::uint64_t{i} << 32 | lower) + tries * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9;
    return 1 + static_cast<double>(x >> 40) / (1 << 23);
  }

  std::span<const SectionItem> items_;
  bool back_;
  std::vector<Event> events_;
  std::span<std::int64_t> offsets_;
  // Items alive from the ground to the ceiling; a gap is known by the item below it.
  std::vector<std::uint32_t> above_, below_;
  std::vector<std::uint32_t> gaps_, gap_at_;
  std::uint64_t looks_ = 0;
};

/// From the last to the first end, in strips of about equal bytes; start up and down by turns.
void sort_in_strips(std::span<const SectionItem> items, std::int64_t strips,
                    std::span<std::uint32_t> stack) {
  std::stable_sort(stack.begin(), stack.end(),
                   [&](auto a, auto b) { return items[a].end > items[b].end; });
  std::int64_t all = 0, bytes = 0;
  for (std::uint32_t i : stack) all += items[i].bytes;
  bool down = false;
  for (std::size_t k = 0, from = 0; k < stack.size(); ++k) {
    bytes += items[stack[k]].bytes;
    if (bytes < all / strips && k + 1 < stack.size()) continue;
    std::stable_sort(stack.begin() + static_cast<long>(from),
                     stack.begin() + static_cast<long>(k) + 1, [&](auto a, auto b) {
                       return down ? items[a].first > items[b].first
                                   : items[a].first < items[b].first;
                     });
    down = !down;
    from = k + 1;
    bytes = 0;
  }
}

}  // namespace

std::int64_t sweep_fit(std::span<const SectionItem> items, std::int64_t enough,
                       std::span<std::int64_t> offsets) {
  std::uint32_t sections = 0;
  std::int64_t sum = 0;
  for (const SectionItem& i : items) {
    sections = std::max(sections, i.end);
    if (i.bytes > INT64_MAX / 4 - sum) return -1;
    sum += i.bytes;
  }
  std::vector<std::int64_t> load(sections + 1, 0);
  for (const SectionItem& i : items) load[i.first] += i.bytes, load[i.end] -= i.bytes;
  std::partial_sum(load.begin(), load.end(), load.begin());
  const auto peak =
      static_cast<std::uint32_t>(std::max_element(load.begin(), load.end()) - load.begin());

  std::vector<std::uint32_t> stack, before, after;
  for (std::uint32_t i = 0; i < items.size(); ++i)
    (items[i].end <= peak ? before : items[i].first > peak ? after : stack).push_back(i);
  Sweep sweeps[] = {Sweep(items, false, stack, after), Sweep(items, true, stack, before)};

  constexpr std::uint64_t kLooks = 8'000'000;  // of one sweep, about 0.05 s
  std::int64_t lowest = -1;
  std::vector<std::int64_t> tried(items.size());
  for (std::int64_t strips : {4, 24, 12, 64}) {
    sort_in_strips(items, strips, stack);
    std::int64_t height = 0;
    for (Sweep& sweep : sweeps)
      if (lowest < 0 || height < lowest)
        height = std::max(height, sweep.run(stack, enough, kLooks, tried));
    if (lowest >= 0 && height >= lowest) continue;
    lowest = height;
    std::copy(tried.begin(), tried.end(), offsets.begin());
    if (lowest <= enough) break;
  }
  return lowest;
}

}  // namespace snug
