#pragma once
#include <string>
#include <vector>

namespace snug {

/// The files by which drivers are found (*.icd, each names a library), as libOpenCL looks for them.
struct DriverFiles {
  std::string folder;              // where they were looked for
  std::vector<std::string> files;  // paths, sorted
};
DriverFiles driver_files();

/// Why drivers of files that are there are not loaded; empty if there is nothing to say.
std::string why_not_loaded(const DriverFiles& files);
/// Which files of cards are there and cannot be opened, and what to do; empty if there are none.
std::string why_not_opened(const std::string& devices_folder);

/// A folder with some of the files: a process that libOpenCL is told of it loads no others.
class DriverFolder {
 public:
  explicit DriverFolder(const std::vector<std::string>& files);
  ~DriverFolder();
  DriverFolder(DriverFolder&& other) noexcept;
  DriverFolder& operator=(DriverFolder&&) = delete;
  /// Before drivers are loaded.
  void use() const;

 private:
  std::string path_;
};

/// What this process loads when it first needs drivers; all if nobody says so.
void load_only(std::vector<std::string> files);
/// Loads them. A Device error in a child of fork if its parent has.
void load_drivers();

}  // namespace snug
