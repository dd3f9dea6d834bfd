#include "base/ref.h"

namespace snug {
namespace {
void (*script_retain)(void*) noexcept = nullptr;
void (*script_release)(void*) noexcept = nullptr;
}  // namespace

void set_script_hooks(void (*retain)(void*) noexcept, void (*release)(void*) noexcept) {
  script_retain = retain;
  script_release = release;
}

void RefCounted::retain() const noexcept {
  std::uintptr_t s = state_.load(std::memory_order_relaxed);
  while (s & 1)
    if (state_.compare_exchange_weak(s, s + 2, std::memory_order_relaxed)) return;
  script_retain(reinterpret_cast<void*>(s));
}

void RefCounted::release() const noexcept {
  std::uintptr_t s = state_.load(std::memory_order_relaxed);
  while (s & 1) {
    if (state_.compare_exchange_weak(s, s - 2, std::memory_order_acq_rel)) {
      if (s == 3) delete this;
      return;
    }
  }
  script_release(reinterpret_cast<void*>(s));
}

void* RefCounted::script_object() const noexcept {
  std::uintptr_t s = state_.load(std::memory_order_acquire);
  return s & 1 ? nullptr : reinterpret_cast<void*>(s);
}

void RefCounted::tie(void* object) noexcept {
  std::uintptr_t s = state_.load(std::memory_order_relaxed);
  while (s & 1) {
    if (state_.compare_exchange_weak(s, reinterpret_cast<std::uintptr_t>(object))) {
      for (std::uintptr_t n = s >> 1; n > 0; --n) script_retain(object);
      return;
    }
  }
}

bool RefCounted::held_once_from_cpp() const noexcept {
  return state_.load(std::memory_order_acquire) == 3;
}

}  // namespace snug
