#include "data/hdf5_dataset.h"

#include <algorithm>
#include <limits>

#include "data/source.h"

namespace snug::data::h5 {
namespace {

constexpr const char* kRepack = "rewrite it with h5repack";
constexpr std::int64_t kLargestChunk = 1 << 30;

/// Reads the messages of one dataset.
class DatasetReader {
 public:
  DatasetReader(const Store& store, const Messages& messages, const std::string& name)
      : store_(store), messages_(messages), name_(name) {}

  Dataset read() {
    if (find(messages_, Message::ExternalFiles))
      refuse("keeps its numbers in other files", "which are not opened: write them into one file");
    read_sizes();
    read_type();
    checked_product(out_.sizes, width(), fmt::format("{}: '{}'", store_.path(), name_));
    read_fill();
    read_filters();
    read_layout();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = kRepack) const {
    bad_file(store_.path(), fmt::format("the dataset '{}' {}", name_, what), hint);
  }
  std::int64_t width() const { return size_of(out_.dtype); }

  /// Messages that several objects share are in a heap, which nothing we know writes by itself.
  const Message& message(Message::Kind kind) const {
    const Message& m = *find(messages_, kind);
    if (m.shared) refuse("shares parts of its description with others");
    return m;
  }

  void read_sizes() {
    constexpr const char* kWhat = "description of sizes";
    Cursor c(store_, message(Message::Dataspace).bytes, kWhat);
    const std::uint64_t version = c.number(1);
    const std::uint64_t rank = c.number(1), flags = c.number(1);
    if (version != 1 && version != 2) c.damaged();
    constexpr std::uint64_t kSimple = 1;
    const bool none = version == 2 && c.number(1) > kSimple;
    if (version == 1) c.skip(5);
    if (rank < 1 || rank > 8 || none)
      refuse(fmt::format("has {} dimensions; 1 to 8 are supported", none ? 0 : rank), "");
    const auto take = [&](Dims& sizes) {
      const std::uint64_t endless = ~std::uint64_t{0} >> (64 - 8 * store_.length_bytes());
      for (std::uint64_t i = 0; i < rank; ++i) {
        const std::uint64_t size = c.length();
        sizes.push_back(size == endless ? -1
                                        : static_cast<std::int64_t>(std::min<std::uint64_t>(
                                              size, std::numeric_limits<std::int64_t>::max())));
      }
    };
    take(out_.sizes);
    for (std::int64_t size : out_.sizes)
      if (size < 0) c.damaged();
    most_ = out_.sizes;
    if (flags & 1) {
      most_.clear();
      take(most_);
      for (std::size_t i = 0; i < most_.size(); ++i)
        if (most_[i] >= 0 && most_[i] < out_.sizes[i]) c.damaged();
    }
  }

  // ---- types

  void read_type() {
    const Message* type = find(messages_, Message::Datatype);
    Messages committed;  // a type with a name of its own
    if (type->shared) {
      Cursor c(store_, type->bytes, kType);
      if (c.number(1) < 2) refuse("shares its type with others");
      constexpr std::uint64_t kInHeap = 1;
      if (c.number(1) == kInHeap) refuse("shares its type with others");
      committed = messages_at(store_, c.address());
      type = find(committed, Message::Datatype);
      if (!type || type->shared) c.damaged();
    }
    Cursor c(store_, type->bytes, kType);
    take_number(c);
  }

  /// An integer, a float, or an enumeration of integers.
  void take_number(Cursor& c) {
    const std::uint64_t head = c.number(1), bits = c.number(3), size = c.number(4);
    const std::uint64_t version = head >> 4;
    if (version < 1 || version > 5) c.damaged();
    switch (head & 15) {
      case 0: return take_integer(c, bits, size);
      case 1: return take_float(c, bits, size);
      case 8: break;
      default: {
        constexpr const char* kHeld[] = {
            "",        "",           "times", "texts",          "bits",   "bytes without a type",
            "records", "references", "",      "lists or texts", "arrays", "complex numbers"};
        const std::uint64_t kind = head & 15;
        if (kind > 11) c.damaged();
        refuse(fmt::format("does not hold real numbers, but {}", kHeld[kind]), "");
      }
    }
    const std::uint64_t inner = c.number(1), inner_bits = c.number(3), inner_size = c.number(4);
    if ((inner & 15) != 0 || inner_size != size) c.damaged();
    take_integer(c, inner_bits, size);
    if (size == 1 && names_bools(c, bits & 0xffff, version)) out_.dtype = DType::Bool;
  }

  void take_integer(Cursor& c, std::uint64_t bits, std::uint64_t size) {
    const std::uint64_t offset = c.number(2), precision = c.number(2);
    const bool is_signed = bits & 8;
    for (DType t : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16,
                    DType::U32, DType::U64})
      if (static_cast<std::uint64_t>(size_of(t)) == size && is_signed_int(t) == is_signed) {
        if (offset != 0 || precision != 8 * size)
          refuse(fmt::format("holds integers of {} bits in {} bytes", precision, size));
        out_.dtype = t;
        out_.swapped = (bits & 1) && size > 1;
        return;
      }
    refuse(fmt::format("holds integers of {} bytes", size));
  }

