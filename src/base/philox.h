#pragma once
#include <array>
#include <cstdint>

namespace snug {

// Philox 4x32-10, the counter-based generator of Salmon et al. (SC 2011).
inline constexpr std::uint32_t kPhiloxMul0 = 0xD2511F53, kPhiloxMul1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxKey0 = 0x9E3779B9, kPhiloxKey1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;

/// Four random words for a key and a counter. The counter fills the two low counter words; the two
/// high ones are 0.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter) {
  auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  std::uint32_t k0 = low(key), k1 = high(key);
  std::array<std::uint32_t, 4> c{low(counter), high(counter), 0, 0};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    std::uint64_t p0 = std::uint64_t{kPhiloxMul0} * c[0];
    std::uint64_t p1 = std::uint64_t{kPhiloxMul1} * c[2];
    c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
    k0 += kPhiloxKey0;
    k1 += kPhiloxKey1;
  }
  return c;
}

// Known answer of the published test vectors.
static_assert(philox(0, 0)[0] == 0x6627e8d5 && philox(0, 0)[3] == 0x9b00dbd8);

}  // namespace snug
