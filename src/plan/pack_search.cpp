#include "plan/pack_search.h"

#include <algorithm>
#include <numeric>

#include "base/interrupt.h"
#include "plan/pack_mix.h"

namespace snug {
namespace {

constexpr std::int64_t kNone = INT64_MAX;

/// The least common multiple, or 0 if it is too large to be of use.
std::int64_t common_multiple(std::span<const std::int64_t> numbers) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::int64_t all = 1;
  for (std::int64_t n : numbers) {
    if (n > kMost) return 0;
    all = std::lcm(all, n);
    if (all > kMost) return 0;
  }
  return all;
}

}  // namespace

bool PackSearch::Failures::contains(std::uint64_t key, std::int64_t capacity) const {
  const Entry& e = entries_[key & (entries_.size() - 1)];
  return e.key == key && e.capacity >= capacity;
}

void PackSearch::Failures::add(std::uint64_t key, std::int64_t capacity) {
  constexpr std::size_t kMostEntries = 1 << 20;
  if (++added_ > entries_.size() / 2 && entries_.size() < kMostEntries) {
    std::vector<Entry> old(entries_.size() * 4);
    old.swap(entries_);
    for (const Entry& e : old)
      if (e.capacity >= 0) entries_[e.key & (entries_.size() - 1)] = e;
  }
  Entry& e = entries_[key & (entries_.size() - 1)];
  e = {key, e.key == key ? std::max(e.capacity, capacity) : capacity};
}

PackSearch::PackSearch(std::span<const SectionItem> items, const Alignments& alignments)
    : items_(items),
      multiples_(alignments.multiples),
      padding_(alignments.padding),
      common_multiple_(common_multiple(alignments.multiples)),
      offset_(items.size(), 0),
      lowest_(items.size(), 0),
      support_(items.size(), 0),
      is_candidate_(items.size(), 0) {
  std::uint32_t sections = 0;
  for (const SectionItem& i : items) sections = std::max(sections, i.end);
  load_.assign(sections, 0);
  for (const SectionItem& i : items)
    for (std::uint32_t s = i.first; s < i.end; ++s) load_[s] += i.bytes;
  bytes_.resize(sections);
  floor_.resize(sections);
  candidates_.resize(sections);
  blocked_.resize(sections);
  reaches_top_.resize(sections);
  best_rank_.resize(sections);
  starts_.resize(sections + 1);
  ends_.resize(sections + 1);
  for (std::int64_t p : padding_) most_padding_ = std::max(most_padding_, p);
}

void PackSearch::sort_items(std::size_t kind) {
  struct Key {
    double first, second;
    std::uint32_t item;
  };
  std::vector<Key> keys;
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const SectionItem& item = items_[i];
    const double width = item.end - item.first, bytes = static_cast<double>(item.bytes);
    const double load = static_cast<double>(
        *std::max_element(load_.begin() + item.first, load_.begin() + item.end));
    const std::pair<double, double> orders[] = {{width, bytes}, {load, width * bytes},
                                                {load, width},  {width * bytes, 0.0},
                                                {bytes, 0.0},   {-bytes, 0.0}};
    keys.push_back({orders[kind].first, orders[kind].second, i});
  }
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    return std::pair(a.first, a.second) > std::pair(b.first, b.second);
  });
  rank_.resize(items_.size());
  for (std::uint32_t r = 0; r < keys.size(); ++r) rank_[keys[r].item] = r;
}

PackSearch::Outcome PackSearch::run(std::int64_t capacity, std::int64_t padding,
                                    std::uint64_t work) {
  constexpr std::size_t kOrders = 6;
  std::vector<std::uint32_t> all(items_.size());
  std::iota(all.begin(), all.end(), 0);
  std::stable_sort(all.begin(), all.end(),
                   [&](auto a, auto b) { return items_[a].first < items_[b].first; });
  if (!load_.empty() && *std::max_element(load_.begin(), load_.end()) > capacity)
    return Outcome::Impossible;
  open_measure_ = capacity * (most_padding_ + 1) - padding;
  short_.clear();
  for (std::int64_t p : padding_) short_.push_back(p < padding);
  work_limit_ = work_ + work;
  // The fewest options lead mostly, so the other picks follow one turn behind.
  struct Way {
    Pick pick;
    bool level;
    std::uint64_t behind;
  };
  constexpr Way kWays[] = {{Pick::Fewest, false, 1},
                           {Pick::Fewest, true, 1},
                           {Pick::Lowest, true, 2},
                           {Pick::BestItem, false, 2}};
  for (std::uint64_t first = 2 * items_.size(), turn = first;; turn *= 2)
    for (const Way& way : kWays)
      for (std::size_t kind = 0; kind < kOrders; ++kind) {
        if (turn / way.behind < first) break;
        pick_ = way.pick;
        level_first_ = way.level;
        sort_items(kind);
        node_limit_ = nodes_ + turn / way.behind;
        gave_up_ = false;
        if (solve({all, capacity, !short_.empty(), true}, 0)) return Outcome::Found;
        if (!gave_up_) return Outcome::Impossible;
        if (work_ > work_limit_) return Outcome::GaveUp;
      }
}

