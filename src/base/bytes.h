#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

/// "512MiB", "4GB", "100000": bytes, more than 0 and less than 2^63; 0 of an empty text. A Value
/// error names `what` it is the amount of, if that is not empty.
std::uint64_t parse_bytes(std::string_view text, std::string_view what = "memory");
std::string describe_bytes(std::uint64_t bytes);  // "1.50 GiB"
/// To be typed: "7.82GiB", three digits, rounded up, so that it is never less than `bytes`.
std::string amount_to_type(std::uint64_t bytes);

}  // namespace snug
