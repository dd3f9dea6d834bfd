#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "plan/first_fit.h"

namespace snug {

/// What is special about each item of a problem with alignments; empty where nothing is.
struct Alignments {
  std::vector<std::int64_t> multiples;  // of which the offset has to be one
  std::vector<std::int64_t> padding;    // what the size was rounded up by, less than one unit of it
};

/// Searches for offsets below a capacity, completely: it finds some, shows that there are none, or
/// gives up at its limit.
///
/// A node picks a section and decides which item lies lowest in it: one of those that may stand
/// right on what is placed, or none of them, which raises the floor of that section. The section is
/// one whose lowest candidates have nothing else to go below them: one with a single option, or
/// else by turns one with the fewest, the lowest, or the lowest with the best item to try. Only
/// packings in which no item can be moved down are visited. An item that lives as long as its part
/// of the problem goes to the top of it, and parts that no item connects are solved apart.
///
/// Sizes with padding are in units of more than its bytes, so a capacity in bytes lets items with
/// enough of it end one unit higher than the others, the short ones. What is below an item at the
/// top knows no padding. A part is open if its top is that of the problem and some of its items are
/// short, others not.
class PackSearch {
 public:
  static constexpr std::size_t kMaxItems = 2000;  // the depth of the search
  enum class Outcome { Found, Impossible, GaveUp };

  explicit PackSearch(std::span<const SectionItem> items, const Alignments& alignments = {});

  /// Several orders of trying items and ways to pick a section take turns, with more nodes in each
  /// turn. What one has shown to be impossible, later ones and later runs know. Items with less
  /// than `padding` end below the last unit of the capacity.
  Outcome run(std::int64_t capacity, std::int64_t padding, std::uint64_t work);

  std::span<const std::int64_t> offsets() const { return offset_; }  // once found
  std::uint64_t nodes() const { return nodes_; }                     // of all runs
  std::uint64_t work() const { return work_; }
  /// Whether it remembers that these items have no packing at or above their lowest places.
  bool remembers(std::span<const std::uint32_t> items, std::span<const std::int64_t> lowest,
                 std::int64_t capacity) const;

 private:
  /// Items that have no packing at or above their lowest places, whatever is below them, as a hash;
  /// and the largest capacity at which that was shown. One place per hash, the latest stays.
  class Failures {
   public:
    bool contains(std::uint64_t key, std::int64_t capacity) const;
    void add(std::uint64_t key, std::int64_t capacity);

   private:
    struct Entry {
      std::uint64_t key = 0;
      std::int64_t capacity = -1;
    };
    std::vector<Entry> entries_ = std::vector<Entry>(1 << 12);
    std::size_t added_ = 0;
  };

  struct Part {
    std::size_t begin, end;  // in Level::items
    std::int64_t capacity;   // of those that are not short, if it is open
    bool open;
  };
  struct Level {  // what one depth of the search keeps
    std::vector<std::uint32_t> items, rest, branches;
    std::vector<Part> open, parts;
    std::vector<std::uint64_t> keys;
  };
  struct Change {
    std::uint32_t item;
    std::int64_t lowest, support;
  };
  enum class Pick { Fewest, Lowest, BestItem };    // of sections with more than one option
  using Preference = std::array<std::int64_t, 4>;  // the least is the best
  struct Choice {
    std::uint32_t section = 0;
    int options = 0;
    std::int64_t floor = 0;
    Preference preference{};
    std::int64_t raised = -1;  // the floor if none of the candidates lies on it; -1: not possible
  };
  enum class State { Open, Dead, Unsupported };

  void sort_items(std::size_t kind);
  /// Items that are left, in order of their first section, and the top of their part.
  struct Left {
    std::span<const std::uint32_t> items;
    std::int64_t capacity;
    bool open;
    bool last;  // all other parts since one whose items were all supported have been solved
  };
  bool solve(const Left& left, std::size_t depth);
  bool split(Level& level, std::int64_t capacity, bool open);
  void close(const Level& level, Part& part) const;
  bool goes_to_top(std::uint32_t item, const Part& part) const;
  bool node(const Left& left, std::size_t depth);
  void sort_branches(const Left& left, std::vector<std::uint32_t>& branches) const;
  bool try_branches(const Left& left, std::size_t depth, std::int64_t floor);
  State choose(const Left& left, Choice& choice);
  Preference preference(std::uint32_t section, int options, std::int64_t capacity) const;
  bool raise_unsupported(const Left& left);
  bool sum_up(const Left& left);
  bool could_move_down(std::span<const std::uint32_t> items) const;
  void find_candidates(std::span<const std::uint32_t> items);
  bool drop_lonely_candidates(const Left& left);
  std::int64_t next_floor(std::span<const std::uint32_t> items, std::uint32_t section);
  static std::uint64_t hash(std::uint32_t item, std::int64_t lowest);
  std::uint64_t hash(const Left& left) const;
  /// Grows with the capacity: of an open part with that of the problem in bytes.
  std::int64_t measure(const Left& left) const { return left.open ? open_measure_ : left.capacity; }
  std::int64_t aligned(std::uint32_t item, std::int64_t at) const {
    return multiples_.empty() ? at : align_up(at, multiples_[item]);
  }
  void set_lowest(std::uint32_t item, std::int64_t lowest, std::int64_t support);
  void undo(std::size_t mark);
  bool covers(std::uint32_t i, std::uint32_t s) const {
    return items_[i].first <= s && s < items_[i].end;
  }
  bool meet(std::uint32_t i, std::uint32_t j) const {
    return items_[i].first < items_[j].end && items_[j].first < items_[i].end;
  }

  std::span<const SectionItem> items_;
  std::span<const std::int64_t> multiples_, padding_;  // per item, or empty
  std::int64_t common_multiple_ = 1;                   // of all; 0 if it is too large
  std::int64_t most_padding_ = 0, open_measure_ = 0;
  std::vector<char> short_;  // per item; empty if none is
  std::vector<std::int64_t> offset_;
  std::vector<std::int64_t> lowest_;   // per item left: where it may go at best
  std::vector<std::int64_t> support_;  // per item left: the highest top of what is placed below it
  std::vector<std::uint32_t> rank_;    // per item: its place in the order of trying
  std::vector<std::int64_t> load_;     // per section
  // Per section, of the items left in the current part:
  std::vector<std::int64_t> bytes_, floor_;  // sum, lowest place of any
  std::vector<std::uint32_t> candidates_;    // number that may be placed on the floor
  std::vector<std::uint32_t> best_rank_;     // of these
  std::vector<char> blocked_;                // an item on the floor is no candidate
  std::vector<char> reaches_top_;            // an item is not short
  std::vector<char> starts_, ends_;          // a candidate starts or ends there
  std::uint32_t part_end_ = 0;
  std::vector<std::uint32_t> by_lowest_;
  std::vector<char> is_candidate_;  // per item
  std::vector<Change> trail_;
  std::deque<Level> levels_;
  Failures failures_;
  std::uint64_t nodes_ = 0, node_limit_ = 0, work_ = 0, work_limit_ = 0;
  Pick pick_ = Pick::Fewest;
  bool level_first_ = false;
  bool gave_up_ = false;
};

}  // namespace snug
