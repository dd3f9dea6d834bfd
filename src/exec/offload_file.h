#pragma once
#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace snug {

/// A file without a name that values of a call go to and come back from, beside the steps: one
/// thread moves them, in a given order. Nothing of it stays in the page cache, and nothing on disk
/// when the process ends.
class OffloadFile {
 public:
  /// A Value error if the directory is in memory itself (tmpfs), a File error if there is none or
  /// it cannot be written.
  explicit OffloadFile(std::string directory);
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  /// The file has at least so many bytes on disk; a File error that says how many are free if the
  /// disk is full.
  void reserve(std::uint64_t bytes);
  /// Made by this process, not by the one it was forked from: that one's thread is not here.
  bool is_ours() const;

  struct Move {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0, offset = 0;
    bool store = false;  // to the file
  };
  /// The moves of one call, to be filled before it starts. Allocates only where there were fewer.
  std::vector<Move>& moves() { return worker_->moves; }
  void start();
  /// The first `count` moves may be made.
  void allow(std::size_t count);
  /// Until the first `count` moves, which were allowed, are made. A File error if one failed.
  void wait(std::size_t count);
  /// Waits for all that was allowed; what follows a failed move is not made.
  void stop() noexcept;

 private:
  /// What the thread that moves sees. A process that was forked leaves it alone: nobody can wait
  /// there for a thread that is elsewhere.
  struct Worker {
    std::vector<Move> moves;
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t allowed = 0, made = 0;
    int failed = 0;  // errno of the first move that failed
    bool ends = false;
    std::thread thread;
  };
  void work();
  int move(const Move& m) const;  // errno

  std::string directory_;
  int file_ = -1;
  pid_t process_ = 0;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<Worker> worker_ = std::make_unique<Worker>();
};

}  // namespace snug
