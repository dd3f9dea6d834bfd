// Where the chunks of a dataset are: the B-tree that all versions know, and the five ways of the
// layouts since 1.10.
#include <algorithm>
#include <bit>

#include "data/hdf5_dataset.h"

namespace snug::data::h5 {
namespace {

constexpr const char* kIndex = "index of chunks";

/// Takes chunks as they are found: checks them and sorts them in the end.
class Found {
 public:
  Found(const Store& store, const Tiling& tiling, bool filtered)
      : store_(store), tiling_(tiling), filtered_(filtered) {}

  void add(std::int64_t number, Address at, std::uint64_t size, std::uint64_t left_out) {
    if (!filtered_ && size != static_cast<std::uint64_t>(tiling_.bytes)) store_.damaged(kIndex);
    store_.check(at, size, "chunk");
    chunks_.push_back({number, at, size, static_cast<std::uint32_t>(left_out)});
  }

  std::vector<Chunk> sorted() {
    std::sort(chunks_.begin(), chunks_.end(),
              [](const Chunk& a, const Chunk& b) { return a.number < b.number; });
    for (std::size_t i = 1; i < chunks_.size(); ++i)
      if (chunks_[i].number == chunks_[i - 1].number) store_.damaged(kIndex);
    return std::move(chunks_);
  }

 private:
  const Store& store_;
  const Tiling& tiling_;
  bool filtered_;
  std::vector<Chunk> chunks_;
};

/// Elements of an array of chunks: a place, and for packed chunks a size and a mask.
class Elements {
 public:
  /// `growing`: the axis without end is the slowest one.
  Elements(const Store& store, const Tiling& tiling, bool filtered, std::uint64_t bytes,
           bool growing)
      : store_(store),
        tiling_(tiling),
        filtered_(filtered),
        bytes_(static_cast<int>(bytes)),
        found(store, tiling, filtered) {
    const int o = store.offset_bytes();
    size_bytes_ = filtered ? bytes_ - o - 4 : 0;
    if (filtered ? size_bytes_ < 1 || size_bytes_ > 8 : bytes_ != o) store.damaged(kIndex);
    for (std::size_t i = 0; i < tiling.most.size(); ++i)
      order_.push_back(static_cast<std::int64_t>(i));
    if (!growing) return;
    const auto endless = std::find(tiling.most.begin(), tiling.most.end(), 0);
    if (endless == tiling.most.end()) store.damaged(kIndex);
    std::rotate(order_.begin(), order_.begin() + (endless - tiling.most.begin()),
                order_.begin() + (endless - tiling.most.begin()) + 1);
  }

  int bytes() const { return bytes_; }

  /// Elements `first` to `first + count`, one after another.
  void take(Cursor& c, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      const Address at = c.address();
      const std::uint64_t size = filtered_ ? c.number(size_bytes_) : tiling_.bytes;
      const std::uint64_t left_out = filtered_ ? c.number(4) : 0;
      if (at == kNowhere) continue;
      const std::int64_t number = number_of(i);
      if (number >= 0) found.add(number, at, size, left_out);
    }
  }

  /// Of an element; -1 if it is outside of the array as it is now.
  std::int64_t number_of(std::uint64_t element) const {
    Dims place(order_.size(), 0);
    for (std::size_t i = order_.size(); i-- > 1;) {
      const auto most = static_cast<std::uint64_t>(tiling_.most[order_[i]]);
      if (most == 0) store_.damaged(kIndex);  // two axes without end
      place[order_[i]] = static_cast<std::int64_t>(element % most);
      element /= most;
    }
    place[order_[0]] = static_cast<std::int64_t>(element);
    return tiling_.number_of(place);
  }

 private:
  const Store& store_;
  const Tiling& tiling_;
  bool filtered_;
  int bytes_, size_bytes_ = 0;
  Dims order_;  // of the axes, the slowest first

