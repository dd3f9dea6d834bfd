#include "io/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/file_error.h"

namespace snug::io {

std::string name_aside(const std::string& path) {
  std::random_device random;
  return fmt::format("{}{}{}-{:08x}{:08x}", path, NewFile::kAside, getpid(), random(), random());
}

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries && descriptor_ < 0 && (i == 0 || errno == EEXIST); ++i) {
    aside_ = name_aside(path_);
    descriptor_ = open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0 && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
    throw FileError(path_, "cannot be written", errno);
  if (descriptor_ < 0) failed("cannot be written");
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(aside_.c_str());
}

void NewFile::failed(const char* what) {
  const int code = errno;
  fail(Fault::Device, fmt::format("{}: {}: {}", path_, what, std::strerror(code)),
       code == ENOSPC || code == EDQUOT || code == EFBIG
           ? "make room on the disk; what was there before is unchanged"
           : "");
}

void NewFile::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor_, from, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) failed("writing failed");
    from += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

void NewFile::commit() {
  if (fsync(descriptor_) != 0) failed("writing failed");
  if (std::rename(aside_.c_str(), path_.c_str()) != 0) failed("cannot be replaced");
  close(descriptor_);
  descriptor_ = -1;
  sync_folder_of(path_);
}

void sync_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that may be written but not read
  fsync(descriptor);
  close(descriptor);
}

}  // namespace snug::io
