#include "train_data.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace {

namespace fs = std::filesystem;
namespace data = snug::data;

bool ends_with(const std::string& path, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return path.ends_with(ending); });
}

bool is_npz(const std::string& path) { return ends_with(path, {".npz"}); }
bool is_hdf5(const std::string& path) { return ends_with(path, {".h5", ".hdf5"}); }

data::SourcePtr file(const std::string& path) {
  return ends_with(path, {".npy"}) ? data::npy(path) : data::idx(path);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back().push_back(c);
  return parts;
}

/// The pair of files of the MNIST family in a folder, gzipped or not; empty if there is none.
std::string mnist_pair(const fs::path& folder, const std::string& part) {
  for (const char* zipped : {"", ".gz"}) {
    const fs::path images = folder / (part + "-images-idx3-ubyte" + zipped);
    const fs::path labels = folder / (part + "-labels-idx1-ubyte" + zipped);
    if (fs::exists(images) && fs::exists(labels)) return images.string() + "," + labels.string();
  }
  return {};
}

/// The first of these folders that is there; empty if none is.
std::string inner_folder(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (fs::is_directory(folder / name)) return (folder / name).string();
  return {};
}

/// The input first, then the label: files have them in any order.
data::SourcePtr in_order(const data::SourcePtr& source, const std::string& text) {
  const std::vector<data::Field>& fields = source->fields();
  if (fields.size() != 2) {
    std::vector<std::string> names;
    for (const data::Field& field : fields) names.push_back(field.name);
    snug::fail(
        snug::Fault::Value,
        fmt::format("train: {} holds {}, not inputs and labels", text, fmt::join(names, ", ")),
        fmt::format("name the two, as in {}:INPUTS,LABELS", text));
  }
  if (fields[0].shape.empty() && !fields[1].shape.empty())
    return data::select(source, {fields[1].name, fields[0].name});
  return source;
}

class Opener {
 public:
  explicit Opener(const DataOptions& options) : options_(options) {}

  data::SourcePtr open(const std::string& text) {
    // FILE or FILE:INPUTS,LABELS
    const std::size_t colon = text.rfind(':');
    const std::string path = text.substr(0, colon);
    if (is_npz(path) || is_hdf5(path)) {
      std::vector<std::string> names;
      if (colon != text.npos) names = split_at_commas(text.substr(colon + 1));
      return in_order(is_npz(path) ? data::npz(path, names) : data::hdf5(path, names), path);
    }
    const std::vector<std::string> pair = split_at_commas(text);
    if (pair.size() == 2) return data::zip({file(pair[0]), file(pair[1])});
    if (fs::is_directory(text)) return open_images(text);
    const char* fault = fs::exists(text) ? "holds no inputs and labels" : "is not there";
    snug::fail(snug::Fault::Value, fmt::format("train: {} {}", text, fault),
               "give IMAGES,LABELS (.npy or IDX files), a .npz or .h5 file, or a folder");
  }

  std::vector<std::string> image_folders;

 private:
  data::SourcePtr open_images(const std::string& folder) {
    std::vector<std::string> without;
    if (options_.skip_broken) {
      fmt::print(stderr, "looking at all images of {}\n", folder);
      const std::vector<data::BrokenFile> broken = data::broken_images(folder);
      if (!broken.empty()) fmt::print(stderr, "left out: {}\n", list_of(broken));
      for (const data::BrokenFile& b : broken) without.push_back(b.path);
    }
    const data::ImageOptions size{
        .height = options_.size.front(), .width = options_.size.back(), .grey = options_.grey};
    data::SourcePtr source = data::images(folder, size, without);
    if (source->classes().size() < 2)
      snug::fail(
          snug::Fault::Value,
          source->classes().empty()
              ? fmt::format("train: the images in {} have no classes", folder)
              : fmt::format("train: {} has one class alone: {}", folder, source->classes()[0]),
          "a class is a folder of images: FOLDER/cat/1.jpg, FOLDER/dog/2.png");
    image_folders.push_back(folder);
    return source;
  }

  const DataOptions& options_;
};

/// "0.1" as a part of the rows; -1 if the text is no number.
double share_of(const std::string& text) {
  double share = -1;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (status != std::errc() || end != text.data() + text.size()) return -1;
  if (!(share >= 0 && share < 1))
    snug::fail(snug::Fault::Value, fmt::format("train: --validation is {}", text),
               "it is data, or a part of the rows between 0 and 1");
  return share;
}