 public:
  Found found;
};

std::vector<Chunk> single_chunk(Cursor& layout, const Tiling& tiling, const ChunkIndex& index) {
  std::uint64_t size = tiling.bytes, left_out = 0;
  if (index.single_packed) {
    size = layout.length();
    left_out = layout.number(4);
  }
  const Address at = layout.address();
  Found found(layout.store(), tiling, index.single_packed);
  for (std::int64_t count : tiling.counts)
    if (count > 1) layout.damaged();
  const bool empty =
      std::find(tiling.counts.begin(), tiling.counts.end(), 0) != tiling.counts.end();
  if (at != kNowhere && !empty) found.add(0, at, size, left_out);
  return found.sorted();
}

/// All chunks in one piece.
std::vector<Chunk> implicit_chunks(Cursor& layout, const Tiling& tiling) {
  const Store& store = layout.store();
  const Address begin = layout.address();
  Found found(store, tiling, false);
  const std::int64_t count = product(tiling.counts);
  if (begin == kNowhere || count == 0) return {};
  // So the number of chunks is bounded by the file before they are listed.
  std::uint64_t last = 0, bytes = 0;
  for (std::size_t i = 0; i < tiling.most.size(); ++i)
    if (__builtin_mul_overflow(last, static_cast<std::uint64_t>(tiling.most[i]), &last) ||
        __builtin_add_overflow(last, static_cast<std::uint64_t>(tiling.counts[i] - 1), &last))
      layout.damaged();
  if (__builtin_mul_overflow(last + 1, static_cast<std::uint64_t>(tiling.bytes), &bytes))
    layout.damaged();
  store.check(begin, bytes, "chunks");
  for (std::int64_t number = 0; number < count; ++number) {
    const Dims place = tiling.place_of(number);
    std::uint64_t element = 0;
    for (std::size_t i = 0; i < place.size(); ++i)
      element = element * static_cast<std::uint64_t>(tiling.most[i]) + place[i];
    found.add(number, begin + element * tiling.bytes, tiling.bytes, 0);
  }
  return found.sorted();
}

/// Elements in pages of a fixed number, each with a sum.
std::uint64_t pages_of(std::uint64_t elements, int page_bits) {
  const std::uint64_t page = std::uint64_t{1} << page_bits;
  return elements > page ? (elements + page - 1) / page : 0;
}

void take_pages(const Store& store, Address at, std::uint64_t first, std::uint64_t elements,
                int page_bits, std::span<const std::byte> written, std::uint64_t bit,
                Elements& out) {
  const std::uint64_t page = std::uint64_t{1} << page_bits;
  for (std::uint64_t done = 0; done < elements; ++bit) {
    const std::uint64_t count = std::min(page, elements - done);
    const std::uint64_t bytes = count * out.bytes() + 4;
    const auto mask = std::byte{0x80} >> (bit % 8);
    if ((written[bit / 8] & mask) != std::byte{0}) {
      const std::vector<std::byte> elements_of_page = store.read(at, bytes, kIndex);
      check_sum(store, elements_of_page, kIndex);
      Cursor c(store, elements_of_page, kIndex);
      out.take(c, first + done, count);
    }
    at += bytes;
    done += count;
  }
}

std::vector<Chunk> fixed_array(Cursor& layout, const Tiling& tiling, bool filtered) {
  const Store& store = layout.store();
  const int o = store.offset_bytes();
  layout.skip(1);
  const Address header = layout.address();
  if (header == kNowhere) return {};
  const std::vector<std::byte> head = store.read(header, 12 + store.length_bytes() + o, kIndex);
  check_sum(store, head, kIndex);
  Cursor h(store, head, kIndex);
  h.expect("FAHD");
  h.skip(2);
  Elements out(store, tiling, filtered, h.number(1), false);
  const int page_bits = static_cast<int>(h.number(1));
  const std::uint64_t count = h.length();
  const Address block = h.address();
  if (block == kNowhere) return {};
  if (page_bits > 40) h.damaged();
  if (count > (std::uint64_t{1} << 48)) h.damaged();
  store.check(block, count, kIndex);
  const std::uint64_t pages = pages_of(count, page_bits), start = 6 + o;
  const std::uint64_t bitmap = (pages + 7) / 8;
  const std::vector<std::byte> bytes =
      store.read(block, start + bitmap + (pages ? 0 : count * out.bytes()) + 4, kIndex);
  check_sum(store, bytes, kIndex);
  Cursor c(store, bytes, kIndex);
  c.expect("FADB");
  c.skip(start - 4);
  const std::span<const std::byte> written = c.take(bitmap);
  if (pages > 0)
    take_pages(store, block + bytes.size(), 0, count, page_bits, written, 0, out);
  else
    out.take(c, 0, count);
  return out.found.sorted();
}

/// An array that grows: its first elements in an index block, then blocks that double in number
/// and in size, the later ones listed by blocks of their own.
class GrowingArray {
 public:
  GrowingArray(Cursor& layout, const Tiling& tiling, bool filtered)
      : store_(layout.store()), tiling_(tiling), filtered_(filtered) {
    layout.skip(5);
    header_ = layout.address();
  }

