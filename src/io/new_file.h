#pragma once
#include <string>
#include <string_view>

namespace snug::io {

/// A name beside `path` that nobody can foresee: "PATH.partial-PROCESS-RANDOM".
std::string name_aside(const std::string& path);

/// A file that appears whole or not at all: bytes go to a file aside, which `commit` brings to the
/// disk and renames. It is always a new one: no link that somebody put there is followed. Without
/// `commit` nothing is left behind. Errors are Device errors that name the path.
class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

  /// What the name of a file aside has in it; one that a killed process left may be removed.
  static constexpr std::string_view kAside = ".partial-";

 private:
  [[noreturn]] void failed(const char* what);
  std::string path_, aside_;
  int descriptor_ = -1;
};

/// Brings the names in the folder of `path` to the disk.
void sync_folder_of(const std::string& path);

}  // namespace snug::io
