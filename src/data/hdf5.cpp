#include <algorithm>
#include <list>
#include <mutex>
#include <optional>

#include "base/fork.h"
#include "base/utf8.h"
#include "data/gauge.h"
#include "data/hdf5_dataset.h"
#include "data/inflate.h"
#include "data/source.h"

namespace snug::data {
namespace {

using h5::Chunk;
using h5::Dataset;
using h5::Filter;

constexpr std::int64_t kChunkedBlock = 1 << 16, kPlainBlock = 1 << 18;  // bytes, at least
constexpr std::int64_t kCache = 1 << 20;  // bytes of unpacked chunks of every dataset, or one

// ---- names

/// Finds datasets by path. What is outside of the file is refused.
class Names {
 public:
  explicit Names(const h5::Store& store) : store_(store) {}

  /// All datasets of the outermost group.
  std::vector<std::string> at_top() {
    std::vector<std::string> found;
    for (const auto& [name, link] : links_at(store_.root())) {
      if (link.kind == h5::Link::External) refuse_link(name);
      if (!is_utf8(name))
        bad_file(store_.path(), fmt::format("the name '{}' is not in UTF-8", name));
      const std::optional<h5::Messages> object = find(name);
      if (object && h5::is_dataset(*object)) found.push_back(name);
    }
    if (found.empty())
      bad_file(store_.path(), "has no dataset at its top",
               "give the names of datasets, as 'group/name'");
    return found;
  }

  h5::Messages dataset(const std::string& name) {
    std::optional<h5::Messages> object = find(name);
    if (!object || !h5::is_dataset(*object))
      bad_file(store_.path(),
               fmt::format("there is no dataset '{}'{}", name, object ? ": it is a group" : ""),
               hint_for(name));
    return std::move(*object);
  }

 private:
  /// The object with this path; none if there is none.
  std::optional<h5::Messages> find(const std::string& path) {
    std::vector<std::string> parts;  // that are still to go, the next one last
    push_parts(path, parts);
    std::vector<h5::Address> above{store_.root()};  // groups on the way, the last one is reached
    for (int soft = 0; !parts.empty();) {
      const std::string part = std::move(parts.back());
      parts.pop_back();
      const h5::Links& links = links_at(above.back());
      const auto link = links.find(part);
      if (link == links.end()) return {};
      switch (link->second.kind) {
        case h5::Link::Hard: above.push_back(link->second.object); break;
        case h5::Link::Soft: {
          constexpr int kMostSoft = 64;
          if (++soft > kMostSoft) return {};
          if (link->second.target.starts_with('/')) above.resize(1);
          push_parts(link->second.target, parts);
          break;
        }
        default: refuse_link(part);
      }
    }
    return h5::messages_at(store_, above.back());
  }

  static void push_parts(const std::string& path, std::vector<std::string>& parts) {
    std::vector<std::string> in_order;
    for (std::size_t at = 0; at <= path.size();) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      const std::string part = path.substr(at, end - at);
      if (!part.empty() && part != ".") in_order.push_back(part);
      at = end + 1;
    }
    parts.insert(parts.end(), in_order.rbegin(), in_order.rend());
  }

  const h5::Links& links_at(h5::Address group) {
    const auto known = groups_.find(group);
    if (known != groups_.end()) return known->second;
    return groups_[group] = h5::links_of(store_, h5::messages_at(store_, group));
  }

  std::string hint_for(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& [known, link] : links_at(store_.root())) names.push_back(known);
    const std::string near = nearest(name, names);
    return near.empty() ? "" : fmt::format("did you mean '{}'?", near);
  }

  [[noreturn]] void refuse_link(const std::string& name) const {
    bad_file(store_.path(), fmt::format("the name '{}' leads to another file", name),
             "which is not opened: open that one, or give the names of datasets in this file");
  }

  const h5::Store& store_;
  std::map<h5::Address, h5::Links> groups_;
};

// ---- chunks

