#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"

/// The format of HDF5 files, as far as simple datasets need it (version 3.0 of its specification).
/// Nothing recurses, every place and size is checked before it is used, and the work on the
/// structure of a file is bounded by its size.
namespace snug::data::h5 {

using Address = std::uint64_t;  // from the begin of the format in the file
inline constexpr Address kNowhere = ~Address{0};

/// A file whose superblock was found.
class Store {
 public:
  explicit Store(const std::string& path);

  const std::string& path() const { return file_.path(); }
  Address root() const { return root_; }  // header of the outermost group
  int offset_bytes() const { return offset_bytes_; }
  int length_bytes() const { return length_bytes_; }

  /// A Value error unless the file has bytes [at, at + count); `what` they are.
  void check(Address at, std::uint64_t count, const char* what) const;
  /// Bytes of the structure: checked and counted. Work beyond what any whole file takes is an
  /// error.
  std::vector<std::byte> read(Address at, std::uint64_t count, const char* what) const;
  /// Bytes of data, already checked.
  void read_data(Address at, std::int64_t count, std::byte* out) const;

  [[noreturn]] void damaged(const std::string& what) const;  // "FILE: its WHAT is damaged"

 private:
  void read_superblock(std::int64_t place);

  File file_;
  std::int64_t base_ = 0;  // place of the superblock
  Address root_ = kNowhere;
  int offset_bytes_ = 8, length_bytes_ = 8;
  mutable std::uint64_t work_ = 0;
};

/// Little-endian numbers one after another; an error if there are no more.
class Cursor {
 public:
  Cursor(const Store& store, std::span<const std::byte> bytes, const char* what)
      : store_(store), bytes_(bytes), what_(what) {}

  std::uint64_t number(int bytes);
  Address address();  // kNowhere if it is undefined
  std::uint64_t length();
  std::span<const std::byte> take(std::uint64_t count);
  void skip(std::uint64_t count) { take(count); }
  /// Text up to a zero, which is skipped.
  std::string text();
  void expect(std::string_view signature);
  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t at() const { return at_; }
  [[noreturn]] void damaged() const { store_.damaged(what_); }
  const Store& store() const { return store_; }

 private:
  const Store& store_;
  std::span<const std::byte> bytes_;
  const char* what_;
  std::size_t at_ = 0;
};

/// Parts of the structure that end in a sum over all before it.
void check_sum(const Store& store, std::span<const std::byte> bytes, const char* what);

/// The sums of the format: Jenkins' lookup3 of structures, Fletcher's of chunks.
std::uint32_t lookup3(std::span<const std::byte> bytes);
std::uint32_t fletcher32(std::span<const std::byte> bytes);

}  // namespace snug::data::h5
