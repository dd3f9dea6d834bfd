#include "data/hdf5_bytes.h"

#include <algorithm>
#include <bit>

namespace snug::data::h5 {
namespace {

constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);

std::uint32_t byte_at(std::span<const std::byte> bytes, std::size_t i) {
  return i < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i]) : 0;
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t i) {
  return byte_at(bytes, i) | byte_at(bytes, i + 1) << 8 | byte_at(bytes, i + 2) << 16 |
         byte_at(bytes, i + 3) << 24;
}

}  // namespace

Store::Store(const std::string& path) : file_(path) {
  // The format may begin behind a block of the user: at 512, 1024, 2048 and so on.
  for (std::int64_t place = 0; place <= file_.size() - 8;
       place = std::max(2 * place, std::int64_t{512})) {
    char found[8];
    file_.read(place, 8, found);
    if (std::string_view(found, 8) != kSignature) continue;
    read_superblock(place);
    return;
  }
  bad_file(path, "is no HDF5 file: it has no superblock");
}

void Store::read_superblock(std::int64_t place) {
  constexpr const char* kWhat = "superblock";
  base_ = place;
  const auto all = static_cast<std::uint64_t>(file_.size() - base_);
  const std::vector<std::byte> bytes = read(0, std::min<std::uint64_t>(all, 128), kWhat);
  Cursor c(*this, bytes, kWhat);
  c.skip(8);
  const auto version = c.number(1);
  if (version > 3)
    bad_file(path(), fmt::format("is an HDF5 file of version {} of the format", version),
             "rewrite it with h5repack");
  if (version < 2) c.skip(4);
  offset_bytes_ = static_cast<int>(c.number(1));
  length_bytes_ = static_cast<int>(c.number(1));
  for (int size : {offset_bytes_, length_bytes_})
    if (size != 2 && size != 4 && size != 8) c.damaged();
  c.skip(version < 2 ? 1 + 2 + 2 + 4 : 1);  // sizes of nodes, flags
  if (version == 1) c.skip(4);
  c.address();  // of the superblock, as it was written
  c.address();
  const std::uint64_t end = c.address();
  if (version < 2) {
    c.address();  // of a driver
    c.address();  // of a name that the root has not
  }
  root_ = c.address();
  if (version >= 2)
    check_sum(*this, std::span(bytes).first(std::min(c.at() + 4, bytes.size())), kWhat);
  if (end > static_cast<std::uint64_t>(file_.size()))
    bad_file(path(), fmt::format("should have {} bytes, but has {}", end, file_.size()),
             "the file is truncated");
  if (root_ == kNowhere) c.damaged();
}

void Store::check(Address at, std::uint64_t count, const char* what) const {
  const auto size = static_cast<std::uint64_t>(file_.size() - base_);
  if (at > size || count > size - at)
    bad_file(path(),
             fmt::format("its {} should be {} bytes at byte {}, the file has {}", what, count, at,
                         file_.size()),
             "the file is truncated or damaged");
}

std::vector<std::byte> Store::read(Address at, std::uint64_t count, const char* what) const {
  check(at, count, what);
  constexpr std::uint64_t kPerRead = 64, kTimes = 16, kAlways = 16 << 20;
  work_ += count + kPerRead;
  if (work_ > kTimes * static_cast<std::uint64_t>(file_.size()) + kAlways)
    bad_file(path(), "its structure is damaged: parts of it are met again and again");
  std::vector<std::byte> out(count);
  read_data(at, static_cast<std::int64_t>(count), out.data());
  return out;
}

void Store::read_data(Address at, std::int64_t count, std::byte* out) const {
  file_.read(base_ + static_cast<std::int64_t>(at), count, out);
}

void Store::damaged(const std::string& what) const {
  bad_file(path(), fmt::format("its {} is damaged", what));
}

std::span<const std::byte> Cursor::take(std::uint64_t count) {
  if (count > left()) damaged();
  at_ += count;
  return bytes_.subspan(at_ - count, count);
}

std::uint64_t Cursor::number(int bytes) {
  std::uint64_t value = 0;
  const std::span<const std::byte> from = take(static_cast<std::uint64_t>(bytes));
  for (std::size_t i = from.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(from[i]);
  return value;
}

Address Cursor::address() {
  const int bytes = store_.offset_bytes();
  const Address value = number(bytes);
  return value == kNowhere >> (64 - 8 * bytes) ? kNowhere : value;
}

std::uint64_t Cursor::length() { return number(store_.length_bytes()); }

std::string Cursor::text() {
  const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
  const auto end = std::find(begin, bytes_.end(), std::byte{0});
  if (end == bytes_.end()) damaged();
  std::string out(reinterpret_cast<const char*>(&*begin), static_cast<std::size_t>(end - begin));
  at_ += out.size() + 1;
  return out;
}

void Cursor::expect(std::string_view signature) {
  const std::span<const std::byte> found = take(signature.size());
  if (std::memcmp(found.data(), signature.data(), signature.size()) != 0) damaged();
}

void check_sum(const Store& store, std::span<const std::byte> bytes, const char* what) {
  if (bytes.size() < 4 ||
      lookup3(bytes.first(bytes.size() - 4)) != word_at(bytes, bytes.size() - 4))
    bad_file(store.path(), fmt::format("its {} is damaged: its sum is wrong", what));
}

std::uint32_t lookup3(std::span<const std::byte> bytes) {
  std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()), b = a, c = a;
  const auto step = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int by) {
    x -= z;
    x ^= std::rotl(z, by);
    z += y;
  };
  const auto last = [](std::uint32_t& x, std::uint32_t y, int by) {
    x ^= y;
    x -= std::rotl(y, by);
  };
  if (bytes.empty()) return c;
  while (true) {
    a += word_at(bytes, 0);
    b += word_at(bytes, 4);
    c += word_at(bytes, 8);
    if (bytes.size() <= 12) break;
    bytes = bytes.subspan(12);
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
  }
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  std::uint32_t one = 0, two = 0;
  constexpr std::size_t kPairs = 360;  // whose sums fit
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t end = std::min(i + 2 * kPairs, bytes.size());
    for (; i < end; i += 2) {
      one += byte_at(bytes, i) << 8 | byte_at(bytes, i + 1);
      two += one;
    }
    one = (one & 0xffff) + (one >> 16);
    two = (two & 0xffff) + (two >> 16);
  }
  one = (one & 0xffff) + (one >> 16);
  two = (two & 0xffff) + (two >> 16);
  return two << 16 | one;
}

}  // namespace snug::data::h5
