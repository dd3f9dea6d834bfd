#pragma once
#include <memory>
#include <span>
#include <string>

#include "base/array.h"

namespace snug::data {

/// A regular file open for reading; pipes and devices are refused at once. Reads say where to, so
/// threads may share one. Files are never mapped: one that is cut while in use is an error then.
class File {
 public:
  explicit File(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  /// Bytes [offset, offset + count); an error if the file ends before.
  void read(std::int64_t offset, std::int64_t count, void* out) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// A Value error about a file: "train.npy: WHAT".
[[noreturn]] void bad_file(const std::string& path, const std::string& what,
                           const std::string& hint = {});

/// Bools in files are the bytes 0 and 1; others are a Value error that begins with `what`.
void check_bools(std::span<const std::byte> bytes, const std::string& what);

/// Bytes that can be read at any place: a part of a file, memory, or what a compressed file holds.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual std::int64_t size() const = 0;
  virtual void read(std::int64_t offset, std::int64_t count, void* out) const = 0;
  /// Bytes that are read together at little more than the cost of one; 1: no matter.
  virtual std::int64_t block() const { return 1; }
  virtual std::int64_t own_bytes() const { return 0; }  // that it keeps in memory
  virtual std::string name() const = 0;                 // for errors
};
using BytesPtr = std::shared_ptr<const Bytes>;

BytesPtr bytes_of(std::shared_ptr<const File> file, std::int64_t begin, std::int64_t size,
                  std::string name);

}  // namespace snug::data