  void take_float(Cursor& c, std::uint64_t bits, std::uint64_t size) {
    struct Layout {
      DType dtype;
      std::uint64_t exponent, fraction, bias;  // bits, bits, value
    };
    constexpr Layout kLayouts[] = {{DType::F16, 5, 10, 15},
                                   {DType::BF16, 8, 7, 127},
                                   {DType::F32, 8, 23, 127},
                                   {DType::F64, 11, 52, 1023}};
    const std::uint64_t offset = c.number(2), precision = c.number(2);
    const std::uint64_t exponent_at = c.number(1), exponent = c.number(1);
    const std::uint64_t fraction_at = c.number(1), fraction = c.number(1), bias = c.number(4);
    const bool vax = bits & 64;
    for (const Layout& l : kLayouts)
      if (static_cast<std::uint64_t>(size_of(l.dtype)) == size && precision == 8 * size &&
          offset == 0 && exponent == l.exponent && fraction == l.fraction && bias == l.bias &&
          fraction_at == 0 && exponent_at == fraction && !vax) {
        out_.dtype = l.dtype;
        out_.swapped = bits & 1;
        return;
      }
    refuse(fmt::format("holds floats of {} bits in {} bytes that are none of IEEE's", precision,
                       size));
  }

  /// h5py's way to store bools: the names FALSE and TRUE for 0 and 1.
  static bool names_bools(Cursor& c, std::uint64_t count, std::uint64_t version) {
    if (count != 2) return false;
    const std::string first = padded_text(c, version), second = padded_text(c, version);
    const bool ascending = first == "FALSE" && second == "TRUE";
    if (!ascending && !(first == "TRUE" && second == "FALSE")) return false;
    const std::uint64_t a = c.number(1), b = c.number(1);
    return a == (ascending ? 0 : 1) && b == (ascending ? 1 : 0);
  }
  static std::string padded_text(Cursor& c, std::uint64_t version) {
    std::string text = c.text();
    if (version < 3) c.skip((8 - (text.size() + 1) % 8) % 8);
    return text;
  }

  // ---- values that were never written

  void read_fill() {
    constexpr const char* kWhat = "fill value";
    out_.fill.assign(static_cast<std::size_t>(width()), std::byte{0});
    if (find(messages_, Message::Fill)) {
      Cursor c(store_, message(Message::Fill).bytes, kWhat);
      const std::uint64_t version = c.number(1);
      bool defined = false;
      if (version == 3) {
        defined = c.number(1) & 32;
      } else {
        c.skip(2);
        defined = c.number(1) != 0;
      }
      if (defined) take_fill(c);
    } else if (find(messages_, Message::OldFill)) {
      Cursor c(store_, message(Message::OldFill).bytes, kWhat);
      take_fill(c);
    }
  }
  void take_fill(Cursor& c) {
    const std::uint64_t size = c.number(4);
    constexpr std::uint64_t kNone = 1u << 31;  // from here on negative
    if (size == 0 || size >= kNone) return;
    if (size != out_.fill.size()) c.damaged();
    const std::span<const std::byte> bytes = c.take(size);
    out_.fill.assign(bytes.begin(), bytes.end());
  }

  // ---- filters

  void read_filters() {
    if (!find(messages_, Message::Filters)) return;
    Cursor c(store_, message(Message::Filters).bytes, "list of filters");
    const std::uint64_t version = c.number(1), count = c.number(1);
    if (version != 1 && version != 2) c.damaged();
    if (version == 1) c.skip(6);
    if (count > 32) c.damaged();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t kind = c.number(2);
      constexpr std::uint64_t kFirstForeign = 256;
      const std::uint64_t name_bytes = version == 1 || kind >= kFirstForeign ? c.number(2) : 0;
      c.skip(2);
      const std::uint64_t values = c.number(2);
      const std::span<const std::byte> text = c.take(name_bytes);
      std::vector<std::uint64_t> given;
      for (std::uint64_t k = 0; k < values; ++k) given.push_back(c.number(4));
      if (version == 1 && values % 2 == 1) c.skip(4);
      add_filter(kind, std::string(reinterpret_cast<const char*>(text.data()), text.size()), given);
    }
  }

  void add_filter(std::uint64_t kind, std::string name, const std::vector<std::uint64_t>& given) {
    constexpr const char* kKnown[] = {"",     "deflate", "shuffle",    "fletcher32",
                                      "szip", "nbit",    "scaleoffset"};
    if (kind >= 1 && kind <= 3) {
      Filter filter{static_cast<Filter::Kind>(kind), 1};
      if (kind == Filter::Shuffle) filter.width = given.empty() ? width() : given[0] & 0x7fffffff;
      if (filter.width < 1) store_.damaged("list of filters");
      out_.filters.push_back(filter);
      return;
    }
    if (kind <= 6) name = kKnown[kind];
    name = name.substr(0, name.find('\0'));
    refuse(fmt::format("is packed by the filter {} ({})", name.empty() ? "without a name" : name,
                       kind),
           "gzip, shuffle and fletcher32 are known: rewrite it with h5repack -f GZIP=4 OLD NEW");
  }

