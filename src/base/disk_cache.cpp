#include "base/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <vector>

#include "base/log.h"

namespace snug {

namespace fs = std::filesystem;

namespace {

constexpr char kMagic[8] = {'S', 'N', 'U', 'G', 'O', 'B', 'J', '1'};
constexpr const char* kSuffix = ".code";
constexpr const char* kTemporary = ".tmp-";

struct Header {
  char magic[8];
  CacheKey key;
  std::uint64_t symbol_bytes, object_bytes;
  CacheKey hash;  // of symbol and object
};

bool write_all(int fd, const void* data, std::size_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::write(fd, p, size);
    if (n <= 0) return false;
    p += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// The whole file, if it is a plain file of ours; nothing otherwise.
std::optional<std::string> read_own_file(const fs::path& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  struct stat info {};
  std::optional<std::string> result;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid()) {
    std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
    std::size_t have = 0;
    while (have < bytes.size()) {
      ssize_t n = ::read(fd, bytes.data() + have, bytes.size() - have);
      if (n <= 0) break;
      have += static_cast<std::size_t>(n);
    }
    bytes.resize(have);
    result = std::move(bytes);
    ::futimens(fd, nullptr);  // used now: the oldest go first when space runs out
  }
  ::close(fd);
  return result;
}

std::optional<DiskCache::Entry> parse(const std::string& bytes, const CacheKey& key) {
  Header h{};
  if (bytes.size() < sizeof h) return std::nullopt;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.key != key) return std::nullopt;
  std::uint64_t rest = bytes.size() - sizeof h;
  if (h.symbol_bytes > rest || h.object_bytes != rest - h.symbol_bytes) return std::nullopt;
  std::string payload = bytes.substr(sizeof h);
  if (hash_bytes(payload) != h.hash) return std::nullopt;
  return DiskCache::Entry{payload.substr(0, h.symbol_bytes), payload.substr(h.symbol_bytes)};
}

}  // namespace

std::string hex(const CacheKey& key) { return fmt::format("{:016x}{:016x}", key[0], key[1]); }

CacheKey hash_bytes(const std::string& bytes) {
  XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

fs::path DiskCache::default_directory() {
  if (const char* own = std::getenv("SNUG_CACHE_DIR")) return own;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return fs::path(xdg) / "snug";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".cache" / "snug";
  return {};
}

DiskCache::DiskCache(fs::path directory, std::uint64_t max_bytes)
    : directory_(std::move(directory)), max_bytes_(max_bytes) {
  if (directory_.empty()) return;
  std::error_code ignored;
  fs::create_directories(directory_.parent_path(), ignored);
  ::mkdir(directory_.c_str(), 0700);
  struct stat info {};
  const char* fault = nullptr;
  if (::stat(directory_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    fault = "it cannot be made";
  else if (info.st_uid != ::geteuid())
    fault = "it belongs to another user";
  else if (info.st_mode & (S_IWGRP | S_IWOTH))
    fault = "others may write to it";
  if (!fault) return;
  warn(fmt::format("compiled code is not kept in {}: {}", directory_.string(), fault));
  directory_.clear();
}

fs::path DiskCache::path_of(const CacheKey& key) const { return directory_ / (hex(key) + kSuffix); }

std::optional<DiskCache::Entry> DiskCache::load(const CacheKey& key) {
  if (!on()) return std::nullopt;
  std::optional<std::string> bytes = read_own_file(path_of(key));
  if (!bytes) return std::nullopt;
  std::optional<Entry> entry = parse(*bytes, key);
  if (!entry) ::unlink(path_of(key).c_str());
  return entry;
}

void DiskCache::store(const CacheKey& key, const Entry& entry) {
  if (!on()) return;
  static std::atomic<std::uint64_t> counter{0};
  fs::path temporary =
      directory_ / fmt::format("{}{}-{}", kTemporary, ::getpid(), counter.fetch_add(1));
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  std::string payload = entry.symbol + entry.object;
  Header h{{}, key, entry.symbol.size(), entry.object.size(), hash_bytes(payload)};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  bool ok = write_all(fd, &h, sizeof h) && write_all(fd, payload.data(), payload.size());
  ok = ::close(fd) == 0 && ok;
  if (!ok || ::rename(temporary.c_str(), path_of(key).c_str()) != 0) {
    ::unlink(temporary.c_str());
    return;
  }
  std::lock_guard lock(mutex_);
  bytes_ += sizeof h + payload.size();
  if (!counted_ || bytes_ > max_bytes_) trim();
}

void DiskCache::trim() {
  struct File {
    fs::path path;
    std::uint64_t bytes;
    timespec used;
  };
  std::vector<File> files;
  std::error_code error;
  std::time_t now = std::time(nullptr);
  bytes_ = 0;
  for (const fs::directory_entry& e : fs::directory_iterator(directory_, error)) {
    struct stat info {};
    if (::lstat(e.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    std::string name = e.path().filename().string();
    if (name.rfind(kTemporary, 0) == 0 && info.st_mtime < now - 3600)
      ::unlink(e.path().c_str());  // left by a process that died
    if (e.path().extension() != kSuffix) continue;
    files.push_back({e.path(), static_cast<std::uint64_t>(info.st_size), info.st_mtim});
    bytes_ += files.back().bytes;
  }
  counted_ = true;
  if (bytes_ <= max_bytes_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec) < std::tie(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {  // a little below the limit, so that not every store trims
    if (bytes_ <= max_bytes_ - max_bytes_ / 8) break;
    if (::unlink(file.path.c_str()) == 0) bytes_ -= file.bytes;
  }
}

}  // namespace snug
