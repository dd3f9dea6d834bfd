#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace snug {

/// A base with an intrusive count. A language binding may tie an object to a script object: from
/// then on the script object's count is the count, so one expression is one script object for its
/// whole life and attributes set on it last.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  virtual ~RefCounted() = default;

  void retain() const noexcept;
  /// Deletes the object when nobody holds it any more.
  void release() const noexcept;

  /// The script object, or null. `tie` moves all counts onto it.
  void* script_object() const noexcept;
  void tie(void* script_object) noexcept;
  /// True if exactly one reference from C++ holds it and no script object is tied.
  bool held_once_from_cpp() const noexcept;

 private:
  // Odd: 2 * count + 1. Even: the address of the script object.
  mutable std::atomic<std::uintptr_t> state_{1};
};

/// How a binding counts its script objects; both take care of the interpreter's lock.
void set_script_hooks(void (*retain)(void*) noexcept, void (*release)(void*) noexcept);

/// A counted pointer to a RefCounted.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* p) : p_(p) {
    if (p_) p_->retain();
  }
  Ref(const Ref& other) : Ref(other.p_) {}
  Ref(Ref&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(const Ref<U>& other)
      : Ref(static_cast<T*>(other.get())) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~Ref() {
    if (p_) p_->release();
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  T* detach() { return std::exchange(p_, nullptr); }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace snug
