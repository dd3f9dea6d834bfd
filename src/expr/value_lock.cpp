#include "expr/value_lock.h"

#include <new>
#include <utility>

#include "expr/expr.h"

namespace snug {

template <class F>
bool ValueLock::wait(std::unique_lock<std::mutex>& lock, const Time* time, F&& is_free) {
  if (is_free()) return true;
  ++waiting_;
  const bool got = time ? free_.wait_for(lock, *time, is_free) : (free_.wait(lock, is_free), true);
  --waiting_;
  return got;
}

bool ValueLock::take_exclusive(const Time* time) {
  std::unique_lock lock(mutex_);
  if (!wait(lock, time, [&] { return readers_ == 0; })) return false;
  readers_ = -1;
  return true;
}

bool ValueLock::take_shared(const Time* time) {
  std::unique_lock lock(mutex_);
  if (!wait(lock, time, [&] { return readers_ >= 0; })) return false;
  ++readers_;
  return true;
}

void ValueLock::unlock() {
  const std::lock_guard lock(mutex_);
  readers_ = 0;
  if (waiting_) free_.notify_all();
}

void ValueLock::unlock_shared() {
  const std::lock_guard lock(mutex_);
  if (--readers_ == 0 && waiting_) free_.notify_all();
}

bool ValueLock::forget_holders() {
  const bool written = readers_ < 0;
  new (this) ValueLock;  // a mutex that is locked cannot be destroyed
  return written;
}

namespace {

std::shared_ptr<OpenCalls>& calls_of_thread() {
  thread_local std::shared_ptr<OpenCalls> calls = std::make_shared<OpenCalls>();
  return calls;
}

std::string name_of_value(const SharedVariable& v) {
  return v.name.empty() ? "a shared variable" : v.name;
}

}  // namespace

const std::shared_ptr<OpenCalls>& OpenCalls::of_thread() { return calls_of_thread(); }

void OpenCalls::enter(HeldLocks& call) {
  const std::lock_guard lock(mutex_);
  call.outer = first_;
  first_ = &call;
}

void OpenCalls::leave(HeldLocks& call) noexcept {
  const std::lock_guard lock(mutex_);
  HeldLocks** at = &first_;
  while (*at && *at != &call) at = &(*at)->outer;
  if (*at) *at = call.outer;
}

bool OpenCalls::any() const {
  const std::lock_guard lock(mutex_);
  return first_ != nullptr;
}

bool OpenCalls::has(const void* function) const {
  const std::lock_guard lock(mutex_);
  for (const HeldLocks* c = first_; c; c = c->outer)
    if (c->function == function) return true;
  return false;
}

OpenCalls::Held OpenCalls::find(const SharedVariable& variable) const {
  const std::lock_guard lock(mutex_);
  Held found;
  for (const HeldLocks* c = first_; c; c = c->outer)
    for (const VariableLock& l : c->locks) {
      if (l.variable->id != variable.id) continue;
      found.held = true;
      if (!l.written) continue;
      found.written = true;
      found.running &= c->running;
    }
  return found;
}

WorkFor::WorkFor(std::shared_ptr<OpenCalls> calls)
    : before_(std::exchange(calls_of_thread(), std::move(calls))) {}
WorkFor::~WorkFor() { calls_of_thread() = std::move(before_); }

ReadLock::ReadLock(const SharedVariable& variable) {
  if (OpenCalls::of_thread()->find(variable).held) return;
  lock_ = &variable.mutex;
  lock_->lock_shared();
}
ReadLock::~ReadLock() {
  if (lock_) lock_->unlock_shared();
}

WriteLock::WriteLock(SharedVariable& variable, const char* what) : lock_(variable.mutex) {
  if (OpenCalls::of_thread()->find(variable).held)
    fail(Fault::Value,
         fmt::format("{}: a call on this thread that uses {} is not finished", what,
                     name_of_value(variable)),
         "a callback, and whoever has prepared a call, may read its variables; set them after it");
  lock_.lock();
}
WriteLock::~WriteLock() { lock_.unlock(); }

}  // namespace snug
