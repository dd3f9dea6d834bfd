#include "plan/pack_seams.h"

#include <algorithm>
#include <unordered_set>

#include "base/interrupt.h"
#include "plan/pack_mix.h"
#include "plan/pack_orders.h"

namespace snug {
namespace {

using Items = std::vector<std::uint32_t>;

constexpr std::uint64_t kWorkPerItem = 70;  // of an order that is copied and changed

/// Items of a time that end and start at one seam; of the same bytes.
struct Seam {
  Items ends, starts;
};

/// Over the sections from first to last.
class SeamSearch {
 public:
  explicit SeamSearch(std::span<const SectionItem> items);

  /// Tries seams in an order that depends on the seed.
  bool run(std::uint64_t seed, std::uint64_t work);

  const std::vector<std::int64_t>& offsets() const { return offset_; }  // once found
  bool gave_up() const { return gave_up_; }                             // else it has tried all
  std::uint64_t nodes() const { return nodes_; }
  std::uint64_t work() const { return work_; }

 private:
  bool solve(std::uint32_t section, const PackOrders& orders);
  bool solve_time(std::uint32_t section, PackOrders& orders, const Items& ends,
                  const Items& starts);
  /// The first seams of a time, at most so many.
  struct Listing {
    const PackOrders& orders;
    const Items& starts;
    std::vector<Items> blocks;  // of what ends
    std::size_t most;
    std::vector<Seam> seams;
  };
  void list_seams(Listing& listing);
  void join_blocks(Listing& listing, Seam& seam, std::size_t next, std::size_t more);
  void match(Listing& listing, Seam& seam, std::size_t next, std::int64_t bytes);
  bool stops(const Listing& listing);
  void place();

  PackOrders::Set set_of(const Items& items) const;
  std::int64_t bytes_of(const Items& items) const;