/// Undoes the filter that puts the first bytes of all numbers first, then the second ones.
void join_bytes(std::span<const std::byte> from, std::int64_t width, std::byte* out) {
  const auto count = static_cast<std::int64_t>(from.size()) / width;
  for (std::int64_t b = 0; b < width; ++b)
    for (std::int64_t i = 0; i < count; ++i) out[i * width + b] = from[b * count + i];
  const auto done = static_cast<std::size_t>(count * width);
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(done), from.end(), out + done);
}

/// Undoes the filters of a chunk; false if it is damaged.
bool unpack(const Dataset& set, std::vector<std::byte> bytes, std::uint32_t left_out,
            std::span<std::byte> out, Gauge::Share& memory) {
  const auto applied = [&](std::size_t i) { return (left_out >> i & 1) == 0; };
  for (std::size_t i = set.filters.size(); i-- > 0;) {
    if (!applied(i)) continue;
    const Filter& filter = set.filters[i];
    if (filter.kind == Filter::Fletcher32) {
      if (bytes.size() < 4) return false;
      std::uint32_t sum = 0;
      for (std::size_t k = 0; k < 4; ++k)
        sum |= std::to_integer<std::uint32_t>(bytes[bytes.size() - 4 + k]) << 8 * k;
      bytes.resize(bytes.size() - 4);
      if (h5::fletcher32(bytes) != sum) return false;
      continue;
    }
    // What it was before this filter: a sum that came earlier is part of it.
    std::size_t size = out.size();
    for (std::size_t k = 0; k < i; ++k)
      if (set.filters[k].kind == Filter::Fletcher32 && applied(k)) size += 4;
    constexpr std::size_t kMaxRatio = 1040;  // deflate packs no more into a byte
    const bool deflated = filter.kind == Filter::Deflate;
    if (deflated ? size / kMaxRatio > bytes.size() : size != bytes.size()) return false;
    memory.add(static_cast<std::int64_t>(size));
    std::vector<std::byte> plain(size);
    if (deflated && !inflate_all(bytes, plain)) return false;
    if (!deflated) join_bytes(bytes, filter.width, plain.data());
    bytes = std::move(plain);
  }
  if (bytes.size() != out.size()) return false;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return true;
}

/// A box of an array in another one, copied. Sizes are in elements of `width` bytes.
struct Box {
  const Dims& sizes;  // of the array
  Dims begin;
};
void copy_box(const std::byte* from, const Box& source, std::byte* to, const Box& target,
              const Dims& box, std::int64_t width) {
  // Trailing axes that are whole in both are one run.
  std::size_t axis = box.size() - 1;
  std::int64_t run = box[axis];
  while (axis > 0 && box[axis] == source.sizes[axis] && box[axis] == target.sizes[axis])
    run *= box[--axis];
  const auto start_of = [&](const Box& b, const Dims& place) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < box.size(); ++i) at = at * b.sizes[i] + b.begin[i] + place[i];
    return at * width;
  };
  for (Dims place(box.size(), 0);;) {
    std::memcpy(to + start_of(target, place), from + start_of(source, place), run * width);
    std::size_t i = axis;
    while (i > 0 && ++place[i - 1] == box[i - 1]) place[--i] = 0;
    if (i == 0) return;
  }
}

/// Chunks that were unpacked last, of one dataset.
class ChunkCache {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;

  Bytes find(std::int64_t number) {
    std::lock_guard lock(mutex_);
    for (auto it = kept_.begin(); it != kept_.end(); ++it)
      if (it->first == number) {
        kept_.splice(kept_.begin(), kept_, it);
        return kept_.front().second;
      }
    return nullptr;
  }
  void keep(std::int64_t number, Bytes bytes) {
    std::lock_guard lock(mutex_);
    const auto most = std::max<std::int64_t>(kCache / static_cast<std::int64_t>(bytes->size()), 1);
    kept_.emplace_front(number, std::move(bytes));
    while (static_cast<std::int64_t>(kept_.size()) > std::min<std::int64_t>(most, 64))
      kept_.pop_back();
  }

 private:
  BriefMutex mutex_;
  std::list<std::pair<std::int64_t, Bytes>> kept_;
};

// ---- rows

