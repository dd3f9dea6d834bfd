#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace snug::native {

/// The vectors that every CPU we run on has.
inline constexpr int kLanes = 4;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes)));
template <class T>
using Lanes [[gnu::vector_size(sizeof(T) * kLanes)]] = T;

/// The first `count` lanes from memory; a count that is a constant is a plain load.
template <class V, class T, class Count>
inline void load(V& to, const T* from, Count count) {
  Lanes<T> part = {};
  std::memcpy(&part, from, sizeof(T) * static_cast<std::size_t>(count));
  to = __builtin_convertvector(part, V);
}
template <class V, class T, class Count>
inline void store(const V& from, T* to, Count count) {
  const Lanes<T> part = __builtin_convertvector(from, Lanes<T>);
  std::memcpy(to, &part, sizeof(T) * static_cast<std::size_t>(count));
}

/// Calls f(first, how many) for parts of [0, count), all but the last of kLanes.
template <class F>
inline void in_lanes(std::int64_t count, F&& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, std::integral_constant<int, kLanes>());
  if (i < count) f(i, static_cast<int>(count - i));
}

}  // namespace snug::native