  // ---- places

  void read_layout() {
    Cursor c(store_, message(Message::Layout).bytes, kLayout);
    const std::uint64_t version = c.number(1);
    if (version < 1 || version > 5)
      refuse(fmt::format("has a layout of the unknown version {}", version));
    std::uint64_t kind = 0, rank = 0;
    if (version < 3) {
      rank = c.number(1);
      kind = c.number(1);
      c.skip(5);
    } else {
      kind = c.number(1);
    }
    constexpr std::uint64_t kInPlace = 0, kInChunks = 2, kVirtual = 3;  // 1: in one piece
    if (kind == kVirtual)
      refuse("is made of parts of other files",
             "which are not opened: write its numbers into one file");
    if (kind > kVirtual) c.damaged();
    if (kind != kInChunks && !out_.filters.empty()) c.damaged();
    if (kind == kInPlace) {
      if (version < 3) c.skip(4 * rank);
      return take_in_place(c, version < 3 ? 4 : 2);
    }
    if (kind == kInChunks) return take_chunks(c, version, rank);
    out_.at = c.address();
    if (out_.at != kNowhere) store_.check(out_.at, bytes(), "data");
  }

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(product(out_.sizes) * width()); }

  void take_in_place(Cursor& c, int size_bytes) {
    const std::uint64_t size = c.number(size_bytes);
    if (size == 0) return;
    if (size != bytes()) c.damaged();
    const std::span<const std::byte> all = c.take(size);
    out_.in_place.assign(all.begin(), all.end());
  }

  void take_chunks(Cursor& c, std::uint64_t version, std::uint64_t rank) {
    Address tree = kNowhere;
    std::uint64_t flags = 0;
    int size_bytes = 4;
    if (version >= 4) {
      flags = c.number(1);
      rank = c.number(1);
      size_bytes = static_cast<int>(c.number(1));
      if (size_bytes < 1 || size_bytes > 8) c.damaged();
    } else {
      if (version == 3) rank = c.number(1);
      tree = c.address();
    }
    if (rank != out_.sizes.size() + 1) c.damaged();  // the last one is the size of an element
    Tiling& t = out_.tiling;
    for (std::size_t i = 0; i < out_.sizes.size(); ++i) {
      const std::uint64_t size = c.number(size_bytes);
      if (size < 1 || size > std::uint64_t{1} << 40) c.damaged();
      t.chunk.push_back(static_cast<std::int64_t>(size));
    }
    if (c.number(size_bytes) != static_cast<std::uint64_t>(width())) c.damaged();
    t.bytes = checked_product(t.chunk, width(), store_.path());
    if (t.bytes > kLargestChunk) refuse("has chunks larger than 1 GiB");
    for (std::size_t i = 0; i < t.chunk.size(); ++i) {
      const auto count = [&](std::int64_t size) {
        return size / t.chunk[i] + (size % t.chunk[i] > 0);
      };
      t.counts.push_back(count(out_.sizes[i]));
      t.most.push_back(most_[i] < 0 ? 0 : std::max<std::int64_t>(count(most_[i]), 1));
    }
    const bool filtered = !out_.filters.empty();
    if (version < 4) {
      out_.chunks = chunks_of_tree(store_, tree, t, filtered);
      return;
    }
    const std::uint64_t kind = c.number(1);
    if (kind < ChunkIndex::Single || kind > ChunkIndex::Tree) c.damaged();
    out_.plain_edges = flags & 1;
    out_.chunks =
        chunks_of_index(c, t, {static_cast<ChunkIndex::Kind>(kind), filtered, (flags & 2) != 0});
  }

  static constexpr const char* kType = "type of a dataset";
  static constexpr const char* kLayout = "layout of a dataset";
  const Store& store_;
  const Messages& messages_;
  const std::string& name_;
  Dims most_;  // sizes the array may grow to; -1: without end
  Dataset out_;
};

}  // namespace

std::int64_t Tiling::number_of(const Dims& place) const {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0 || place[i] >= counts[i]) return -1;
    number = number * counts[i] + place[i];
  }
  return number;
}

Dims Tiling::place_of(std::int64_t number) const {
  Dims place(counts.size(), 0);
  for (std::size_t i = counts.size(); i-- > 0; number /= counts[i]) place[i] = number % counts[i];
  return place;
}

Dataset dataset_of(const Store& store, const Messages& messages, const std::string& name) {
  return DatasetReader(store, messages, name).read();
}

}  // namespace snug::data::h5
