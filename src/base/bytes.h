#pragma once
#include <cstdint>
#include <string>

namespace snug {

/// "512MiB", "4GB", "100000": bytes. A Value error names what is wrong.
std::uint64_t parse_bytes(const std::string& text);
std::string describe_bytes(std::uint64_t bytes);  // "1.50 GiB"

}  // namespace snug
