#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "data/npy_header.h"

namespace snug::data {
namespace {

/// The dictionary of a .npy header: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)}.
class HeaderText {
 public:
  HeaderText(std::string text, std::string file) : text_(std::move(text)), file_(std::move(file)) {}

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr")
        descr = accept_peek('\'') || accept_peek('"') ? quoted() : structured();
      else if (key == "fortran_order")
        fortran = boolean();
      else if (key == "shape")
        shape = sizes();
      else
        bad(fmt::format("an unknown entry '{}'", key));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) bad("more text than one dictionary");
    if (!descr || !fortran || !shape) bad("no descr, fortran_order or shape");
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<Dims> shape;

  [[noreturn]] void bad(const std::string& what) const {
    bad_file(file_, fmt::format("its .npy header has {}, at byte {}", what, at_));
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept_peek(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!accept_peek(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("no '{}'", c));
  }
  std::string quoted() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : 0;
    if (quote != '\'' && quote != '"') bad("no quoted text");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) bad("a text without an end");
    std::string out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  [[noreturn]] std::string structured() {
    bad_file(file_, "holds records, not numbers",
             "save each of their fields as an array of its own");
  }
  bool boolean() {
    skip();
    for (bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.compare(at_, word.size(), word) != 0) continue;
      at_ += word.size();
      return value;
    }
    bad("neither True nor False");
  }
  Dims sizes() {
    Dims out;
    expect('(');
    while (!accept(')')) {
      skip();
      std::int64_t size = 0;
      auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (status != std::errc() || size < 0) bad("a size that is no number");
      at_ = end - text_.data();
      if (out.size() == 8) bad("more than 8 dimensions");
      out.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string text_, file_;
  std::size_t at_ = 0;
};

std::optional<DType> dtype_of_code(std::string_view code) {
  constexpr std::pair<std::string_view, DType> kCodes[] = {
      {"b1", DType::Bool}, {"i1", DType::I8},   {"i2", DType::I16}, {"i4", DType::I32},
      {"i8", DType::I64},  {"u1", DType::U8},   {"u2", DType::U16}, {"u4", DType::U32},
      {"u8", DType::U64},  {"f2", DType::F16},  {"f4", DType::F32}, {"f8", DType::F64},
      {"c8", DType::C64},  {"c16", DType::C128}};
  for (const auto& [name, dtype] : kCodes)
    if (name == code) return dtype;
  return {};
}

}  // namespace

RawArray read_npy_header(BytesPtr bytes) {
  const std::string file = bytes->name();
  std::array<unsigned char, 12> start{};
  if (bytes->size() < 10)
    bad_file(file, fmt::format("is no .npy file: it has {} bytes", bytes->size()));
  bytes->read(0, 10, start.data());
  if (std::memcmp(start.data(), "\x93NUMPY", 6) != 0)
    bad_file(file, "is no .npy file: it does not begin with \\x93NUMPY");
  const int version = start[6];
  if (version < 1 || version > 3)
    bad_file(file, fmt::format("is a .npy file of the unknown version {}", version));
  std::int64_t begin = 10, length = start[8] | start[9] << 8;
  if (version > 1) {
    begin = 12;
    if (bytes->size() < begin) bad_file(file, "ends within its .npy header");
    bytes->read(10, 2, start.data() + 10);
    length |= std::int64_t{start[10]} << 16 | std::int64_t{start[11]} << 24;
  }
  constexpr std::int64_t kLongest = 1 << 20;
  if (length > bytes->size() - begin || length > kLongest)
    bad_file(file, fmt::format("its .npy header should have {} bytes, but the file has {}", length,
                               bytes->size()));
  std::string text(length, ' ');
  bytes->read(begin, length, text.data());

  HeaderText header(std::move(text), file);
  header.parse();
  RawArray array;
  array.bytes = std::move(bytes);
  array.offset = begin + length;
  array.shape = *header.shape;
  const std::string& descr = *header.descr;
  std::optional<DType> dtype = descr.empty() ? std::nullopt : dtype_of_code(descr.substr(1));
  if (!dtype || std::string_view("<>|=").find(descr[0]) == std::string_view::npos)
    bad_file(file, fmt::format("its dtype '{}' is not supported", descr),
             "numbers are: save it with .astype('float32') or another number type");
  array.dtype = *dtype;
  array.swapped = descr[0] == '>' && size_of(*dtype) > 1;
  array.fortran = *header.fortran && array.shape.size() > 1;
  return array;
}

SourcePtr npy(const std::string& path) {
  auto file = std::make_shared<File>(path);
  return raw_rows(read_npy_header(bytes_of(file, 0, file->size(), path)), "data");
}

}  // namespace snug::data
