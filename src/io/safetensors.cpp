#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "io/mapped_file.h"
#include "io/new_file.h"
#include "io/tensor_file.h"

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

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

std::string_view header_of(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() < 8)
    bad(what, fmt::format("has {} bytes, which is no safetensors file", bytes.size()));
  const std::uint64_t length = little_endian(bytes);
  if (length > kMaxHeader || length > bytes.size() - 8)
    bad(what,
        fmt::format("its header of {} bytes does not fit in its {} bytes", length, bytes.size()),
        "it is cut, or no safetensors file");
  return {reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length)};
}

/// The header; deep nesting and names given twice are refused while it is read.
json parse_header(std::string_view text, const std::string& what) {
  constexpr int kMaxDepth = 3;
  std::unordered_set<std::string> names;
  const auto event = [&](int depth, json::parse_event_t kind, json& value) {
    if (depth > kMaxDepth) bad(what, "its header is nested too deep");
    if (kind == json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second)
      bad(what, fmt::format("\"{}\" is in its header twice", value.get<std::string>()));
    return true;
  };
  try {
    return json::parse(text, event);
  } catch (const json::parse_error& e) {
    bad(what, fmt::format("its header is no JSON, at byte {}", e.byte), "it is damaged");
  } catch (const json::exception&) {  // a number out of range
    bad(what, "its header is no JSON", "it is damaged");
  }
}

struct Entry {
  std::string name;
  DType dtype = DType::F32;
  Dims shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the data
};

std::optional<std::uint64_t> whole_number(const json& value) {
  if (!value.is_number_unsigned()) return {};
  return value.get<std::uint64_t>();
}

DType dtype_of(const std::string& code, const std::string& name, const std::string& what) {
  for (const Code& c : kCodes)
    if (code == c.name) return c.dtype;
  fail(Fault::Unsupported, fmt::format("{}: \"{}\" has dtype {}", what, name, code));
}

Entry read_entry(const std::string& name, const json& value, const std::string& what) {
  const auto wrong = [&](const std::string& why) {
    bad(what, fmt::format("\"{}\": {}", name, why), "its header is damaged");
  };
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
    wrong("has no dtype, shape and two data_offsets");
  Entry out{name, dtype_of(value["dtype"].get<std::string>(), name, what), {}, 0, 0};
  const json& shape = value["shape"];
  if (shape.size() > 8) wrong(fmt::format("has {} dimensions; there are 0 to 8", shape.size()));
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(out.dtype));
  bool empty = false;
  for (const json& item : shape) {
    const std::optional<std::uint64_t> size = whole_number(item);
    constexpr std::uint64_t kMax = std::uint64_t{1} << 62;
    if (!size || *size > kMax) wrong("a size is no number");
    empty |= *size == 0;
    if (*size != 0 && bytes > kMax / *size) wrong("its sizes are too large");
    if (*size != 0) bytes *= *size;
    out.shape.push_back(static_cast<std::int64_t>(*size));
  }
  if (empty) bytes = 0;
  const std::optional<std::uint64_t> begin = whole_number(value["data_offsets"][0]);
  const std::optional<std::uint64_t> end = whole_number(value["data_offsets"][1]);
  if (!begin || !end || *begin > *end) wrong("its data_offsets are no range");
  if (*end - *begin != bytes)
    wrong(fmt::format("has {} bytes for shape {} of {}", *end - *begin, describe_shape(out.shape),
                      name_of(out.dtype)));
  out.begin = *begin;
  out.end = *end;
  return out;
}

/// The ranges follow one another and fill the data, as the format demands.
void check_ranges(const std::vector<Entry>& entries, std::uint64_t size, const std::string& what) {
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
}

Metadata read_metadata(const json& value, const std::string& what) {
  if (!value.is_object()) bad(what, "its __metadata__ is no object");
  Metadata out;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) bad(what, fmt::format("its metadata \"{}\" is no text", key));
    out[key] = text.get<std::string>();
  }
  return out;
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
    out.arrays.push_back(a.contiguous() ? a : a.contiguous_copy());
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

}  // namespace

TensorFile parse_safetensors(std::span<std::byte> bytes, std::shared_ptr<void> keep,
                             const std::string& what) {
  const std::string_view text = header_of(bytes, what);
  const json header = parse_header(text, what);
  if (!header.is_object()) bad(what, "its header is no JSON object", "it is damaged");
  TensorFile out;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__")
      out.metadata = read_metadata(value, what);
    else
      entries.push_back(read_entry(name, value, what));
  }
  const std::span<std::byte> data = bytes.subspan(8 + text.size());
  check_ranges(entries, data.size(), what);
  for (const Entry& e : entries) {
    std::byte* from = data.data() + e.begin;
    const auto size = static_cast<std::int64_t>(e.end - e.begin);
    Array a;
    if (size == 0 || reinterpret_cast<std::uintptr_t>(from) % size_of(e.dtype) != 0) {
      a = Array::empty(e.dtype, e.shape);
      if (size > 0) std::memcpy(a.data, from, static_cast<std::size_t>(size));
    } else {
      a = {e.dtype, e.shape, contiguous_strides(e.shape), from, Storage::wrap(from, size, keep)};
    }
    out.tensors.push_back({e.name, std::move(a)});
  }
  return out;
}

void save_safetensors(const std::string& path, const TensorFile& file) {
  write(path, image_of(file));
}

TensorFile load_safetensors(const std::string& path) {
  MappedFile file = map_file(path);
  return parse_safetensors(file.bytes, file.keep, path);
}

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

TensorFile load_hashed(const std::string& path) {
  MappedFile mapped = map_file(path);
  TensorFile file = parse_safetensors(mapped.bytes, mapped.keep, path);
  const auto found = file.metadata.find(std::string(kHashName));
  if (found == file.metadata.end())
    bad(path, "has no hash of its contents", "it was not written by save_hashed");
  std::string head(reinterpret_cast<const char*>(mapped.bytes.data()),
                   8 + header_of(mapped.bytes, path).size());
  const std::size_t place = place_of_hash(head, found->second);
  if (place == head.npos || found->second.size() != kHashDigits) bad(path, "its hash is damaged");
  head.replace(place, kHashDigits, std::string(kHashDigits, '0'));
  Hash hash;
  hash.add(head.data(), head.size());
  hash.add(mapped.bytes.data() + head.size(), mapped.bytes.size() - head.size());
  if (hash.digits() != found->second) bad(path, "is damaged: its hash does not fit its contents");
  return file;
}

}  // namespace snug::io
