#include "base/fork.h"

#include <pthread.h>

#include <atomic>
#include <new>

namespace snug {
namespace {

constexpr std::uint32_t kForking = std::uint32_t{1} << 31;
/// Threads that have a NoFork, and kForking while one forks.
std::atomic<std::uint32_t> inside{0};
thread_local std::uint32_t depth = 0;  // of NoFork on this thread

std::uint32_t forks = 0;
ForkHook* first_hook = nullptr;

/// Forks come one after another. Neither is destroyed: threads may outlive statics.
std::mutex& turn() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
BriefMutex& hook_mutex() {
  static BriefMutex& mutex = *new BriefMutex;
  return mutex;
}

void enter() {
  if (depth++ > 0) return;
  for (std::uint32_t now = inside.load(std::memory_order_relaxed);;) {
    if (now & kForking) {
      inside.wait(now);
      now = inside.load(std::memory_order_relaxed);
    } else if (inside.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) {
      return;
    }
  }
}

void leave() {
  if (--depth > 0) return;
  if (inside.fetch_sub(1, std::memory_order_release) == kForking + 1) inside.notify_all();
}

std::uint32_t own() { return depth > 0 ? 1 : 0; }

void before_fork() {
  turn().lock();
  for (std::uint32_t now = inside.fetch_or(kForking) | kForking; now != (kForking | own());
       now = inside.load())
    inside.wait(now);
}

void in_parent() {
  inside.fetch_and(~kForking);
  inside.notify_all();
  turn().unlock();
}

}  // namespace

void run_fork_hooks() {
  for (ForkHook* hook = first_hook; hook; hook = hook->after_) hook->in_child_(hook->object_);
}

namespace {

void in_child() {
  inside = own();
  new (&turn()) std::mutex;
  ++forks;
  run_fork_hooks();
}

[[maybe_unused]] const int registered = pthread_atfork(before_fork, in_parent, in_child);

}  // namespace

NoFork::NoFork() { enter(); }
NoFork::~NoFork() { leave(); }

void BriefMutex::lock() {
  enter();
  mutex_.lock();
}
void BriefMutex::unlock() {
  mutex_.unlock();
  leave();
}

ForkHook::ForkHook(void (*in_child)(void*), void* object) : in_child_(in_child), object_(object) {
  std::lock_guard lock(hook_mutex());
  after_ = first_hook;
  if (after_) after_->before_ = this;
  first_hook = this;
}

ForkHook::~ForkHook() {
  std::lock_guard lock(hook_mutex());
  (before_ ? before_->after_ : first_hook) = after_;
  if (after_) after_->before_ = before_;
}

void LongMutex::free_in_child(void* self) {
  LongMutex& m = *static_cast<LongMutex*>(self);
  m.lost_ |= !m.mutex_.try_lock();
  new (&m.mutex_) std::mutex;
}

void LongMutex::unlock() { mutex_.unlock(); }

std::uint32_t fork_count() { return forks; }

}  // namespace snug
