#pragma once
#include <cstdint>
#include <mutex>
#include <utility>

namespace snug {

// A child of fork has one thread, but all memory as it was, half changed by threads that are not
// there, and the locks that they hold. Three rules let it go on:
// - What is changed in short steps is changed under NoFork or BriefMutex: fork waits for the end of
//   the step.
// - A lock that is held for long (LongMutex, those of shared variables, contexts of calls) is free
//   in the child. What it guards changes in short steps, as above.
// - What needs more (threads that are gone, values that a call was changing) has a ForkHook.

/// While one lives, fork waits. For short steps that call no code of users and wait for no lock but
/// BriefMutex: whoever forks may hold any other.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// A mutex that nobody holds while a process forks.
class BriefMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

/// Calls `in_child(object)` in the child of every fork, on its only thread. The object is complete
/// when the hook is made.
class ForkHook {
 public:
  ForkHook(void (*in_child)(void*), void* object);
  ~ForkHook();
  ForkHook(const ForkHook&) = delete;
  ForkHook& operator=(const ForkHook&) = delete;

 private:
  friend void run_fork_hooks();
  void (*in_child_)(void*);
  void* object_;
  ForkHook *before_ = nullptr, *after_ = nullptr;
};

/// A mutex that is free in the child of a fork, whoever held it.
class LongMutex {
 public:
  LongMutex() : hook_(free_in_child, this) {}
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock();
  /// Its holder did not come along; says so once, to the next holder.
  bool lost_holder() { return std::exchange(lost_, false); }

 private:
  static void free_in_child(void* self);
  std::mutex mutex_;
  bool lost_ = false;
  ForkHook hook_;
};

/// How many forks lie between this process and the one that loaded the library. A lock that was
/// taken under another number is not held.
std::uint32_t fork_count();

}  // namespace snug
