#include "train/saved_model.h"

#include <charconv>

#include "nn/models.h"
#include "train/fit.h"
#include "train/trainer.h"

namespace snug::nn {
namespace {

constexpr const char* kModel = "snug.model";
constexpr const char* kInput = "snug.input";
constexpr const char* kClasses = "snug.classes";
constexpr const char* kBytes = "snug.bytes";

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back().push_back(c);
  return parts;
}

ModelCard card_of(const io::TensorFile& file, const std::string& path) {
  const auto entry = [&](const char* name) -> const std::string& {
    const auto found = file.metadata.find(name);
    if (found == file.metadata.end())
      fail(Fault::Value, fmt::format("{}: does not say which model it is of", path),
           "make the model and call load(model, path); `snug train` writes files that say it");
    return found->second;
  };
  ModelCard card{entry(kModel), {}, parts_of(entry(kClasses), '/'), entry(kBytes) == "1"};
  for (const std::string& text : parts_of(entry(kInput), ',')) {
    std::int64_t size = 0;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (status != std::errc() || end != text.data() + text.size() || size < 1 ||
        size > (std::int64_t{1} << 30) || card.input.size() == 7)
      fail(Fault::Value,
           fmt::format("{}: its {} \"{}\" are no sizes", path, kInput, entry(kInput)));
    card.input.push_back(size);
  }
  return card;
}

}  // namespace

io::Metadata ModelCard::metadata() const {
  return {{kModel, model},
          {kInput, fmt::format("{}", fmt::join(input, ","))},
          {kClasses, fmt::format("{}", fmt::join(classes, "/"))},
          {kBytes, bytes ? "1" : "0"}};
}

SavedModel load_model(const std::string& path) {
  const io::TensorFile file = io::load(path);
  const ModelCard card = card_of(file, path);
  LayerPtr model = models::make(
      card.model, {.input = card.input, .classes = static_cast<std::int64_t>(card.classes.size())});
  take_values(values_of(*model), file, path);
  return {model, card};
}

}  // namespace snug::nn
