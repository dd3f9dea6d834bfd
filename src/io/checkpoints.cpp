#include "io/checkpoints.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/file_error.h"
#include "io/new_file.h"

namespace snug::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-", kSuffix = ".safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr int kDigits = 12;

/// The step in the name of a checkpoint; -1 for other names.
std::int64_t step_of(const std::string& name) {
  if (name.size() != kPrefix.size() + kDigits + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix))
    return -1;
  std::int64_t step = 0;
  for (char c : name.substr(kPrefix.size(), kDigits)) {
    if (c < '0' || c > '9') return -1;
    step = step * 10 + (c - '0');
  }
  return step;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  if (error) throw FileError(folder, "cannot be read", error.value());
  return names;
}

/// True for a file aside whose process is gone.
bool left_behind(const std::string& name) {
  const std::size_t at = name.find(NewFile::kAside);
  if (at == name.npos || name.find(kSuffix) == name.npos) return false;
  const long process = std::strtol(name.c_str() + at + NewFile::kAside.size(), nullptr, 10);
  return process > 0 && kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

TensorFile with_metadata(std::int64_t step, TensorFile state) {
  if (step < 0 || step >= 1'000'000'000'000)
    fail(Fault::Value, fmt::format("Checkpoints: {} is no step", step));
  state.metadata["format"] = kCheckpointFormat;
  state.metadata["step"] = fmt::format("{}", step);
  return state;
}

}  // namespace

Checkpoints::Checkpoints(std::string folder, int keep) : folder_(std::move(folder)), keep_(keep) {
  if (keep < 1)
    fail(Fault::Value, fmt::format("Checkpoints: keep is {}", keep), "at least 1 is kept");
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error || !fs::is_directory(folder_))
    fail(Fault::Device, fmt::format("{}: cannot be made: {}", folder_, error.message()));
}

std::string Checkpoints::path_of(std::int64_t step) const {
  return (fs::path(folder_) / fmt::format("{}{:0{}}{}", kPrefix, step, kDigits, kSuffix)).string();
}

std::string Checkpoints::best_path() const { return (fs::path(folder_) / kBest).string(); }

void Checkpoints::save(std::int64_t step, const TensorFile& state, bool best) {
  const TensorFile whole = with_metadata(step, state);
  const std::string path = path_of(step);
  save_hashed(path, whole);
  valid_[fs::path(path).filename().string()] = true;
  if (best) link_best(path, whole);
  remove_old();
}

void Checkpoints::save_best(std::int64_t step, const TensorFile& state) {
  save_hashed(best_path(), with_metadata(step, state));
}

/// A second name of the same file, where the file system has such; else a copy.
void Checkpoints::link_best(const std::string& path, const TensorFile& state) const {
  const std::string aside = name_aside(best_path());
  if (link(path.c_str(), aside.c_str()) == 0 && rename(aside.c_str(), best_path().c_str()) == 0) {
    unlink(aside.c_str());  // rename leaves it if both are one file already
    sync_folder_of(best_path());
  } else {
    unlink(aside.c_str());
    save_hashed(best_path(), state);
  }
}

std::vector<std::string> Checkpoints::newest_first() const {
  std::vector<std::pair<std::int64_t, std::string>> all;
  for (const std::string& name : names_in(folder_))
    if (name.ends_with(kSuffix)) all.emplace_back(step_of(name), name);
  std::sort(all.rbegin(), all.rend());
  std::vector<std::string> names;
  for (auto& [step, name] : all) names.push_back(std::move(name));
  return names;
}

bool Checkpoints::any() const {
  const std::vector<std::string> names = newest_first();
  return !names.empty() && step_of(names[0]) >= 0;
}

TensorFile Checkpoints::load_checkpoint(const std::string& name) const {
  const std::string path = (fs::path(folder_) / name).string();
  TensorFile state = load_hashed(path);
  const auto format = state.metadata.find("format");
  if (format == state.metadata.end() || format->second != kCheckpointFormat)
    fail(Fault::Value, fmt::format("{}: is no checkpoint", path));
  return state;
}

bool Checkpoints::valid(const std::string& name) {
  const auto known = valid_.find(name);
  if (known != valid_.end()) return known->second;
  try {
    load_checkpoint(name);
    return valid_[name] = true;
  } catch (const Error&) {
    return valid_[name] = false;
  }
}

void Checkpoints::remove_old() {
  // Damaged files among the newest do not count: those that are kept can be gone on from.
  int kept = 0;
  for (const std::string& name : newest_first()) {
    if (step_of(name) < 0) continue;
    if (kept >= keep_)
      unlink((fs::path(folder_) / name).c_str());
    else
      kept += valid(name);
  }
  for (const std::string& name : names_in(folder_))
    if (left_behind(name)) unlink((fs::path(folder_) / name).c_str());
}

std::optional<Checkpoints::Found> Checkpoints::load_newest(std::vector<std::string>* skipped) {
  for (const std::string& name : newest_first()) {
    try {
      Found found{(fs::path(folder_) / name).string(), load_checkpoint(name)};
      valid_[name] = true;
      return found;
    } catch (const Error& error) {
      valid_[name] = false;
      if (skipped) skipped->push_back(error.message());
    }
  }
  return {};
}

}  // namespace snug::io