bool PackSearch::solve(const Left& left, std::size_t depth) {
  while (levels_.size() <= depth) levels_.emplace_back();
  Level& level = levels_[depth];
  level.items.assign(left.items.begin(), left.items.end());
  if (!split(level, left.capacity, left.open)) return false;
  for (const Part& part : level.parts)
    if (!node({std::span(level.items).subspan(part.begin, part.end - part.begin), part.capacity,
               part.open, left.last && &part == &level.parts.back()},
              depth))
      return false;
  return true;
}

/// A part whose items are all short or all not has one capacity for all.
void PackSearch::close(const Level& level, Part& part) const {
  if (!part.open) return;
  const auto begin = level.items.begin() + static_cast<long>(part.begin);
  const auto end = level.items.begin() + static_cast<long>(part.end);
  const auto shorts = std::count_if(begin, end, [&](auto i) { return short_[i]; });
  part.open = shorts > 0 && shorts < end - begin;
  if (shorts == end - begin) --part.capacity;
}

/// Whether an item in all sections of a part may go to its top: what lies above it in a packing can
/// as well go down by its size, which must keep all multiples, and it then ends where nothing ended
/// higher.
bool PackSearch::goes_to_top(std::uint32_t item, const Part& part) const {
  if (part.open && short_[item]) return false;
  return multiples_.empty() ||
         (common_multiple_ > 0 && items_[item].bytes % common_multiple_ == 0 &&
          part.capacity % multiples_[item] == 0);
}

/// Parts that share no section, small ones first; without the items that go to the top.
bool PackSearch::split(Level& level, std::int64_t capacity, bool is_open) {
  level.parts.clear();
  level.open.assign(1, {0, level.items.size(), capacity, is_open});
  while (!level.open.empty()) {
    const Part open = level.open.back();
    level.open.pop_back();
    for (std::size_t begin = open.begin, stop = begin; begin < open.end; begin = stop) {
      const std::uint32_t first = items_[level.items[begin]].first;
      std::uint32_t end = first + 1;
      while (stop < open.end && items_[level.items[stop]].first < end)
        end = std::max(end, items_[level.items[stop++]].end);
      Part part{begin, stop, open.capacity, open.open};
      close(level, part);
      std::size_t kept = begin;
      for (std::size_t k = begin; k < stop; ++k) {
        const std::uint32_t i = level.items[k];
        if (items_[i].first != first || items_[i].end != end || !goes_to_top(i, part)) {
          level.items[kept++] = i;
          continue;
        }
        part.capacity -= items_[i].bytes;
        part.open = false;
        if (lowest_[i] > part.capacity) return false;
        offset_[i] = part.capacity;
      }
      if (kept == begin) continue;
      part.end = kept;
      (kept < stop ? level.open : level.parts).push_back(part);
    }
  }
  std::stable_sort(level.parts.begin(), level.parts.end(),
                   [](const Part& a, const Part& b) { return a.end - a.begin < b.end - b.begin; });
  return true;
}

