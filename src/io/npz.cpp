// .npz: a ZIP archive with one .npy file per array, stored.
#include <unordered_set>

#include "data/inflate.h"
#include "data/npy_header.h"
#include "io/new_file.h"
#include "io/tensor_file.h"

namespace snug::io {
namespace {

constexpr std::uint64_t kLarge = 0xFFFFFFFF;  // a size that stands in the extra field

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i & 0xff));
}

/// NumPy's code of a dtype: "<f4".
std::string code_of(const NamedArray& t) {
  const DType d = t.array.dtype;
  if (d == DType::BF16)
    fail(Fault::Unsupported,
         fmt::format("npz: \"{}\" has dtype bfloat16, which NumPy lacks", t.name),
         "save it as .safetensors");
  const char kind = d == DType::Bool     ? 'b'
                    : is_complex(d)      ? 'c'
                    : is_float(d)        ? 'f'
                    : is_unsigned_int(d) ? 'u'
                                         : 'i';
  return fmt::format("{}{}{}", size_of(d) == 1 ? '|' : '<', kind, size_of(d));
}

/// Magic, version, length and the dictionary, padded so that elements begin at a multiple of 64.
std::string npy_head(const NamedArray& t) {
  std::string shape;
  for (std::int64_t size : t.array.shape) shape += fmt::format("{}, ", size);
  if (t.array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (t.array.shape.size() == 1) shape.pop_back();
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", code_of(t), shape);
  text.append(63 - (10 + text.size()) % 64, ' ');
  text.push_back('\n');
  std::string out("\x93NUMPY\x01\x00", 8);
  put(out, text.size(), 2);
  return out + text;
}

struct Member {
  std::string name;  // with ".npy"
  std::uint32_t crc = 0;
  std::uint64_t size = 0, place = 0;
  bool large() const { return size >= kLarge || place >= kLarge; }
};

std::uint32_t crc_of(const std::string& head, const Array& array) {
  const std::uint32_t crc = data::crc32_of(std::as_bytes(std::span(head)));
  return data::crc32_of({array.data, static_cast<std::size_t>(array.bytes())}, crc);
}

/// What the headers of a member have in common: version, flags (UTF-8), method, date, sum, sizes.
void put_common(std::string& out, const Member& m) {
  put(out, m.large() ? 45 : 20, 2);
  put(out, 0x0800, 2);
  put(out, 0, 2);
  put(out, 0x00210000, 4);  // the first day there is
  put(out, m.crc, 4);
  put(out, m.large() ? kLarge : m.size, 4);
  put(out, m.large() ? kLarge : m.size, 4);
  put(out, m.name.size(), 2);
}

std::string local_header(const Member& m) {
  std::string out;
  put(out, 0x04034b50, 4);
  put_common(out, m);
  put(out, m.large() ? 20 : 0, 2);
  out += m.name;
  if (m.large()) {
    put(out, 1, 2);
    put(out, 16, 2);
    put(out, m.size, 8);
    put(out, m.size, 8);
  }
  return out;
}

std::string directory_entry(const Member& m) {
  std::string out;
  put(out, 0x02014b50, 4);
  put(out, m.large() ? 45 : 20, 2);
  put_common(out, m);
  put(out, m.large() ? 28 : 0, 2);
  put(out, 0, 4);  // comment, disk
  put(out, 0, 6);  // attributes
  put(out, m.large() ? kLarge : m.place, 4);
  out += m.name;
  if (m.large()) {
    put(out, 1, 2);
    put(out, 24, 2);
    put(out, m.size, 8);
    put(out, m.size, 8);
    put(out, m.place, 8);
  }
  return out;
}

std::string directory_end(std::uint64_t count, std::uint64_t size, std::uint64_t place) {
  std::string out;
  const bool large = count >= 0xFFFF || size >= kLarge || place >= kLarge;
  if (large) {
    put(out, 0x06064b50, 4);
    put(out, 44, 8);
    put(out, 45, 2);
    put(out, 45, 2);
    put(out, 0, 8);
    put(out, count, 8);
    put(out, count, 8);
    put(out, size, 8);
    put(out, place, 8);
    put(out, 0x07064b50, 4);
    put(out, 0, 4);
    put(out, place + size, 8);
    put(out, 1, 4);
  }
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, large ? 0xFFFF : count, 2);
  put(out, large ? 0xFFFF : count, 2);
  put(out, large ? kLarge : size, 4);
  put(out, large ? kLarge : place, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace

void save_npz(const std::string& path, const TensorFile& file) {
  NewFile out(path);
  std::string directory;
  std::uint64_t at = 0;
  std::unordered_set<std::string_view> names;
  for (const NamedArray& t : file.tensors) {
    if (!names.insert(t.name).second || t.name.size() > 0xFFF0)
      fail(Fault::Value, fmt::format("npz: two arrays are named \"{}\", or its name is too long",
                                     t.name.substr(0, 80)));
    const Array array = t.array.contiguous() ? t.array.checked(t.name) : t.array.contiguous_copy();
    const std::string head = npy_head(t);
    const Member m{t.name + ".npy", crc_of(head, array),
                   head.size() + static_cast<std::uint64_t>(array.bytes()), at};
    const std::string local = local_header(m);
    out.write(local);
    out.write(head);
    out.write(array.data, static_cast<std::size_t>(array.bytes()));
    directory += directory_entry(m);
    at += local.size() + m.size;
  }
  out.write(directory);
  out.write(directory_end(file.tensors.size(), directory.size(), at));
  out.commit();
}

TensorFile load_npz(const std::string& path) {
  TensorFile out;
  for (auto& [name, raw] : data::npz_arrays(path, [](const std::string&) { return true; })) {
    const Dims shape = raw.shape;
    if (shape.empty()) raw.shape = {1};
    data::SourcePtr rows = data::raw_rows(raw, name);
    Array a = rows->read(0, rows->rows())[0];
    a.shape = shape;
    a.strides = contiguous_strides(shape);
    out.tensors.push_back({name, std::move(a)});
    raw = {};  // what was unpacked goes
  }
  return out;
}

}  // namespace snug::io