  std::span<const SectionItem> items_;
  std::vector<Items> ends_, starts_;   // per section
  std::vector<std::uint32_t> alive_;   // number of items per section
  std::vector<std::uint64_t> labels_;  // equal for items that may change places
  std::vector<PackOrders> orders_;     // of the items alive in each section up to the current one
  std::vector<std::uint32_t> next_;    // per item that has ended: one that starts at its seam
  std::vector<std::int64_t> offset_;
  std::unordered_set<std::uint64_t> dead_ends_;  // orders and section, as a hash
  std::uint64_t seed_ = 0, nodes_ = 0, work_ = 0, work_limit_ = 0;
  bool gave_up_ = false;
};

SeamSearch::SeamSearch(std::span<const SectionItem> items)
    : items_(items), next_(items.size()), offset_(items.size()) {
  std::uint32_t sections = 0;
  for (const SectionItem& i : items) sections = std::max(sections, i.end);
  ends_.resize(sections + 1);
  starts_.resize(sections + 1);
  orders_.resize(sections);
  alive_.assign(sections, 0);
  for (std::uint32_t k = 0; k < items.size(); ++k) {
    ends_[items[k].end].push_back(k);
    starts_[items[k].first].push_back(k);
    for (std::uint32_t s = items[k].first; s < items[k].end; ++s) ++alive_[s];
    labels_.push_back(
        mix_bits(mix_bits(items[k].end) + static_cast<std::uint64_t>(items[k].bytes)));
  }
}

bool SeamSearch::run(std::uint64_t seed, std::uint64_t work) {
  auto weight = [&](std::uint32_t i) {  // bytes, some of them up to three times
    const std::uint64_t noise = seed == 0 ? 0 : mix_bits(labels_[i] + seed) % 32;
    return static_cast<double>(items_[i].bytes) * static_cast<double>(16 + noise);
  };
  for (Items& starts : starts_)
    std::stable_sort(starts.begin(), starts.end(), [&](auto a, auto b) {
      return std::pair(weight(a), labels_[a]) > std::pair(weight(b), labels_[b]);
    });
  work_limit_ = work_ + work;
  gave_up_ = false;
  seed_ = seed;
  return solve(0, PackOrders(starts_[0]));
}

PackOrders::Set SeamSearch::set_of(const Items& items) const {
  PackOrders::Set set(items_.size(), 0);
  for (std::uint32_t i : items) set[i] = 1;
  return set;
}

std::int64_t SeamSearch::bytes_of(const Items& items) const {
  std::int64_t sum = 0;
  for (std::uint32_t i : items) sum += items_[i].bytes;
  return sum;
}

/// All that starts before the end of a section is in the orders.
bool SeamSearch::solve(std::uint32_t section, const PackOrders& orders) {
  orders_[section] = orders;
  if (section + 1 == orders_.size()) {
    place();
    return true;
  }
  const std::uint64_t key = mix_bits(orders.hash(labels_) + section);
  if (dead_ends_.contains(key)) return false;
  ++nodes_;
  const bool found =
      solve_time(section + 1, orders_[section], ends_[section + 1], starts_[section + 1]);
  if (!found && !gave_up_) dead_ends_.insert(key);
  return found;
}

/// Between two sections, with what ends and starts at seams that are not chosen yet.
bool SeamSearch::solve_time(std::uint32_t section, PackOrders& orders, const Items& ends,
                            const Items& starts) {
  if (ends.empty()) return starts.empty() && solve(section, orders);
  auto without = [](const Items& items, const PackOrders::Set& set) {
    Items rest;
    for (std::uint32_t i : items)
      if (!set[i]) rest.push_back(i);
    return rest;
  };
  Listing listing{orders, starts, orders.blocks(set_of(ends)), 1, {}};
  std::rotate(listing.blocks.begin(),
              listing.blocks.begin() + static_cast<long>(seed_ % listing.blocks.size()),
              listing.blocks.end());
  for (std::size_t tried = 0;; listing.most *= 4) {
    list_seams(listing);
    for (; tried < listing.seams.size() && !gave_up_; ++tried) {
      work_ += kWorkPerItem * alive_[section];
      const Seam& seam = listing.seams[tried];
      PackOrders next = orders;
      const PackOrders::Set ended = set_of(seam.ends), started = set_of(seam.starts);
      next.replace(ended, seam.starts);
      for (std::uint32_t i : seam.ends) next_[i] = seam.starts.front();
      if (solve_time(section, next, without(ends, ended), without(starts, started))) return true;
    }
    if (gave_up_ || listing.seams.size() < listing.most) return false;
  }
}

/// Those of the first block of what ends, those of few blocks first. What ends as one block does so
/// at one seam.
void SeamSearch::list_seams(Listing& listing) {
  const std::vector<Items>& blocks = listing.blocks;
  listing.seams.clear();
  if (blocks.size() == 1 && !stops(listing)) listing.seams.push_back({blocks[0], listing.starts});
  for (std::size_t more = 0; more < blocks.size() && blocks.size() > 1; ++more) {
    Seam seam{blocks.front(), {}};
    join_blocks(listing, seam, 1, more);
  }
}

bool SeamSearch::stops(const Listing& listing) {
  check_interrupt();
  gave_up_ |= work_ > work_limit_;
  return gave_up_ || listing.seams.size() == listing.most;
}

/// Adds the seams with so many more blocks, from the `next` one on.
void SeamSearch::join_blocks(Listing& listing, Seam& seam, std::size_t next, std::size_t more) {
  if (stops(listing)) return;
  if (more == 0) {
    work_ += kWorkPerItem * alive_[items_[seam.ends.front()].end - 1];
    PackOrders trial = listing.orders;
    if (trial.replace(set_of(seam.ends), {})) match(listing, seam, 0, bytes_of(seam.ends));
    return;
  }
  for (std::size_t b = next; b + more <= listing.blocks.size(); ++b) {
    const std::size_t size = seam.ends.size();
    seam.ends.insert(seam.ends.end(), listing.blocks[b].begin(), listing.blocks[b].end());
    join_blocks(listing, seam, b + 1, more - 1);
    seam.ends.resize(size);
  }
}

/// Adds the seams with so many more bytes of what starts, from the `next` one on.
void SeamSearch::match(Listing& listing, Seam& seam, std::size_t next, std::int64_t bytes) {
  const Items& starts = listing.starts;
  if (bytes == 0) {
    listing.seams.push_back(seam);
    return;
  }
  std::int64_t left = 0;
  for (std::size_t k = next; k < starts.size(); ++k) left += items_[starts[k]].bytes;
  work_ += starts.size() - next;
  for (std::size_t k = next; k < starts.size() && left >= bytes && !stops(listing); ++k) {
    const std::uint32_t i = starts[k];
    left -= items_[i].bytes;
    const bool tried = k > next && labels_[i] == labels_[starts[k - 1]];
    if (tried || items_[i].bytes > bytes) continue;
    seam.starts.push_back(i);
    match(listing, seam, k + 1, bytes - items_[i].bytes);
    seam.starts.pop_back();
  }
}

/// One of the orders of the last section, and in each section before one that agrees.
void SeamSearch::place() {
  std::vector<std::uint32_t> places(items_.size(), 0);
  for (std::size_t s = orders_.size(); s-- > 0;) {
    const Items order = orders_[s].sorted(places);
    std::int64_t offset = 0;
    for (std::uint32_t k = 0; k < order.size(); ++k) {
      places[order[k]] = k;
      offset_[order[k]] = offset;
      offset += items_[order[k]].bytes;
    }
    for (std::uint32_t i : ends_[s]) places[i] = places[next_[i]];
  }
}

}  // namespace

SeamPacking pack_seams(std::span<const SectionItem> items, std::uint64_t work,
                       std::uint64_t tried) {
  std::uint32_t sections = 0;
  std::uint64_t pass = 0;
  for (const SectionItem& i : items) {
    sections = std::max(sections, i.end);
    pass += kWorkPerItem * (i.end - i.first);
  }
  if (pass > work / 4) return {};
  std::vector<SectionItem> mirrored;
  for (const SectionItem& i : items)
    mirrored.push_back({sections - i.end, sections - i.first, i.bytes});
  // A wrong seam shows late, so many short tries find more than a long one.
  constexpr std::uint64_t kPasses[] = {8, 16, 32};
  SeamSearch forwards(items), backwards(mirrored);
  SeamPacking packing;
  for (bool found = false, left = true; !found && left && packing.work < work; ++packing.tries) {
    const std::uint64_t seed = (tried + packing.tries) / 2;
    SeamSearch& search = (tried + packing.tries) % 2 == 0 ? forwards : backwards;
    found = search.run(seed, std::min(kPasses[seed % 3] * pass, work - packing.work));
    left = search.gave_up();
    packing.nodes = forwards.nodes() + backwards.nodes();
    packing.work = forwards.work() + backwards.work();
    if (found) packing.offsets = search.offsets();
  }
  return packing;
}

}  // namespace snug
