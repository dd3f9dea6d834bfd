#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "base/file_error.h"
#include "base/pool.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "data/file.h"
#include "data/image.h"
#include "data/source.h"

namespace snug::data {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

/// Names of what is in a folder, sorted: its images, or its folders.
std::vector<std::string> entries_of(const fs::path& folder, bool folders) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (folders ? it->is_directory(ignored) : it->is_regular_file(ignored) && is_image(it->path()))
      names.push_back(it->path().filename().string());
  }
  if (error) throw FileError(folder.string(), "the folder cannot be read", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

/// A file becomes pixels; what it is shows in its first bytes, whatever its name.
void decode(const std::string& path, const ImageOptions& size, std::uint8_t* out, Gauge& memory) {
  const File file(path);
  constexpr std::int64_t kLargestFile = 256 << 20;
  if (file.size() > kLargestFile)
    bad_file(path, fmt::format("has {} bytes, too many for an image", file.size()));
  Gauge::Share share(memory);
  share.add(file.size());
  std::vector<std::uint8_t> bytes(file.size());
  file.read(0, file.size(), bytes.data());
  constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
  if (bytes.size() > 4 && std::equal(kPng.begin(), kPng.end(), bytes.begin()))
    decode_png(bytes, path, size, out, share);
  else if (bytes.size() > 2 && bytes[0] == 0xFF && bytes[1] == 0xD8)
    decode_jpeg(bytes, path, size, out, share);
  else
    bad_file(path, bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG image");
}

/// Files of images, by class if the folder has folders.
struct ImageFolder {
  fs::path folder;
  std::vector<std::string> classes;
  std::vector<std::string> names;  // within the folder of their class
  std::vector<std::int32_t> labels;

  std::string path(std::size_t row) const {
    return (classes.empty() ? folder / names[row] : folder / classes[labels[row]] / names[row])
        .string();
  }
};

ImageFolder read_folder(const std::string& path, std::vector<std::string> without = {}) {
  ImageFolder found{path, {}, {}, {}};
  for (std::string& name : without) name = fs::path(name).lexically_normal().string();
  std::sort(without.begin(), without.end());
  const auto files_of = [&](const fs::path& folder) {
    std::vector<std::string> files = entries_of(folder, false);
    std::erase_if(files, [&](const std::string& name) {
      return std::binary_search(without.begin(), without.end(),
                                (folder / name).lexically_normal().string());
    });
    return files;
  };
  for (const std::string& name : entries_of(path, true)) {
    std::vector<std::string> files = files_of(found.folder / name);
    if (files.empty()) continue;
    if (!is_utf8(name))
      bad_file((found.folder / name).string(), "the name of a class is not in UTF-8",
               "rename the folder");
    found.labels.insert(found.labels.end(), files.size(),
                        static_cast<std::int32_t>(found.classes.size()));
    std::move(files.begin(), files.end(), std::back_inserter(found.names));
    found.classes.push_back(name);
  }
  if (found.classes.empty()) found.names = files_of(found.folder);
  if (found.names.empty())
    bad_file(path, "has no images (.jpg, .jpeg, .png), nor folders with some");
  return found;
}

class Images : public Source {
 public:
  Images(ImageFolder files, const ImageOptions& size) : files_(std::move(files)), size_(size) {
    constexpr std::int64_t kLargest = 1 << 15;
    if (std::min(size.height, size.width) < 1 || std::max(size.height, size.width) > kLargest)
      fail(Fault::Value, fmt::format("images: a size of {} x {}", size.height, size.width));
    rows_ = static_cast<std::int64_t>(files_.names.size());
    classes_ = files_.classes;
    fields_ = {{"image", DType::U8, {size.grey ? 1 : 3, size.height, size.width}}};
    if (!classes_.empty()) fields_.push_back({"label", DType::I32, {}});
  }
  std::int64_t own_bytes() const override { return memory_.peak(); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::size_t>(begin + i);
      if (out[0])
        decode(files_.path(row), size_,
               reinterpret_cast<std::uint8_t*>(out[0] + i * fields_[0].bytes()), memory_);
      if (out.size() > 1 && out[1])
        std::memcpy(out[1] + i * sizeof(std::int32_t), &files_.labels[row], sizeof(std::int32_t));
    }
  }

 private:
  ImageFolder files_;
  ImageOptions size_;
  mutable Gauge memory_;
};

}  // namespace

SourcePtr images(const std::string& folder, const ImageOptions& options,
                 const std::vector<std::string>& without) {
  return std::make_shared<Images>(read_folder(folder, without), options);
}

SourcePtr image_files(const std::vector<std::string>& paths, const ImageOptions& options) {
  return std::make_shared<Images>(ImageFolder{{}, {}, paths, {}}, options);
}

std::vector<BrokenFile> broken_images(const std::string& folder) {
  const ImageFolder files = read_folder(folder);
  const ImageOptions size{.height = 8, .width = 8};
  std::vector<std::string> why(files.names.size());
  Gauge memory;
  auto work = [&](int, std::int64_t begin, std::int64_t end) {
    std::vector<std::uint8_t> out(3 * 8 * 8);
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
      const std::string path = files.path(row);
      try {
        decode(path, size, out.data(), memory);
      } catch (const Error& error) {
        why[row] = error.message().substr(error.message().starts_with(path) ? path.size() + 2 : 0);
      }
    }
  };
  const auto count = static_cast<std::int64_t>(why.size());
  run_chunks(count, count * kParallelWork, pool_threads(available_threads()), work);
  std::vector<BrokenFile> broken;
  for (std::size_t row = 0; row < why.size(); ++row)
    if (!why[row].empty()) broken.push_back({files.path(row), why[row]});
  return broken;
}

}  // namespace snug::data
