#pragma once
#include <cstddef>
#include <cstdint>

/// Bytes that say they are bools may have values besides 0 and 1 (of a file, of np.frombuffer).
/// All code counts on 0 and 1, so they are mended where values come in.
namespace snug {

inline bool has_other_than_bools(const std::byte* data, std::int64_t n) {
  std::byte all{};
  for (std::int64_t i = 0; i < n; ++i) all |= data[i];
  return all > std::byte{1};
}

inline void make_bools(std::byte* data, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) data[i] = std::byte{data[i] != std::byte{0}};
}

}  // namespace snug