/// One connected part. Raising floors goes on in the same node.
///
/// A floor is raised when no packing of the whole has a candidate on it, which may be the fault of
/// other parts, split off further down. So where a part fails on raised floors, only the whole is
/// known to have no packing. If all other parts have one, then this part has none, since with it
/// the whole would have one. And a part whose items are all supported is a whole by itself. Only
/// these failures are remembered: they hold whatever lies below the items.
bool PackSearch::node(const Left& part, std::size_t depth) {
  Left left = part;
  const std::span<const std::uint32_t> items = left.items;
  left.last |=
      std::all_of(items.begin(), items.end(), [&](auto i) { return support_[i] == lowest_[i]; });
  const std::size_t mark = trail_.size();
  Level& level = levels_[depth];
  level.keys.clear();
  bool found = false;
  for (;;) {
    check_interrupt();
    if (++nodes_ > node_limit_ || work_ > work_limit_) {
      gave_up_ = true;
      break;
    }
    Choice choice;
    State state = State::Unsupported;
    while (state == State::Unsupported) state = choose(left, choice);
    if (state == State::Dead) break;
    level.keys.push_back(hash(left));
    level.branches.clear();
    for (std::uint32_t i : items)
      if (is_candidate_[i] && covers(i, choice.section)) level.branches.push_back(i);
    sort_branches(left, level.branches);
    found = try_branches(left, depth, choice.floor);
    if (found || gave_up_ || choice.raised < 0) break;
    // All packings with a candidate on the floor of this section are ruled out, so those left need
    // not ask whether an item above could move down to it.
    for (std::uint32_t i : items)
      if (covers(i, choice.section) && lowest_[i] < choice.raised)
        set_lowest(i, aligned(i, choice.raised), support_[i]);
  }
  undo(mark);
  if (!found && !gave_up_ && left.last)
    for (std::uint64_t key : level.keys) failures_.add(key, measure(left));
  return found;
}

/// In the order of trying; where asked for, those first that end level with the floors beside them.
void PackSearch::sort_branches(const Left& left, std::vector<std::uint32_t>& branches) const {
  const std::uint32_t begin = items_[left.items.front()].first;
  auto uneven_sides = [&](std::uint32_t i) {
    const auto [first, end, bytes] = items_[i];
    const std::int64_t before = first > begin ? floor_[first - 1] : left.capacity;
    const std::int64_t after = end < part_end_ ? floor_[end] : left.capacity;
    const std::int64_t top = lowest_[i] + bytes;
    return level_first_ ? int{top != before} + int{top != after} : 0;
  };
  std::sort(branches.begin(), branches.end(), [&](auto a, auto b) {
    return std::pair(uneven_sides(a), rank_[a]) < std::pair(uneven_sides(b), rank_[b]);
  });
}

/// Places each of the level's branches on the floor and solves the rest.
bool PackSearch::try_branches(const Left& left, std::size_t depth, std::int64_t floor) {
  Level& level = levels_[depth];
  for (std::size_t b = 0; b < level.branches.size() && !gave_up_; ++b) {
    const std::uint32_t i = level.branches[b];
    const bool tried = std::any_of(
        level.branches.begin(), level.branches.begin() + static_cast<long>(b),
        [&](std::uint32_t other) {
          return items_[other].first == items_[i].first && items_[other].end == items_[i].end &&
                 items_[other].bytes == items_[i].bytes &&
                 (multiples_.empty() || multiples_[other] == multiples_[i]) &&
                 (!left.open || short_[other] == short_[i]);
        });
    if (tried) continue;
    const std::size_t mark = trail_.size();
    const std::int64_t top = floor + items_[i].bytes;
    offset_[i] = floor;
    level.rest.clear();
    for (std::uint32_t other : left.items) {
      if (other == i) continue;
      level.rest.push_back(other);
      if (!meet(i, other)) continue;
      const std::int64_t place = aligned(other, top);
      set_lowest(other, std::max(lowest_[other], place), std::max(support_[other], place));
    }
    const bool found = solve({level.rest, left.capacity, left.open, left.last}, depth + 1);
    undo(mark);
    if (found) return true;
  }
  return false;
}

/// The section to branch on, or that there is no solution.
PackSearch::State PackSearch::choose(const Left& left, Choice& best) {
  const std::span<const std::uint32_t> items = left.items;
  const std::int64_t capacity = left.capacity;
  if (!raise_unsupported(left)) return State::Dead;
  if (failures_.contains(hash(left), measure(left))) return State::Dead;
  if (!sum_up(left) || could_move_down(items)) return State::Dead;
  find_candidates(items);
  if (!drop_lonely_candidates(left)) return State::Dead;
  const std::uint32_t begin = items_[items.front()].first;
  best.options = -1;
  for (std::uint32_t s = begin; s < part_end_; ++s) {
    if (blocked_[s]) continue;
    const int count = static_cast<int>(candidates_[s]);
    if (best.options >= 0 && preference(s, count, capacity) >= best.preference) continue;
    std::int64_t next = floor_[s] + bytes_[s] < capacity ? next_floor(items, s) : kNone;
    if (next == kNone || next + bytes_[s] > capacity) next = -1;
    const int options = count + (next >= 0);
    const Preference preferred = preference(s, options, capacity);
    if (best.options < 0 || preferred < best.preference)
      best = {s, options, floor_[s], preferred, next};
  }
  if (best.options < 0) return State::Unsupported;
  return State::Open;
}

