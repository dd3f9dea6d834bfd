#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace snug::native {

/// What is done with a row: `of(old, given)` is what is stored, for a vector as for one element.
struct SetRow {
  static constexpr bool kReads = false;  // asks what is there
  template <class V>
  static V of(const V&, const V& given) {
    return given;
  }
};
struct AddRow {
  static constexpr bool kReads = true;
  template <class V>
  static V of(const V& old, const V& given) {
    return old + given;
  }
};

/// N words of type W, `at` bytes from the start of a row: as they will be, and written.
template <class Op, class W, int N>
struct Words {
  W word[N];
  [[gnu::always_inline]] Words(const void* to, const void* from, std::int64_t at) {
    for (int k = 0; k < N; ++k, at += sizeof(W)) {
      W old{}, given;
      if constexpr (Op::kReads)
        std::memcpy(&old, static_cast<const std::byte*>(to) + at, sizeof(W));
      std::memcpy(&given, static_cast<const std::byte*>(from) + at, sizeof(W));
      word[k] = Op::of(old, given);
    }
  }
  [[gnu::always_inline]] void write(void* to, std::int64_t at) const {
    for (int k = 0; k < N; ++k, at += sizeof(W))
      std::memcpy(static_cast<std::byte*>(to) + at, &word[k], sizeof(W));
  }
};

/// A row of N to 2 N words, as N words at its start and N at its end: no loop and no rest. All are
/// read before the first one is written, so what both cover is computed from the same numbers.
template <class Op, class W, int N>
struct ShortRow {
  std::int64_t bytes;
  [[gnu::always_inline]] void operator()(void* to, const void* from) const {
    const std::int64_t last = bytes - std::int64_t{sizeof(W)} * N;
    const Words<Op, W, N> head(to, from, 0), tail(to, from, last);
    head.write(to, 0);
    tail.write(to, last);
  }
};

/// A row of N words or more: steps of N words, then N at its end.
template <class Op, class W, int N>
struct LongRow {
  std::int64_t bytes;
  [[gnu::always_inline]] void operator()(void* to, const void* from) const {
    constexpr std::int64_t kStep = std::int64_t{sizeof(W)} * N;
    const std::int64_t last = bytes - kStep;
    const Words<Op, W, N> tail(to, from, last);
    for (std::int64_t at = 0; at < last; at += kStep) Words<Op, W, N>(to, from, at).write(to, at);
    tail.write(to, last);
  }
};

/// 16 bytes of a row: a type of its own, since templates drop the attribute of a plain one.
template <class T>
struct Sixteen {
  using Lanes [[gnu::vector_size(sizeof(T) * (16 / sizeof(T)))]] = T;
  Lanes lanes;
  friend Sixteen operator+(const Sixteen& a, const Sixteen& b) { return {a.lanes + b.lanes}; }
};

/// Calls `use(row)` with the code for rows of more than 16 bytes, elements of type T.
template <class Op, class T, class Use>
void with_vectors(std::int64_t bytes, Use&& use) {
  using V = Sixteen<T>;
  static_assert(sizeof(V) == 16);
  if (bytes <= 32) return use(ShortRow<Op, V, 1>{bytes});
  if (bytes <= 64) return use(ShortRow<Op, V, 2>{bytes});
  if (bytes <= 128) return use(ShortRow<Op, V, 4>{bytes});
  use(LongRow<Op, V, 4>{bytes});
}

/// Calls `use(row)` with the code for packed rows of that many bytes, none of which overlap:
/// row(to, from) moves one.
template <class Use>
void with_moved_row(std::int64_t bytes, Use&& use) {
  constexpr std::int64_t kLong = 2048;
  if (bytes == 1) return use(ShortRow<SetRow, std::uint8_t, 1>{bytes});
  if (bytes <= 4) return use(ShortRow<SetRow, std::uint16_t, 1>{bytes});
  if (bytes <= 8) return use(ShortRow<SetRow, std::uint32_t, 1>{bytes});
  if (bytes <= 16) return use(ShortRow<SetRow, std::uint64_t, 1>{bytes});
  if (bytes <= kLong) return with_vectors<SetRow, std::uint64_t>(bytes, std::forward<Use>(use));
  use([bytes](void* to, const void* from) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  });
}

/// The same for rows of elements of 4 or 8 bytes that C++ has arithmetic for: adds `from`.
template <class T, class Use>
void with_added_row(std::int64_t elements, Use&& use) {
  const std::int64_t bytes = elements * std::int64_t{sizeof(T)};
  if (elements <= 2) return use(ShortRow<AddRow, T, 1>{bytes});
  if constexpr (sizeof(T) == 4)
    if (elements <= 4) return use(ShortRow<AddRow, T, 2>{bytes});
  with_vectors<AddRow, T>(bytes, std::forward<Use>(use));
}

}  // namespace snug::native
