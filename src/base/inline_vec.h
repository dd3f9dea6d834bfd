#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>

namespace snug {

/// A vector of at most N elements that never touches the heap. Tensors have 0 to 8 dimensions.
template <class T, std::size_t N = 8>
class InlineVec {
 public:
  constexpr InlineVec() = default;
  constexpr InlineVec(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }
  explicit constexpr InlineVec(std::span<const T> items) {
    for (const T& item : items) push_back(item);
  }
  constexpr InlineVec(std::size_t count, const T& value) {
    for (std::size_t i = 0; i < count; ++i) push_back(value);
  }

  constexpr void push_back(const T& item) {
    if (size_ == N) throw std::length_error("a tensor has at most 8 dimensions");
    items_[size_++] = item;
  }
  constexpr void pop_back() { --size_; }
  constexpr void clear() { size_ = 0; }
  constexpr void resize(std::size_t count, const T& value = T{}) {
    while (size_ > count) pop_back();
    while (size_ < count) push_back(value);
  }
  constexpr void insert(std::size_t at, const T& item) {
    push_back(item);
    for (std::size_t i = size_ - 1; i > at; --i) items_[i] = items_[i - 1];
    items_[at] = item;
  }
  constexpr void erase(std::size_t at) {
    for (std::size_t i = at; i + 1 < size_; ++i) items_[i] = items_[i + 1];
    pop_back();
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](std::size_t i) { return items_[i]; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  constexpr T& back() { return items_[size_ - 1]; }
  constexpr const T& back() const { return items_[size_ - 1]; }
  constexpr T* data() { return items_.data(); }
  constexpr const T* data() const { return items_.data(); }
  constexpr T* begin() { return items_.data(); }
  constexpr T* end() { return items_.data() + size_; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr operator std::span<const T>() const { return {items_.data(), size_}; }

  friend constexpr bool operator==(const InlineVec& a, const InlineVec& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.items_[i] == b.items_[i])) return false;
    return true;
  }

 private:
  std::array<T, N> items_{};
  std::uint8_t size_ = 0;
};

using Dims = InlineVec<std::int64_t, 8>;  // sizes or strides, one per axis

inline std::int64_t product(const Dims& dims) {
  std::int64_t p = 1;
  for (std::int64_t d : dims) p *= d;
  return p;
}

}  // namespace snug
