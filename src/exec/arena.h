#pragma once
#include <cstddef>
#include <cstdint>

namespace snug {

/// The memory a call works in: one mapping, pre-faulted, followed by a guard page. It only grows,
/// and only between calls.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// At least `bytes`; a Memory error that says how much was asked if the system refuses.
  void ensure(std::uint64_t bytes);
  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }  // mapped, without the guard page

 private:
  void release();
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace snug
