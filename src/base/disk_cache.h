#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/fork.h"

namespace snug {

using CacheKey = std::array<std::uint64_t, 2>;
std::string hex(const CacheKey& key);
CacheKey hash_bytes(const std::string& bytes);

/// Machine code and measured rates on disk, in a directory only the user can write. Entries are
/// checked by hash before use; a damaged one is deleted. Several processes may use one directory:
/// entries are written aside and renamed.
class DiskCache {
 public:
  struct Entry {
    std::string symbol, object;
  };
  static constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{256} << 20;

  /// Makes the directory. An empty path, or a directory others may write, turns the cache off.
  explicit DiskCache(std::filesystem::path directory, std::uint64_t max_bytes = kDefaultMaxBytes);
  /// $SNUG_CACHE_DIR (empty: off), $XDG_CACHE_HOME/snug or ~/.cache/snug.
  static std::filesystem::path default_directory();

  bool on() const { return !directory_.empty(); }
  const std::filesystem::path& directory() const { return directory_; }
  std::optional<Entry> load(const CacheKey& key);
  /// Removes the entries used longest ago if the directory grows beyond its limit.
  void store(const CacheKey& key, const Entry& entry);

 private:
  std::filesystem::path path_of(const CacheKey& key) const;
  void trim();

  std::filesystem::path directory_;
  std::uint64_t max_bytes_;
  BriefMutex mutex_;
  std::uint64_t bytes_ = 0;  // in the directory, as far as this process knows
  bool counted_ = false;
};

}  // namespace snug
