#pragma once
#include <algorithm>
#include <cstring>
#include <random>
#include <string>

namespace snug::testing {

/// Damages bytes as disks, cables and people who mean it do: one to four changes, the same ones for
/// the same seed.
class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  std::string of(std::string bytes) {
    for (std::size_t left = 1 + below(4); left > 0 && !bytes.empty(); --left) change(bytes);
    return bytes;
  }
  std::size_t below(std::size_t count) { return random_() % count; }

 private:
  /// Half of the places are near the begin, where headers are.
  std::size_t place(const std::string& bytes) {
    return below(below(2) ? bytes.size() : std::min<std::size_t>(bytes.size(), 256));
  }

  void change(std::string& bytes) {
    const std::size_t at = place(bytes), left = bytes.size() - at;
    switch (below(9)) {
      case 0: bytes[at] = static_cast<char>(random_()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 2: {  // zeros or ones
        const char value = below(2) ? '\0' : '\xff';
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    std::min<std::size_t>(left, 1 + below(8)), value);
        break;
      }
      case 3:
      case 4: {  // a size or an offset: small, just beside, or huge
        constexpr std::size_t kWidths[] = {1, 2, 4, 8};
        const std::size_t width = std::min(left, kWidths[below(4)]);
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data() + at, width);
        const std::uint64_t values[] = {0,         1,          value + 1,    value - 1,
                                        value * 2, value << 8, bytes.size(), bytes.size() - at,
                                        at,        1ull << 31, 1ull << 62,   ~0ull >> 1,
                                        ~0ull};
        value = values[below(std::size(values))];
        std::memcpy(bytes.data() + at, &value, width);
        break;
      }
      case 5: bytes.resize(at); break;
      case 6: bytes.erase(at, 1 + below(16)); break;
      case 7: {  // a part again
        const std::string part = bytes.substr(at, 1 + below(64));
        bytes.insert(place(bytes), part);
        break;
      }
      default: {  // two parts change places
        const std::size_t other = place(bytes);
        const std::size_t length = std::min(
            {left, bytes.size() - other, 1 + below(32), at > other ? at - other : other - at});
        std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                         bytes.begin() + static_cast<std::ptrdiff_t>(at + length),
                         bytes.begin() + static_cast<std::ptrdiff_t>(other));
      }
    }
  }

  std::mt19937 random_;
};

/// How often a test damages something: `count` times, 40 times as often if it may take long.
inline int rounds(int count) { return std::getenv("SNUG_LONG") ? 40 * count : count; }

}  // namespace snug::testing
