#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace snug {

/// Pages of the system; they end where nothing may be touched. With PROT_NONE, addresses alone.
class Pages {
 public:
  /// `data` is null if the system refuses.
  Pages(std::uint64_t bytes, int access) : size_((bytes + 2 * kPage - 1) / kPage * kPage) {
    void* const p = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    data = static_cast<std::byte*>(p);
    if (access == PROT_NONE || mprotect(p, size_ - kPage, access) == 0) return;
    munmap(p, size_);
    data = nullptr;
  }
  ~Pages() {
    if (data) munmap(data, size_);
  }
  Pages(Pages&& other) noexcept : data(std::exchange(other.data, nullptr)), size_(other.size_) {}
  Pages& operator=(Pages&&) = delete;

  std::byte* data = nullptr;

 private:
  static constexpr std::uint64_t kPage = 4096;
  std::uint64_t size_;
};

}  // namespace snug