/// In a full section one of the candidates lies on the floor. So a candidate beside one of the same
/// floor needs another that ends where it starts, or starts where it ends. False: a full section
/// has no candidate left.
bool PackSearch::drop_lonely_candidates(const Left& left) {
  constexpr int kRounds = 4;
  const std::uint32_t begin = items_[left.items.front()].first;
  auto is_row = [&](std::uint32_t s, std::int64_t floor) {
    return !blocked_[s] && floor_[s] == floor && floor + bytes_[s] == left.capacity;
  };
  bool changed = true;
  for (int round = 0; round < kRounds && changed; ++round) {
    changed = false;
    std::fill(starts_.begin() + begin, starts_.begin() + part_end_ + 1, 0);
    std::fill(ends_.begin() + begin, ends_.begin() + part_end_ + 1, 0);
    for (std::uint32_t i : left.items)
      if (is_candidate_[i]) starts_[items_[i].first] = ends_[items_[i].end] = 1;
    work_ += 4 * left.items.size();
    for (std::uint32_t i : left.items) {
      const auto [first, end, bytes] = items_[i];
      if (!is_candidate_[i]) continue;
      const bool lonely = (first > begin && !ends_[first] && is_row(first - 1, lowest_[i])) ||
                          (end < part_end_ && !starts_[end] && is_row(end, lowest_[i]));
      if (!lonely) continue;
      is_candidate_[i] = false;
      changed = true;
      for (std::uint32_t s = first; s < end; ++s)
        if (--candidates_[s] == 0 && is_row(s, lowest_[i])) return false;
    }
  }
  return true;
}

/// Grows with the number of options. One option is no choice, so it is taken at once.
PackSearch::Preference PackSearch::preference(std::uint32_t s, int options,
                                              std::int64_t capacity) const {
  const std::int64_t slack = capacity - floor_[s] - bytes_[s];
  const bool choice = options > 1;
  if (pick_ == Pick::Fewest) return {options, floor_[s], slack, 0};
  if (pick_ == Pick::Lowest) return {choice, floor_[s], slack, 0};
  return {choice, floor_[s], best_rank_[s], options};
}

/// An item stands on another one wherever it cannot be moved down: where nothing placed reaches up
/// to its lowest place, it waits for one of those left.
bool PackSearch::raise_unsupported(const Left& left) {
  const std::span<const std::uint32_t> items = left.items;
  constexpr int kRounds = 3;
  bool changed = true;
  for (int round = 0; round < kRounds && changed; ++round) {
    changed = false;
    for (std::uint32_t i : items) {
      if (support_[i] == lowest_[i]) continue;
      std::int64_t top = kNone;
      for (std::uint32_t other : items)
        if (other != i && meet(i, other)) top = std::min(top, lowest_[other] + items_[other].bytes);
      work_ += items.size();
      if (top == kNone) return false;
      top = aligned(i, top);
      if (top > left.capacity - (left.open && short_[i]) - items_[i].bytes) return false;
      if (top <= lowest_[i]) continue;
      set_lowest(i, top, support_[i]);
      changed = true;
    }
  }
  return true;
}

