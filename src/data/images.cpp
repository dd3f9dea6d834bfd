#include <algorithm>
#include <array>
#include <filesystem>

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
  if (error)
    bad_file(folder.string(), fmt::format("the folder cannot be read: {}", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

class Images : public Source {
 public:
  Images(const std::string& folder, const ImageOptions& size) : folder_(folder), size_(size) {
    constexpr std::int64_t kLargest = 1 << 15;
    if (std::min(size.height, size.width) < 1 || std::max(size.height, size.width) > kLargest)
      fail(Fault::Value, fmt::format("images: a size of {} x {}", size.height, size.width));
    for (const std::string& name : entries_of(folder, true)) {
      std::vector<std::string> files = entries_of(folder_ / name, false);
      if (files.empty()) continue;
      for (std::string& file : files) {
        files_.push_back(std::move(file));
        labels_.push_back(static_cast<std::int32_t>(classes_.size()));
      }
      classes_.push_back(name);
    }
    if (classes_.empty()) files_ = entries_of(folder, false);
    if (files_.empty())
      bad_file(folder, "has no images (.jpg, .jpeg, .png), nor folders with some");
    rows_ = static_cast<std::int64_t>(files_.size());
    fields_ = {{"image", DType::U8, {size.grey ? 1 : 3, size.height, size.width}}};
    if (!classes_.empty()) fields_.push_back({"label", DType::I32, {}});
  }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::size_t>(begin + i);
      if (out[0]) decode(row, reinterpret_cast<std::uint8_t*>(out[0] + i * fields_[0].bytes()));
      if (out.size() > 1 && out[1])
        std::memcpy(out[1] + i * sizeof(std::int32_t), &labels_[row], sizeof(std::int32_t));
    }
  }

 private:
  void decode(std::size_t row, std::uint8_t* out) const {
    const fs::path path =
        classes_.empty() ? folder_ / files_[row] : folder_ / classes_[labels_[row]] / files_[row];
    const File file(path.string());
    constexpr std::int64_t kLargestFile = 256 << 20;
    if (file.size() > kLargestFile)
      bad_file(file.path(), fmt::format("has {} bytes, too many for an image", file.size()));
    std::vector<std::uint8_t> bytes(file.size());
    file.read(0, file.size(), bytes.data());
    // What it is shows in its first bytes, whatever its name.
    constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
    if (bytes.size() > 4 && std::equal(kPng.begin(), kPng.end(), bytes.begin()))
      decode_png(bytes, file.path(), size_, out);
    else if (bytes.size() > 2 && bytes[0] == 0xFF && bytes[1] == 0xD8)
      decode_jpeg(bytes, file.path(), size_, out);
    else
      bad_file(file.path(), "is neither a JPEG nor a PNG image");
  }

  fs::path folder_;
  ImageOptions size_;
  std::vector<std::string> files_;  // names within the folder of their class
  std::vector<std::int32_t> labels_;
};

}  // namespace

SourcePtr images(const std::string& folder, const ImageOptions& options) {
  return std::make_shared<Images>(folder, options);
}

}  // namespace snug::data
