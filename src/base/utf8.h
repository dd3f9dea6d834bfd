#pragma once
#include <string_view>

namespace snug {

/// True for text in UTF-8: no byte out of place, no overlong form, no surrogate.
inline bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) -> unsigned {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0;
    };
    const auto follows = [&](std::size_t k) { return (byte(k) & 0xC0) == 0x80; };
    const unsigned first = byte(0);
    std::size_t length = 0;
    if (first < 0x80)
      length = 1;
    else if (first >= 0xC2 && first < 0xE0 && follows(1))
      length = 2;
    else if ((first & 0xF0) == 0xE0 && follows(1) && follows(2) &&
             !(first == 0xE0 && byte(1) < 0xA0) && !(first == 0xED && byte(1) >= 0xA0))
      length = 3;
    else if (first >= 0xF0 && first < 0xF5 && follows(1) && follows(2) && follows(3) &&
             !(first == 0xF0 && byte(1) < 0x90) && !(first == 0xF4 && byte(1) >= 0x90))
      length = 4;
    else
      return false;
    i += length;
  }
  return true;
}

}  // namespace snug
