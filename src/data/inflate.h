#pragma once
#include <optional>
#include <span>
#include <vector>

#include "data/file.h"

namespace snug::data {

enum class Deflated : std::uint8_t { Gzip, Raw };

/// The first `count` bytes of compressed data, or fewer if there are no more.
std::vector<std::byte> inflate_head(const Bytes& compressed, Deflated kind, std::int64_t count);

/// What compressed data hold, readable at any place: exactly `size` bytes. All is inflated once,
/// which checks it; little stays in memory, more is inflated again from points kept on the way (at
/// most 8 MiB of them).
/// `crc`: the sum it should have; gzip has its own.
BytesPtr inflated(BytesPtr compressed, Deflated kind, std::int64_t size,
                  std::optional<std::uint32_t> crc = {});

/// Unpacks the whole of a stream with zlib's own header; false if it is damaged or has another
/// size.
bool inflate_all(std::span<const std::byte> packed, std::span<std::byte> out);

inline constexpr const char* kWrongSum = "the data are damaged: their sum is wrong";

/// The sum that ZIP archives and gzip files have; `start` is that of the bytes before.
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t start = 0);

}  // namespace snug::data
