#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/bytes.h"
#include "data/file.h"
#include "io/new_file.h"
#include "io/tensor_file.h"
#include "target/free_memory.h"

namespace snug::io {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // of the format
constexpr std::size_t kAlignment = 64;             // of the first element in files that we write
constexpr std::string_view kHashName = "snug.hash";
constexpr std::size_t kHashDigits = 32;

struct Code {
  const char* name;
  DType dtype;
};
constexpr Code kCodes[] = {
    {"BOOL", DType::Bool}, {"I8", DType::I8},   {"I16", DType::I16},   {"I32", DType::I32},
    {"I64", DType::I64},   {"U8", DType::U8},   {"U16", DType::U16},   {"U32", DType::U32},
    {"U64", DType::U64},   {"F16", DType::F16}, {"BF16", DType::BF16}, {"F32", DType::F32},
    {"F64", DType::F64},   {"C64", DType::C64},
};

// ---- reading

[[noreturn]] void bad(const std::string& what, const std::string& why, const char* hint = "") {
  fail(Fault::Value, fmt::format("{}: {}", what, why), hint);
}

struct Entry {
  std::string name;
  DType dtype = DType::F32;
  Dims shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the data
};

DType dtype_of(const std::string& code, const std::string& name, const std::string& what) {
  for (const Code& c : kCodes)
    if (code == c.name) return c.dtype;
  fail(Fault::Unsupported, fmt::format("{}: \"{}\" has dtype {}", what, name, code));
}

/// Takes the events of a JSON parser, so that a header is never a tree in memory:
///     {"__metadata__": {KEY: TEXT}, NAME: {"dtype": CODE, "shape": [...], "data_offsets": [...]}}
/// Depth 1 is within the outer object, 2 within an entry, 3 within its lists.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& what) : what_(what) {}

  std::vector<Entry> entries;  // sorted by name, after `finish`
  Metadata metadata;