class Hdf5Rows : public Source {
 public:
  Hdf5Rows(const std::string& path, const std::vector<std::string>& names) : store_(path) {
    Names all(store_);
    for (const std::string& name : names.empty() ? all.at_top() : names)
      add(name, h5::dataset_of(store_, all.dataset(name), name));
    choose_block();
    caches_ = std::vector<ChunkCache>(sets_.size());
  }

  /// The list of chunks, those that stay unpacked, and what unpacking took.
  std::int64_t own_bytes() const override {
    std::int64_t bytes = memory_.peak();
    for (const Dataset& set : sets_) {
      bytes += static_cast<std::int64_t>(set.chunks.size() * sizeof(Chunk) + set.in_place.size());
      if (set.chunked() && set.tiling.chunk[0] > 1)
        bytes += std::max(kCache, set.tiling.bytes) + set.tiling.bytes;
    }
    return bytes;
  }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    for (std::size_t f = 0; f < sets_.size(); ++f) {
      const std::int64_t row = fields_[f].bytes();
      if (!out[f] || row == 0) continue;
      const Dataset& set = sets_[f];
      const std::span<std::byte> rows(out[f], static_cast<std::size_t>(count * row));
      if (set.chunked())
        read_chunks(f, begin, count, out[f]);
      else if (!set.in_place.empty())
        std::memcpy(out[f], set.in_place.data() + begin * row, rows.size());
      else if (set.at != h5::kNowhere)
        store_.read_data(set.at + static_cast<std::uint64_t>(begin * row), count * row, out[f]);
      else
        fill(set, rows);
      if (set.swapped) swap_bytes(rows, size_of(set.dtype));
      if (set.dtype == DType::Bool)
        check_bools(rows, fmt::format("{}: '{}'", store_.path(), fields_[f].name));
    }
  }

 private:
  static void fill(const Dataset& set, std::span<std::byte> out) {
    const std::size_t width = set.fill.size();
    for (std::size_t i = 0; i < out.size(); i += width)
      std::memcpy(out.data() + i, set.fill.data(), width);
  }
  static void swap_bytes(std::span<std::byte> out, std::int64_t width) {
    for (auto at = out.begin(); at != out.end(); at += width) std::reverse(at, at + width);
  }

  void read_chunks(std::size_t f, std::int64_t begin, std::int64_t count, std::byte* out) const {
    const Dataset& set = sets_[f];
    const h5::Tiling& t = set.tiling;
    std::int64_t in_row = 1;  // chunks side by side
    for (std::size_t i = 1; i < t.counts.size(); ++i) in_row *= t.counts[i];
    const std::int64_t first = begin / t.chunk[0] * in_row;
    const std::int64_t end = ((begin + count - 1) / t.chunk[0] + 1) * in_row;
    const auto less = [](const Chunk& c, std::int64_t number) { return c.number < number; };
    auto chunk = std::lower_bound(set.chunks.begin(), set.chunks.end(), first, less);
    const auto last = std::lower_bound(chunk, set.chunks.end(), end, less);
    if (last - chunk < end - first)
      fill(set, {out, static_cast<std::size_t>(count * fields_[f].bytes())});
    for (; chunk != last; ++chunk) read_chunk(f, *chunk, begin, count, out);
  }

  /// The part of a chunk that lies in the rows.
  void read_chunk(std::size_t f, const Chunk& chunk, std::int64_t begin, std::int64_t count,
                  std::byte* out) const {
    const Dataset& set = sets_[f];
    const h5::Tiling& t = set.tiling;
    const Dims place = t.place_of(chunk.number);
    Dims source, target, box;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const std::int64_t low = place[i] * t.chunk[i];
      const std::int64_t from = i == 0 ? std::max(low, begin) : low;
      const std::int64_t to = std::min(low + t.chunk[i], i == 0 ? begin + count : set.sizes[i]);
      source.push_back(from - low);
      target.push_back(i == 0 ? from - begin : from);
      box.push_back(to - from);
    }
    Dims sizes = set.sizes;
    sizes[0] = count;
    const auto bytes = static_cast<std::size_t>(t.bytes);
    const bool all_rows = box[0] == std::min(t.chunk[0], set.sizes[0] - place[0] * t.chunk[0]);
    const bool rows_alone = std::equal(t.chunk.begin() + 1, t.chunk.end(), set.sizes.begin() + 1);
    Gauge::Share memory(memory_);
    if (rows_alone && box[0] == t.chunk[0])
      return unpack_chunk(f, chunk, {out + target[0] * fields_[f].bytes(), bytes}, memory);
    const std::int64_t width = size_of(set.dtype);
    ChunkCache::Bytes plain = all_rows ? nullptr : caches_[f].find(chunk.number);
    if (!plain) {
      auto made = std::make_shared<std::vector<std::byte>>(bytes);
      memory.add(t.bytes);
      unpack_chunk(f, chunk, *made, memory);
      plain = made;
      if (!all_rows) caches_[f].keep(chunk.number, plain);
    }
    copy_box(plain->data(), {t.chunk, source}, out, {sizes, target}, box, width);
  }

  void unpack_chunk(std::size_t f, const Chunk& chunk, std::span<std::byte> out,
                    Gauge::Share& memory) const {
    const Dataset& set = sets_[f];
    bool packed = !set.filters.empty();
    const Dims place = set.tiling.place_of(chunk.number);
    if (set.plain_edges)
      for (std::size_t i = 0; i < place.size(); ++i)
        packed &= (place[i] + 1) * set.tiling.chunk[i] <= set.sizes[i];
    if (!packed && chunk.size == out.size())
      return store_.read_data(chunk.at, static_cast<std::int64_t>(chunk.size), out.data());
    memory.add(static_cast<std::int64_t>(chunk.size));
    std::vector<std::byte> bytes(chunk.size);
    store_.read_data(chunk.at, static_cast<std::int64_t>(chunk.size), bytes.data());
    if (packed && unpack(set, std::move(bytes), chunk.left_out, out, memory)) return;
    const std::int64_t row = place[0] * set.tiling.chunk[0];
    const std::int64_t end = std::min(row + set.tiling.chunk[0], set.sizes[0]);
    bad_file(store_.path(),
             end - row == 1
                 ? fmt::format("row {} of the dataset '{}' is damaged", row, fields_[f].name)
                 : fmt::format("a chunk of rows {} to {} of the dataset '{}' is damaged", row, end,
                               fields_[f].name));
  }

  void add(const std::string& name, Dataset set) {
    if (!sets_.empty() && set.sizes[0] != rows_)
      bad_file(store_.path(),
               fmt::format("the dataset '{}' has {} rows, '{}' has {}", name, set.sizes[0],
                           fields_[0].name, rows_),
               "give the names of datasets that have as many rows");
    rows_ = set.sizes[0];
    Field field{name, set.dtype, set.sizes};
    field.shape.erase(0);
    fields_.push_back(field);
    sets_.push_back(std::move(set));
  }

  /// The chunks of the field with the largest rows; small ones together.
  void choose_block() {
    std::size_t main = 0;
    for (std::size_t f = 1; f < fields_.size(); ++f)
      if (fields_[f].bytes() > fields_[main].bytes()) main = f;
    const Dataset& set = sets_[main];
    const std::int64_t row = std::max<std::int64_t>(fields_[main].bytes(), 1);
    const std::int64_t rows = set.chunked() ? set.tiling.chunk[0] : 1;
    const std::int64_t wanted = set.chunked() ? kChunkedBlock : kPlainBlock;
    // The chunk is smaller than 1 GiB, its rows need not be.
    const std::int64_t bytes = rows > INT64_MAX / row ? INT64_MAX : rows * row;
    block_ = rows * std::max<std::int64_t>(wanted / bytes, 1);
    block_ = std::clamp<std::int64_t>(block_, 1, std::max<std::int64_t>(rows_, 1));
  }

  h5::Store store_;
  std::vector<Dataset> sets_;
  mutable std::vector<ChunkCache> caches_;
  mutable Gauge memory_;
};

}  // namespace

SourcePtr hdf5(const std::string& path, const std::vector<std::string>& names) {
  return std::make_shared<Hdf5Rows>(path, names);
}

}  // namespace snug::data
