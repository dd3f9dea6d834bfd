#include "io/tensor_file.h"

namespace snug::io {
namespace {

struct Format {
  std::string_view ending;
  void (*save)(const std::string& path, const TensorFile& file);
  TensorFile (*load)(const std::string& path);
};
constexpr Format kFormats[] = {
    {".safetensors", save_safetensors, load_safetensors},
    {".npz", save_npz, load_npz},
};

const Format& format_of(const std::string& path) {
  for (const Format& format : kFormats)
    if (path.ends_with(format.ending)) return format;
  std::vector<std::string_view> endings;
  for (const Format& format : kFormats) endings.push_back(format.ending);
  fail(Fault::Value, fmt::format("{}: the name does not say what kind of file it is", path),
       fmt::format("names end in {}", fmt::join(endings, " or ")));
}

}  // namespace

const Array* TensorFile::find(std::string_view name) const {
  for (const NamedArray& t : tensors)
    if (t.name == name) return &t.array;
  return nullptr;
}

void save(const std::string& path, const TensorFile& file) { format_of(path).save(path, file); }

TensorFile load(const std::string& path) { return format_of(path).load(path); }

}  // namespace snug::io
