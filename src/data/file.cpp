#include "data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file_error.h"

namespace snug::data {
namespace {

class FilePart : public Bytes {
 public:
  FilePart(std::shared_ptr<const File> file, std::int64_t begin, std::int64_t size,
           std::string name)
      : file_(std::move(file)), begin_(begin), size_(size), name_(std::move(name)) {}
  std::int64_t size() const override { return size_; }
  void read(std::int64_t offset, std::int64_t count, void* out) const override {
    file_->read(begin_ + offset, count, out);
  }
  /// A small file stays in the page cache, where rows in any order cost the same.
  std::int64_t block() const override {
    constexpr std::int64_t kSmall = std::int64_t{1} << 30, kBlock = 1 << 20;
    return size_ <= kSmall ? 1 : kBlock;
  }
  std::string name() const override { return name_; }

 private:
  std::shared_ptr<const File> file_;
  std::int64_t begin_, size_;
  std::string name_;
};

}  // namespace

void check_bools(std::span<const std::byte> bytes, const std::string& what) {
  std::byte all{};
  for (std::byte b : bytes) all |= b;
  if (static_cast<unsigned>(all) <= 1) return;
  const auto wrong = std::find_if(bytes.begin(), bytes.end(),
                                  [](std::byte b) { return static_cast<unsigned>(b) > 1; });
  bad_file(what,
           fmt::format("is of bool, but has the byte {} among its values",
                       static_cast<unsigned>(*wrong)),
           "bools are stored as 0 and 1: the file is damaged, or should be of uint8");
}

void bad_file(const std::string& path, const std::string& what, const std::string& hint) {
  fail(Fault::Value, fmt::format("{}: {}", path, what), hint);
}

File::File(const std::string& path) : path_(path) {
  // Without O_NONBLOCK a named pipe is opened only when somebody writes to it.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) throw FileError(path, "cannot be opened", errno);
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    if (S_ISDIR(status.st_mode)) throw FileError(path, "cannot be opened", EISDIR);
    bad_file(path,
             fmt::format("is {}, no regular file",
                         S_ISFIFO(status.st_mode) ? "a named pipe" : "a device"),
             "files are read at any place: copy it to a file first");
  }
  size_ = status.st_size;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

void File::read(std::int64_t offset, std::int64_t count, void* out) const {
  auto* to = static_cast<char*>(out);
  while (count > 0) {
    ssize_t done = pread(descriptor_, to, static_cast<std::size_t>(count), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0)
      bad_file(path_, fmt::format("reading at byte {} failed: {}", offset, std::strerror(errno)));
    if (done == 0)
      bad_file(path_, fmt::format("ends at byte {}, but {} more are needed", offset, count),
               "the file is truncated, or was changed while in use");
    to += done;
    offset += done;
    count -= done;
  }
}

BytesPtr bytes_of(std::shared_ptr<const File> file, std::int64_t begin, std::int64_t size,
                  std::string name) {
  return std::make_shared<FilePart>(std::move(file), begin, size, std::move(name));
}

}  // namespace snug::data
