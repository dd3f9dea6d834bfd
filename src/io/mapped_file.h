#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace snug::io {

/// The bytes of a file as memory, until the last copy of `keep` is gone. Writing to them changes
/// memory only.
struct MappedFile {
  std::span<std::byte> bytes;
  std::shared_ptr<void> keep;
};
MappedFile map_file(const std::string& path);

}  // namespace snug::io