void check_classes(const data::Source& training, const data::SourcePtr& other,
                   const std::string& text) {
  if (!other || other->classes() == training.classes()) return;
  snug::fail(snug::Fault::Value,
             fmt::format("train: {} has the classes {}, the training data {}", text,
                         fmt::join(other->classes(), ", "), fmt::join(training.classes(), ", ")),
             "classes are counted in the order of their names, so all must be in both");
}

/// The last field of a row as integers, one more than the largest of them.
std::int64_t count_labels(const data::Source& source) {
  const data::Field& labels = source.fields().at(1);
  if (!snug::is_int(labels.dtype) || !labels.shape.empty())
    snug::fail(snug::Fault::Type, fmt::format("train: {} are no labels", data::describe(labels)),
               "the second field has the number of a class per row");
  constexpr std::int64_t kRows = 65536;
  std::int64_t largest = -1;
  for (std::int64_t at = 0; at < source.rows(); at += kRows) {
    const std::int64_t count = std::min(kRows, source.rows() - at);
    snug::Array part = snug::Array::empty(labels.dtype, {count});
    std::vector<std::byte*> out(source.fields().size(), nullptr);
    out[1] = part.data;
    source.read(at, count, out);
    for (std::int64_t k = 0; k < count; ++k) {
      if (part.at_int(k) < 0)
        snug::fail(snug::Fault::Value,
                   fmt::format("train: row {} has the label {}", at + k, part.at_int(k)),
                   "labels count classes from 0 on");
      largest = std::max(largest, part.at_int(k));
    }
  }
  constexpr std::int64_t kMost = 1'000'000;
  if (largest >= kMost)
    snug::fail(snug::Fault::Value, fmt::format("train: there is a label {}", largest),
               "labels count classes from 0 on");
  return largest + 1;
}

}  // namespace

std::vector<std::string> TrainData::classes() const {
  if (!training->classes().empty()) return training->classes();
  std::int64_t count = count_labels(*training);
  for (const data::SourcePtr& other : {validation, test})
    if (other) count = std::max(count, count_labels(*other));
  std::vector<std::string> numbers;
  for (std::int64_t k = 0; k < count; ++k) numbers.push_back(fmt::format("{}", k));
  return numbers;
}

TrainData open_data(const DataOptions& given) {
  DataOptions o = given;
  if (fs::is_directory(o.data)) {
    const fs::path folder = o.data;
    const bool own_validation = o.validation.empty();
    if (const std::string pair = mnist_pair(folder, "train"); !pair.empty()) {
      o.data = pair;
      if (o.test.empty()) o.test = mnist_pair(folder, "t10k");
    } else if (const std::string inner = inner_folder(folder, {"train"}); !inner.empty()) {
      o.data = inner;
      if (own_validation) o.validation = inner_folder(folder, {"val", "valid", "validation"});
      if (o.test.empty()) o.test = inner_folder(folder, {"test"});
    }
  }
  if (o.validation.empty()) o.validation = "0.1";
  Opener opener(o);
  TrainData found;
  found.training = opener.open(o.data);
  if (!o.test.empty()) found.test = opener.open(o.test);
  const double share = share_of(o.validation);
  if (share < 0) {
    found.validation = opener.open(o.validation);
  } else if (std::llround(share * found.training->rows()) > 0) {
    // Rows that are read in blocks are held out as they come.
    std::optional<std::uint64_t> seed;
    if (found.training->block() == 1) seed = o.seed;
    auto parts = data::split(found.training, {1 - share, share}, seed);
    found.training = parts[0];
    found.validation = parts[1];
    found.held_out = true;
  }
  check_classes(*found.training, found.validation, o.validation);
  check_classes(*found.training, found.test, o.test);
  found.image_folders = opener.image_folders;
  return found;
}

std::string list_of(const std::vector<data::BrokenFile>& broken) {
  constexpr std::size_t kNamed = 20;
  std::string text = broken.size() == 1
                         ? std::string("an image that cannot be decoded")
                         : fmt::format("{} images that cannot be decoded", broken.size());
  for (std::size_t i = 0; i < std::min(broken.size(), kNamed); ++i)
    text += fmt::format("\n  {}: {}", broken[i].path, broken[i].why);
  if (broken.size() > kNamed) text += fmt::format("\n  and {} more", broken.size() - kNamed);
  return text;
}