/// Bytes and floors of the sections. False: in some section the items that cannot go below some
/// place have more bytes than there are from there on. Items of an open part that are all short
/// have one unit less, as if there were one more byte of them.
bool PackSearch::sum_up(const Left& left) {
  const std::span<const std::uint32_t> items = left.items;
  by_lowest_.assign(items.begin(), items.end());
  std::sort(by_lowest_.begin(), by_lowest_.end(),
            [&](auto a, auto b) { return lowest_[a] > lowest_[b]; });
  const std::uint32_t begin = items_[items.front()].first;
  std::uint32_t end = begin;
  for (std::uint32_t i : items) end = std::max(end, items_[i].end);
  std::fill(bytes_.begin() + begin, bytes_.begin() + end, left.open ? 1 : 0);
  if (left.open) std::fill(reaches_top_.begin() + begin, reaches_top_.begin() + end, 0);
  std::fill(floor_.begin() + begin, floor_.begin() + end, kNone);
  part_end_ = end;
  work_ += 8 * items.size() + (end - begin);
  for (std::uint32_t i : by_lowest_) {
    const std::int64_t bytes = items_[i].bytes, lowest = lowest_[i];
    std::int64_t most = 0;
    if (left.open && !short_[i])
      for (std::uint32_t s = items_[i].first; s < items_[i].end; ++s) {
        bytes_[s] -= !reaches_top_[s];
        reaches_top_[s] = 1;
      }
    for (std::uint32_t s = items_[i].first; s < items_[i].end; ++s) {
      bytes_[s] += bytes;
      most = std::max(most, bytes_[s]);
      floor_[s] = lowest;
    }
    work_ += items_[i].end - items_[i].first;
    if (most > left.capacity - lowest) return false;
  }
  return true;
}

/// Some item fits between what is placed and all that may still come: without a floor raised it
/// would lie there.
bool PackSearch::could_move_down(std::span<const std::uint32_t> items) const {
  for (std::uint32_t i : items) {
    if (support_[i] == lowest_[i]) continue;
    const std::int64_t floor =
        *std::min_element(floor_.begin() + items_[i].first, floor_.begin() + items_[i].end);
    if (support_[i] + items_[i].bytes <= floor) return true;
  }
  return false;
}

/// Items that nothing left can go below.
void PackSearch::find_candidates(std::span<const std::uint32_t> items) {
  const std::uint32_t begin = items_[items.front()].first;
  std::fill(candidates_.begin() + begin, candidates_.begin() + part_end_, 0);
  std::fill(blocked_.begin() + begin, blocked_.begin() + part_end_, 0);
  std::fill(best_rank_.begin() + begin, best_rank_.begin() + part_end_, UINT32_MAX);
  for (std::uint32_t i : items) {
    bool candidate = support_[i] == lowest_[i];
    for (std::uint32_t s = items_[i].first; s < items_[i].end && candidate; ++s)
      candidate = floor_[s] == lowest_[i];
    is_candidate_[i] = candidate;
    for (std::uint32_t s = items_[i].first; s < items_[i].end; ++s) {
      if (candidate) {
        ++candidates_[s];
        best_rank_[s] = std::min(best_rank_[s], rank_[i]);
      } else {
        blocked_[s] |= floor_[s] == lowest_[i];
      }
    }
  }
}

/// The lowest place of any item in the section if none of the candidates is on its floor. A
/// candidate then stands on an item that is not in the section.
std::int64_t PackSearch::next_floor(std::span<const std::uint32_t> items, std::uint32_t section) {
  std::int64_t next = kNone;
  for (std::uint32_t i : items) {
    if (!covers(i, section)) continue;
    if (lowest_[i] > floor_[section]) {
      next = std::min(next, lowest_[i]);
      continue;
    }
    work_ += items.size();
    for (std::uint32_t other : items)
      if (!covers(other, section) && meet(i, other))
        next = std::min(next, aligned(i, lowest_[other] + items_[other].bytes));
  }
  return next;
}

std::uint64_t PackSearch::hash(std::uint32_t item, std::int64_t lowest) {
  return mix_bits(mix_bits(item) ^ static_cast<std::uint64_t>(lowest));
}

bool PackSearch::remembers(std::span<const std::uint32_t> items,
                           std::span<const std::int64_t> lowest, std::int64_t capacity) const {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < items.size(); ++k) sum += hash(items[k], lowest[k]);
  return failures_.contains(sum, capacity);
}

std::uint64_t PackSearch::hash(const Left& left) const {
  std::uint64_t sum = left.open ? mix_bits(0) : 0;
  for (std::uint32_t i : left.items) sum += hash(i, lowest_[i]);
  return sum;
}

void PackSearch::set_lowest(std::uint32_t item, std::int64_t lowest, std::int64_t support) {
  trail_.push_back({item, lowest_[item], support_[item]});
  lowest_[item] = lowest;
  support_[item] = support;
}

void PackSearch::undo(std::size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) {
    const Change& c = trail_.back();
    lowest_[c.item] = c.lowest;
    support_[c.item] = c.support;
  }
}

}  // namespace snug
