#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "base/fork.h"

namespace snug {

class SharedVariable;

/// Many readers or one writer of a value. As std::shared_mutex, but whoever has the lock may give
/// it back from another thread, and one may wait for a time.
class ValueLock {
 public:
  using Time = std::chrono::milliseconds;
  void lock() { take_exclusive(nullptr); }
  bool try_lock() { return try_lock_for(Time(0)); }
  bool try_lock_for(Time time) { return take_exclusive(&time); }
  void unlock();
  void lock_shared() { take_shared(nullptr); }
  bool try_lock_shared() { return try_lock_shared_for(Time(0)); }
  bool try_lock_shared_for(Time time) { return take_shared(&time); }
  void unlock_shared();
  /// In the child of a fork: whoever held it is not here. True if it was being written.
  bool forget_holders();

 private:
  /// False if the time, if any, is over before.
  template <class F>
  bool wait(std::unique_lock<std::mutex>& lock, const Time* time, F&& is_free);
  bool take_exclusive(const Time* time);
  bool take_shared(const Time* time);

  std::mutex mutex_;
  std::condition_variable free_;
  int readers_ = 0;  // -1: a writer
  int waiting_ = 0;
};

/// A shared variable that a call locks.
struct VariableLock {
  SharedVariable* variable;
  bool written;
};

/// What one call has locked so far.
struct HeldLocks {
  const void* function = nullptr;
  std::span<const VariableLock> locks;
  bool running = false;  // it writes nothing before the callback returns from which it is asked
  HeldLocks* outer = nullptr;
};

/// The calls that a thread is in the middle of: those whose callback it runs, and those it has
/// prepared. What it does meanwhile does not wait for them, since they wait for it: it reads what
/// they have locked, and writing that is an error.
class OpenCalls {
 public:
  /// Of this thread, or of the one that it works for.
  static const std::shared_ptr<OpenCalls>& of_thread();

  void enter(HeldLocks& call);
  void leave(HeldLocks& call) noexcept;
  bool any() const;
  bool has(const void* function) const;
  /// The locks of the innermost call that has the value of this variable.
  struct Held {
    bool held = false, written = false;
    bool running = true;  // all that write it
  };
  Held find(const SharedVariable& variable) const;

  /// How long calls inside others wait for other threads: these may wait for them.
  static constexpr ValueLock::Time kLongest{60'000};

 private:
  mutable BriefMutex mutex_;
  HeldLocks* first_ = nullptr;
};

/// While one lives, this thread works for the one with these calls.
class WorkFor {
 public:
  explicit WorkFor(std::shared_ptr<OpenCalls> calls);
  ~WorkFor();
  WorkFor(const WorkFor&) = delete;
  WorkFor& operator=(const WorkFor&) = delete;

 private:
  std::shared_ptr<OpenCalls> before_;
};

/// While one lives, nobody else writes the value of the variable.
class ReadLock {
 public:
  explicit ReadLock(const SharedVariable& variable);
  ~ReadLock();
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;

 private:
  ValueLock* lock_ = nullptr;  // null: an open call of this thread has it
};

/// While one lives, nobody else reads or writes the value. A Value error that begins with `what` if
/// an open call of this thread uses it.
class WriteLock {
 public:
  WriteLock(SharedVariable& variable, const char* what);
  ~WriteLock();
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  ValueLock& lock_;
};

}  // namespace snug