  std::vector<Chunk> read() {
    if (header_ == kNowhere) return {};
    const int o = store_.offset_bytes();
    const std::vector<std::byte> head =
        store_.read(header_, 16 + 6 * store_.length_bytes() + o, kIndex);
    check_sum(store_, head, kIndex);
    Cursor h(store_, head, kIndex);
    h.expect("EAHD");
    h.skip(2);
    Elements out(store_, tiling_, filtered_, h.number(1), true);
    const int bits = static_cast<int>(h.number(1));
    const std::uint64_t in_index = h.number(1), smallest = h.number(1), pointers = h.number(1);
    page_bits_ = static_cast<int>(h.number(1));
    h.skip(6 * store_.length_bytes());
    const Address index = h.address();
    if (!std::has_single_bit(smallest) || !std::has_single_bit(pointers) || bits < 1 || bits > 64 ||
        page_bits_ > 40 || bits < log2_of(smallest))
      h.damaged();
    if (index == kNowhere) return {};
    offset_bytes_ = (bits + 7) / 8;

    const int groups = 1 + bits - log2_of(smallest);             // of blocks of one size
    const int direct = std::min(2 * log2_of(pointers), groups);  // those that the index block lists
    std::uint64_t direct_blocks = 2 * (pointers - 1);
    const std::vector<std::byte> bytes = store_.read(
        index, 6 + o + in_index * out.bytes() + (direct_blocks + groups - direct) * o + 4, kIndex);
    check_sum(store_, bytes, kIndex);
    Cursor c(store_, bytes, kIndex);
    c.expect("EAIB");
    c.skip(2 + o);
    out.take(c, 0, in_index);
    std::uint64_t first = in_index;
    for (int g = 0; g < groups; ++g) {
      const std::uint64_t blocks = std::uint64_t{1} << (g / 2);
      const std::uint64_t elements = smallest << ((g + 1) / 2);
      if (g < direct) {
        for (std::uint64_t b = 0; b < blocks && direct_blocks > 0; ++b, --direct_blocks)
          take_block(c.address(), first + b * elements, elements, {}, 0, out);
      } else {
        take_group(c.address(), first, blocks, elements, out);
      }
      first += blocks * elements;
    }
    return out.found.sorted();
  }

 private:
  static int log2_of(std::uint64_t value) { return std::bit_width(value) - 1; }

  void take_group(Address at, std::uint64_t first, std::uint64_t blocks, std::uint64_t elements,
                  Elements& out) {
    if (at == kNowhere) return;
    const int o = store_.offset_bytes();
    const std::uint64_t pages = pages_of(elements, page_bits_), bitmap = (pages + 7) / 8;
    store_.check(at, blocks, kIndex);
    if (bitmap > (std::uint64_t{1} << 40) / blocks) store_.damaged(kIndex);
    const std::uint64_t start = 6 + o + offset_bytes_;
    const std::vector<std::byte> bytes =
        store_.read(at, start + blocks * bitmap + blocks * o + 4, kIndex);
    check_sum(store_, bytes, kIndex);
    Cursor c(store_, bytes, kIndex);
    c.expect("EASB");
    c.skip(start - 4);
    const std::span<const std::byte> written = c.take(blocks * bitmap);
    for (std::uint64_t b = 0; b < blocks; ++b)
      take_block(c.address(), first + b * elements, elements, written, b * pages, out);
  }

  void take_block(Address at, std::uint64_t first, std::uint64_t elements,
                  std::span<const std::byte> written, std::uint64_t bit, Elements& out) {
    if (at == kNowhere) return;
    const std::uint64_t pages = pages_of(elements, page_bits_);
    if (pages > 0 && written.empty()) store_.damaged(kIndex);
    const std::uint64_t start = 6 + store_.offset_bytes() + offset_bytes_;
    store_.check(at, elements, kIndex);
    const std::vector<std::byte> bytes =
        store_.read(at, start + (pages ? 0 : elements * out.bytes()) + 4, kIndex);
    check_sum(store_, bytes, kIndex);
    Cursor c(store_, bytes, kIndex);
    c.expect("EADB");
    c.skip(start - 4);
    if (pages > 0)
      take_pages(store_, at + bytes.size(), first, elements, page_bits_, written, bit, out);
    else
      out.take(c, first, elements);
  }