  // What json::sax_parse calls.
  bool key(std::string& text) {
    if (depth_ == 1) name_ = text;
    if (depth_ == 2) field_ = text;
    return true;
  }
  bool start_object(std::size_t) {
    if (depth_ == 1) part_ = Part();
    if (depth_ > 1) other();
    return open();
  }
  bool end_object() {
    if (--depth_ == 1 && name_ != kMetadata) add_entry();
    return true;
  }
  bool start_array(std::size_t) {
    std::optional<Numbers>* numbers = list();
    if (depth_ != 2 || !numbers) {
      other();
    } else {
      if (*numbers) wrong(fmt::format("its {} is given twice", field_));
      numbers->emplace();
    }
    return open();
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool string(std::string& text) {
    if (in_metadata()) {
      if (!metadata.emplace(field_, text).second)
        bad(what_, fmt::format("its metadata \"{}\" is given twice", field_));
    } else if (depth_ == 2 && field_ == "dtype") {
      if (part_.dtype) wrong("its dtype is given twice");
      part_.dtype = text;
    } else {
      other();
    }
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    constexpr std::uint64_t kMax = std::uint64_t{1} << 62;
    std::optional<Numbers>* numbers = list();
    if (depth_ != 3 || !numbers) return other();
    if (value > kMax) wrong(kNoNumber);
    if ((*numbers)->size() == kMaxNumbers) wrong("has too many sizes");
    (*numbers)->push_back(value);
    return true;
  }
  bool null() { return other(); }
  bool boolean(bool) { return other(); }
  bool number_integer(std::int64_t) { return other(); }
  bool number_float(double, const std::string&) { return other(); }
  bool binary(json::binary_t&) { return other(); }
  bool parse_error(std::size_t at, const std::string&, const json::exception&) {
    bad(what_, fmt::format("its header is no JSON, at byte {}", at), "it is damaged");
  }

  void finish() {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    for (std::size_t i = 1; i < entries.size(); ++i)
      if (entries[i].name == entries[i - 1].name)
        bad(what_, fmt::format("\"{}\" is in its header twice", entries[i].name));
  }

 private:
  static constexpr std::string_view kMetadata = "__metadata__";
  static constexpr const char* kNoNumber = "a size is no number";
  static constexpr std::size_t kMaxNumbers = 64;

  using Numbers = std::vector<std::uint64_t>;
  /// An entry as far as it was read.
  struct Part {
    std::optional<std::string> dtype;
    std::optional<Numbers> shape, offsets;
  };

  bool in_metadata() const { return depth_ == 2 && name_ == kMetadata; }
  /// The list that the field is; null for others.
  std::optional<Numbers>* list() {
    if (name_ == kMetadata) return nullptr;
    return field_ == "shape" ? &part_.shape : field_ == "data_offsets" ? &part_.offsets : nullptr;
  }
  [[noreturn]] void wrong(const std::string& why) const {
    bad(what_, fmt::format("\"{}\": {}", name_, why), "its header is damaged");
  }
  bool open() {
    constexpr int kMaxDepth = 3;
    if (++depth_ > kMaxDepth) bad(what_, "its header is nested too deep");
    return true;
  }
  /// A value that is not what stands in its place; unknown fields of entries are allowed.
  bool other() const {
    if (depth_ == 0) bad(what_, "its header is no JSON object", "it is damaged");
    if (name_ == kMetadata) {
      if (depth_ == 1) bad(what_, "its __metadata__ is no object");
      bad(what_, fmt::format("its metadata \"{}\" is no text", field_));
    }
    if (depth_ == 1 || (depth_ == 2 && known_field())) wrong(kNoEntry);
    if (known_field()) wrong(kNoNumber);
    return true;
  }
  bool known_field() const {
    return field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
  }

  void add_entry() {
    if (!part_.dtype || !part_.shape || !part_.offsets || part_.offsets->size() != 2)
      wrong(kNoEntry);
    Entry entry{name_, dtype_of(*part_.dtype, name_, what_), {}, 0, 0};
    if (part_.shape->size() > 8)
      wrong(fmt::format("has {} dimensions; there are 0 to 8", part_.shape->size()));
    constexpr std::uint64_t kMax = std::uint64_t{1} << 62;
    std::uint64_t bytes = static_cast<std::uint64_t>(size_of(entry.dtype));
    bool empty = false;
    for (std::uint64_t size : *part_.shape) {
      empty |= size == 0;
      if (size != 0 && bytes > kMax / size) wrong("its sizes are too large");
      if (size != 0) bytes *= size;
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    if (empty) bytes = 0;
    entry.begin = (*part_.offsets)[0];
    entry.end = (*part_.offsets)[1];
    if (entry.begin > entry.end) wrong("its data_offsets are no range");
    if (entry.end - entry.begin != bytes)
      wrong(fmt::format("has {} bytes for shape {} of {}", entry.end - entry.begin,
                        describe_shape(entry.shape), name_of(entry.dtype)));
    entries.push_back(std::move(entry));
  }

  static constexpr const char* kNoEntry = "has no dtype, shape and two data_offsets";
  const std::string& what_;
  int depth_ = 0;
  std::string name_, field_;
  Part part_;
};

/// The entries in the order of their places, which follow one another and fill the data, as the
/// format demands.
std::vector<const Entry*> in_places(const std::vector<Entry>& entries, std::uint64_t size,
                                    const std::string& what) {
  std::vector<const Entry*> sorted;
  for (const Entry& e : entries) sorted.push_back(&e);
  std::sort(sorted.begin(), sorted.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const Entry* e : sorted) {
    if (e->begin != at)
      bad(what,
          fmt::format("\"{}\" begins at byte {} of the data, not at {}", e->name, e->begin, at),
          "it is damaged");
    at = e->end;
  }
  if (at != size)
    bad(what, fmt::format("has {} bytes of data, but its header speaks of {}", size, at),
        "it is cut or damaged");
  return sorted;
}

// ---- writing

const char* code_of(DType dtype, const std::string& name) {
  for (const Code& c : kCodes)
    if (c.dtype == dtype) return c.name;
  fail(Fault::Unsupported, fmt::format("safetensors: \"{}\" has dtype {}", name, name_of(dtype)),
       "save it as .npz, or its real and imaginary parts");
}

/// What is written: the header with its length, and the elements in the order of `arrays`.
struct Image {
  std::string head;
  std::vector<Array> arrays;  // contiguous
};

/// Wide elements come first, so that all are aligned.
Image image_of(const TensorFile& file) {
  std::vector<const NamedArray*> order;
  std::unordered_set<std::string_view> names;
  for (const NamedArray& t : file.tensors) {
    if (!names.insert(t.name).second || t.name == "__metadata__")
      fail(Fault::Value, fmt::format("safetensors: two arrays are named \"{}\"", t.name));
    order.push_back(&t);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedArray* a, const NamedArray* b) {
    return size_of(a->array.dtype) > size_of(b->array.dtype);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  Image out;
  std::int64_t at = 0;
  for (const NamedArray* t : order) {
    const Array& a = t->array;
    header[t->name] = {{"dtype", code_of(a.dtype, t->name)},
                       {"shape", std::vector<std::int64_t>(a.shape.begin(), a.shape.end())},
                       {"data_offsets", {at, at + a.bytes()}}};
    at += a.bytes();
    out.arrays.push_back(a.contiguous() ? a.checked("save") : a.contiguous_copy());
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    fail(Fault::Value, "safetensors: a name or metadata is no UTF-8");
  }
  text.append((kAlignment - (8 + text.size()) % kAlignment) % kAlignment, ' ');
  if (text.size() > kMaxHeader)
    fail(Fault::Value, fmt::format("safetensors: a header of {} bytes is too large", text.size()));
  for (int i = 0; i < 8; ++i) out.head.push_back(static_cast<char>(text.size() >> 8 * i & 0xff));
  out.head += text;
  return out;
}

void write(const std::string& path, const Image& image) {
  NewFile out(path);
  out.write(image.head);
  for (const Array& a : image.arrays) out.write(a.data, static_cast<std::size_t>(a.bytes()));
  out.commit();
}

// ---- the hash

class Hash {
 public:
  Hash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~Hash() { XXH3_freeState(state_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  void add(const void* data, std::size_t bytes) { XXH3_128bits_update(state_, data, bytes); }
  std::string digits() const {
    const XXH128_hash_t h = XXH3_128bits_digest(state_);
    return fmt::format("{:016x}{:016x}", h.high64, h.low64);
  }

 private:
  XXH3_state_t* state_;
};

/// Where the digits are in a header; they count as zeros in the hash.
std::size_t place_of_hash(std::string_view head, const std::string& digits) {
  const std::size_t at = head.find(fmt::format("\"{}\":\"{}\"", kHashName, digits));
  return at == head.npos ? at : at + kHashName.size() + 4;
}

/// The length of the header in 8 bytes, and the header.
std::string read_head(const data::File& file) {
  const std::string& path = file.path();
  const auto size = static_cast<std::uint64_t>(file.size());
  if (size < 8) bad(path, fmt::format("has {} bytes, which is no safetensors file", size));
  unsigned char length_bytes[8];
  file.read(0, 8, length_bytes);
  std::uint64_t length = 0;
  for (int i = 8; i-- > 0;) length = length << 8 | length_bytes[i];
  if (length > kMaxHeader || length > size - 8)
    bad(path, fmt::format("its header of {} bytes does not fit in its {} bytes", length, size),
        "it is cut, or no safetensors file");
  std::string head(8 + length, ' ');
  file.read(0, static_cast<std::int64_t>(head.size()), head.data());
  return head;
}

/// Reads a file from its begin to its end. `hashed`: it has a hash, which must fit.
TensorFile read_file(const std::string& path, bool hashed) {
  const data::File file(path);
  std::string head = read_head(file);
  HeaderReader header(path);
  json::sax_parse(std::string_view(head).substr(8), &header);
  header.finish();
  const auto size = static_cast<std::uint64_t>(file.size()) - head.size();
  const std::vector<const Entry*> places = in_places(header.entries, size, path);
  Hash hash;
  std::string wanted;
  if (hashed) {
    const auto found = header.metadata.find(std::string(kHashName));
    if (found == header.metadata.end())
      bad(path, "has no hash of its contents", "it was not written by save_hashed");
    wanted = found->second;
    const std::size_t place = place_of_hash(head, wanted);
    if (place == head.npos || wanted.size() != kHashDigits) bad(path, "its hash is damaged");
    head.replace(place, kHashDigits, std::string(kHashDigits, '0'));
    hash.add(head.data(), head.size());
  }
  if (const std::uint64_t free = free_for_data(); size > free)
    fail(Fault::Memory, fmt::format("{}: its arrays need {}, but {} are free", path,
                                    describe_bytes(size), describe_bytes(free)));
  TensorFile out;
  out.metadata = std::move(header.metadata);
  out.tensors.resize(places.size());
  for (const Entry* e : places) {
    Array a = Array::empty(e->dtype, e->shape);
    const auto bytes = static_cast<std::size_t>(e->end - e->begin);
    file.read(static_cast<std::int64_t>(head.size() + e->begin), static_cast<std::int64_t>(bytes),
              a.data);
    if (hashed) hash.add(a.data, bytes);
    if (e->dtype == DType::Bool)
      data::check_bools({a.data, bytes}, fmt::format("{}: \"{}\"", path, e->name));
    out.tensors[e - header.entries.data()] = {e->name, std::move(a)};
  }
  if (hashed && hash.digits() != wanted)
    bad(path, "is damaged: its hash does not fit its contents");
  return out;
}

}  // namespace

void save_safetensors(const std::string& path, const TensorFile& file) {
  write(path, image_of(file));
}

TensorFile load_safetensors(const std::string& path) { return read_file(path, false); }

void save_hashed(const std::string& path, const TensorFile& file) {
  TensorFile with = file;
  const std::string zeros(kHashDigits, '0');
  with.metadata[std::string(kHashName)] = zeros;
  Image image = image_of(with);
  Hash hash;
  hash.add(image.head.data(), image.head.size());
  for (const Array& a : image.arrays) hash.add(a.data, static_cast<std::size_t>(a.bytes()));
  image.head.replace(place_of_hash(image.head, zeros), kHashDigits, hash.digits());
  write(path, image);
}

TensorFile load_hashed(const std::string& path) { return read_file(path, true); }

}  // namespace snug::io
