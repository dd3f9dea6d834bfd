#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_error.h"

namespace snug::io {

MappedFile map_file(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw FileError(path, "cannot be opened", errno);
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    if (S_ISDIR(status.st_mode)) throw FileError(path, "cannot be opened", EISDIR);
    fail(Fault::Value, fmt::format("{}: is no file", path));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    close(descriptor);
    return {};
  }
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
  const int code = errno;
  close(descriptor);
  if (memory == MAP_FAILED)
    fail(Fault::Value, fmt::format("{}: cannot be mapped: {}", path, std::strerror(code)));
  return {{static_cast<std::byte*>(memory), size},
          std::shared_ptr<void>(memory, [size](void* p) { munmap(p, size); })};
}

}  // namespace snug::io