  const Store& store_;
  const Tiling& tiling_;
  bool filtered_;
  Address header_ = kNowhere;
  int page_bits_ = 0, offset_bytes_ = 0;
};

std::vector<Chunk> new_tree(Cursor& layout, const Tiling& tiling, bool filtered) {
  const Store& store = layout.store();
  layout.skip(6);
  const Address tree = layout.address();
  if (tree == kNowhere) return {};
  Found found(store, tiling, filtered);
  constexpr int kPlain = 10, kFiltered = 11;
  const std::size_t rank = tiling.chunk.size();
  visit_records(store, tree, filtered ? kFiltered : kPlain, [&](std::span<const std::byte> record) {
    const std::size_t fixed = store.offset_bytes() + 8 * rank + (filtered ? 4 : 0);
    if (record.size() < fixed + (filtered ? 1 : 0) || record.size() > fixed + (filtered ? 8 : 0))
      store.damaged(kIndex);
    Cursor c(store, record, kIndex);
    const Address at = c.address();
    const std::uint64_t size =
        filtered ? c.number(static_cast<int>(record.size() - fixed)) : tiling.bytes;
    const std::uint64_t left_out = filtered ? c.number(4) : 0;
    Dims place;
    for (std::size_t i = 0; i < rank; ++i) place.push_back(static_cast<std::int64_t>(c.number(8)));
    const std::int64_t number = tiling.number_of(place);
    if (number < 0) c.damaged();
    found.add(number, at, size, left_out);
  });
  return found.sorted();
}

}  // namespace

std::vector<Chunk> chunks_of_tree(const Store& store, Address tree, const Tiling& tiling,
                                  bool filtered) {
  Found found(store, tiling, filtered);
  if (tree == kNowhere) return {};
  const int o = store.offset_bytes();
  std::vector<std::pair<Address, int>> nodes{{tree, -1}};  // with their level, if it is known
  while (!nodes.empty()) {
    const auto [at, expected] = nodes.back();
    nodes.pop_back();
    const std::uint64_t head_bytes = 8 + 2 * o;
    const std::vector<std::byte> head = store.read(at, head_bytes, kIndex);
    Cursor h(store, head, kIndex);
    h.expect("TREE");
    if (h.number(1) != 1) h.damaged();
    const int level = static_cast<int>(h.number(1));
    if (expected >= 0 && level != expected) h.damaged();
    const std::uint64_t count = h.number(2);
    const std::uint64_t entry = 8 + 8 * (tiling.chunk.size() + 1) + o;
    const std::vector<std::byte> bytes = store.read(at + head_bytes, count * entry, kIndex);
    Cursor c(store, bytes, kIndex);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t size = c.number(4), left_out = c.number(4);
      Dims place;
      bool whole = true;
      for (std::int64_t chunk : tiling.chunk) {
        const std::uint64_t begin = c.number(8);
        whole &= begin % chunk == 0;
        place.push_back(static_cast<std::int64_t>(begin / chunk));
      }
      c.skip(8);
      const Address child = c.address();
      if (level > 0) {
        nodes.emplace_back(child, level - 1);
        continue;
      }
      const std::int64_t number = tiling.number_of(place);
      if (!whole || number < 0) c.damaged();
      found.add(number, child, size, left_out);
    }
  }
  return found.sorted();
}

std::vector<Chunk> chunks_of_index(Cursor& layout, const Tiling& tiling, const ChunkIndex& index) {
  switch (index.kind) {
    case ChunkIndex::Single: return single_chunk(layout, tiling, index);
    case ChunkIndex::Implicit: return implicit_chunks(layout, tiling);
    case ChunkIndex::FixedArray: return fixed_array(layout, tiling, index.filtered);
    case ChunkIndex::GrowingArray: return GrowingArray(layout, tiling, index.filtered).read();
    case ChunkIndex::Tree: return new_tree(layout, tiling, index.filtered);
  }
  layout.damaged();
}

}  // namespace snug::data::h5
