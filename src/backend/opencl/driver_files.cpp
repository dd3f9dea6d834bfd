#include "backend/opencl/driver_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/opencl/opencl_library.h"
#include "base/error.h"
#include "base/fork.h"

namespace snug {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFolder = "OCL_ICD_VENDORS";

}  // namespace

DriverFiles driver_files() {
  DriverFiles out;
  out.folder = "/etc/OpenCL/vendors";
  for (const char* name : {kFolder, "OPENCL_VENDOR_PATH"})
    if (const char* given = std::getenv(name); given && *given) {
      out.folder = given;
      break;
    }
  std::error_code ignored;
  if (fs::is_regular_file(out.folder, ignored)) out.files = {out.folder};
  for (const auto& entry : fs::directory_iterator(out.folder, ignored))
    if (entry.path().extension() == ".icd") out.files.push_back(entry.path());
  std::sort(out.files.begin(), out.files.end());
  return out;
}

std::string why_not_loaded(const DriverFiles& files) {
  if (files.files.empty())
    return fmt::format(
        "the OpenCL library finds no driver: install that of the card, or pocl-opencl-icd for the "
        "processor; in a container the driver's file in {} may be missing",
        files.folder);
  std::string text;
  for (const std::string& file : files.files) {
    std::string library;
    std::getline(std::ifstream(file), library);
    while (!library.empty() && std::isspace(static_cast<unsigned char>(library.back())))
      library.pop_back();
    if (library.empty() || dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) continue;
    text += fmt::format("{}{} names a driver that cannot be loaded ({}): install it",
                        text.empty() ? "" : "; ", file, dlerror());
  }
  return text;
}

std::string why_not_opened(const std::string& devices_folder) {
  std::vector<std::string> files;
  std::error_code ignored;
  const auto is_of_a_card = [](const std::string& name) {
    return name == "kfd" || name.starts_with("renderD") || name.starts_with("nvidia");
  };
  for (const char* folder : {"", "/dri"})
    for (const auto& entry : fs::directory_iterator(devices_folder + folder, ignored))
      if (is_of_a_card(entry.path().filename()) && !entry.is_directory(ignored))
        files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) {
    const int opened = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (opened >= 0) {
      close(opened);
      continue;
    }
    const int why = errno;
    struct stat info {};
    const group* const g = stat(file.c_str(), &info) == 0 ? getgrgid(info.st_gid) : nullptr;
    text += fmt::format("{}{} (of the group {}): {}", text.empty() ? "" : ", ", file,
                        g ? g->gr_name : std::to_string(info.st_gid), std::strerror(why));
  }
  if (text.empty()) return text;
  return fmt::format(
      "this process cannot open the files of cards: {}; add the user to that group, or give the "
      "container the devices",
      text);
}

DriverFolder::DriverFolder(const std::vector<std::string>& files) {
  std::error_code ignored;
  std::string name = (fs::temp_directory_path(ignored) / "snug-drivers-XXXXXX").string();
  if (!mkdtemp(name.data())) return;
  path_ = name;
  for (const std::string& file : files)
    fs::copy_file(file, fs::path(path_) / fs::path(file).filename(), ignored);
}
DriverFolder::DriverFolder(DriverFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
DriverFolder::~DriverFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void DriverFolder::use() const {
  // Without a folder none is loaded.
  setenv(kFolder, path_.empty() ? "/nonexistent" : path_.c_str(), 1);
}

namespace {

struct Loading {
  LongMutex mutex;
  std::optional<std::vector<std::string>> only;
  std::atomic<std::int64_t> by = -1;  // the number of forks of the process that did; -1: nobody
};
Loading& loading() {
  static auto* const one = new Loading;
  return *one;
}

}  // namespace

void load_only(std::vector<std::string> files) {
  const std::lock_guard lock(loading().mutex);
  loading().only = std::move(files);
}

bool opencl_is_ours() {
  const std::int64_t by = loading().by;
  return by < 0 || by == fork_count();
}

void load_drivers() {
  const std::lock_guard lock(loading().mutex);
  if (!opencl_is_ours())
    fail(Fault::Device,
         "the OpenCL drivers are of the process that forked this one: they do not come along",
         "use devices in one process, or begin to use them after the fork");
  if (loading().by.exchange(fork_count()) >= 0 || !loading().only) return;
  const char* const was = std::getenv(kFolder);
  const std::optional<std::string> kept = was ? std::optional<std::string>(was) : std::nullopt;
  const DriverFolder folder(*loading().only);
  folder.use();
  cl_uint count = 0;
  opencl().clGetPlatformIDs(0, nullptr, &count);  // once in a process it looks for them
  if (kept)
    setenv(kFolder, kept->c_str(), 1);
  else
    unsetenv(kFolder);
}

}  // namespace snug
