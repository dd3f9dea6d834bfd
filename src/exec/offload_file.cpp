#include "exec/offload_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/spelling.h"
#include "base/threads.h"

namespace snug {
namespace {

/// Moved at once: what is on its way through the page cache.
constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;

constexpr const char* kAnother = "give a directory on a disk that this process may write to";

int open_file(const std::string& directory) {
  int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  // Not every file system has files without names.
  std::string name = directory + "/snug-offload-XXXXXX";
  file = mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) unlink(name.c_str());
  return file;
}

}  // namespace

OffloadFile::OffloadFile(std::string directory)
    : directory_(std::move(directory)), process_(getpid()) {
  struct statfs fs {};
  if (statfs(directory_.c_str(), &fs) != 0) throw FileError(directory_, "offload", errno, kAnother);
  if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
    fail(Fault::Value, fmt::format("offload: '{}' is kept in memory (tmpfs)", directory_),
         "a file there would save nothing; give a directory on a disk");
  file_ = open_file(directory_);
  if (file_ >= 0) return;
  // The directory is there: of one where files cannot be made the system says that it is not.
  if (errno == ENOENT)
    fail(Fault::Value, fmt::format("offload: no file can be made in '{}'", directory_), kAnother);
  throw FileError(directory_, "offload", errno, kAnother);
}

OffloadFile::~OffloadFile() {
  if (!is_ours()) {
    (void)worker_.release();
  } else if (worker_->thread.joinable()) {
    {
      std::lock_guard lock(worker_->mutex);
      worker_->ends = true;
    }
    worker_->changed.notify_all();
    worker_->thread.join();
  }
  close(file_);
}

bool OffloadFile::is_ours() const { return process_ == getpid(); }

void OffloadFile::reserve(std::uint64_t bytes) {
  if (bytes > bytes_) {
    if (const int code = posix_fallocate(file_, 0, static_cast<off_t>(bytes))) {
      struct statfs fs {};
      const std::uint64_t free =
          fstatfs(file_, &fs) == 0 ? fs.f_bavail * static_cast<std::uint64_t>(fs.f_bsize) : 0;
      if (ftruncate(file_, static_cast<off_t>(bytes_)) != 0) bytes_ = 0;
      throw FileError(directory_,
                      fmt::format("offload: the call keeps {} in a file, {} are free",
                                  describe_bytes(bytes), describe_bytes(free)),
                      code,
                      "free room there, give another directory, or a larger " + option("memory"));
    }
    bytes_ = bytes;
  }
  if (worker_->thread.joinable()) return;
  // Signals are for the threads of the user.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_->thread = start_thread([this] { work(); }, "offload");
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void OffloadFile::start() {
  std::lock_guard lock(worker_->mutex);
  worker_->allowed = worker_->made = 0;
  worker_->failed = 0;
}

void OffloadFile::allow(std::size_t count) {
  {
    std::lock_guard lock(worker_->mutex);
    if (count <= worker_->allowed) return;
    worker_->allowed = count;
  }
  worker_->changed.notify_all();
}

void OffloadFile::wait(std::size_t count) {
  Worker& w = *worker_;
  std::unique_lock lock(w.mutex);
  w.changed.wait(lock, [&] { return w.made >= count || w.failed; });
  if (w.made < count)
    throw FileError(directory_, "offload: the disk failed while the call ran", w.failed,
                    "some variables may have their new values and others their old ones: load a "
                    "checkpoint, and give a directory on another disk");
}

void OffloadFile::stop() noexcept {
  Worker& w = *worker_;
  std::unique_lock lock(w.mutex);
  w.changed.wait(lock, [&] { return w.made >= w.allowed || w.failed; });
  w.allowed = w.made;
}

void OffloadFile::work() {
  Worker& w = *worker_;
  std::unique_lock lock(w.mutex);
  while (true) {
    w.changed.wait(lock, [&] { return w.ends || (w.made < w.allowed && !w.failed); });
    if (w.ends) return;
    const Move m = w.moves[w.made];
    lock.unlock();
    const int code = move(m);
    lock.lock();
    if (code)
      w.failed = code;
    else
      ++w.made;
    w.changed.notify_all();
  }
}

int OffloadFile::move(const Move& m) const {
  for (std::uint64_t done = 0; done < m.bytes;) {
    const std::uint64_t piece = std::min(kPiece, m.bytes - done);
    const auto at = static_cast<off_t>(m.offset + done);
    for (std::uint64_t part = 0; part < piece;) {
      std::byte* const data = m.data + done + part;
      const auto from = at + static_cast<off_t>(part);
      const ssize_t n = m.store ? pwrite(file_, data, piece - part, from)
                                : pread(file_, data, piece - part, from);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n < 0 ? errno : EIO;
      part += static_cast<std::uint64_t>(n);
    }
    const auto length = static_cast<off_t>(piece);
    if (m.store &&
        sync_file_range(file_, at, length,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER) != 0 &&
        errno != ENOSYS && errno != EINVAL)
      return errno;
    posix_fadvise(file_, at, length, POSIX_FADV_DONTNEED);
    done += piece;
  }
  return 0;
}

}  // namespace snug
