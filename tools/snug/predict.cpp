// snug predict MODEL IMAGE...: the classes of images by a model of `snug train`.
#include <snug/snug.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "commands.h"
#include "options.h"

namespace {

namespace data = snug::data;
namespace nn = snug::nn;

struct PredictOptions {
  std::string model;
  std::vector<std::string> images;
  std::int64_t top = 1;
};

int predict(const PredictOptions& o) {
  const auto [model, card] = nn::load_model(o.model);
  if (!card.bytes || card.input.size() != 3 || (card.input[0] != 1 && card.input[0] != 3))
    snug::fail(snug::Fault::Value, fmt::format("predict: {} takes {}, no images", o.model,
                                               snug::describe_shape(card.input)));
  const data::ImageOptions size{
      .height = card.input[1], .width = card.input[2], .grey = card.input[0] == 1};
  data::Loader loader(data::image_files(o.images, size),
                      {.batch = 1,
                       .shuffle = false,
                       .transforms = {data::to(snug::DType::F32, 1 / 255.0)},
                       .memory = "256MiB"});
  const snug::Expr x = snug::input({snug::DType::F32, {-1, -1, -1, -1}, 0}, "x");
  const snug::Function classify = snug::function({x}, {snug::softmax((*model)(x), -1)});
  std::vector<std::size_t> order(card.classes.size());
  for (const std::string& path : o.images) {
    const snug::Array p = classify(loader.next()->arrays[0]);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return p.at_double(static_cast<std::int64_t>(a)) > p.at_double(static_cast<std::int64_t>(b));
    });
    const auto shown = std::min<std::size_t>(static_cast<std::size_t>(o.top), order.size());
    for (std::size_t k = 0; k < shown; ++k)
      fmt::print("{}\t{}\t{:.3f}\n", path, card.classes[order[k]],
                 p.at_double(static_cast<std::int64_t>(order[k])));
  }
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, int& status) {
  auto o = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand(
      "predict", "The classes of images by a model of `snug train`, with their probabilities.");
  command->add_option("model", o->model, "model.safetensors of a training")->required();
  command->add_option("images", o->images, "JPEG and PNG files")->required();
  command->add_option("--top", o->top, "So many classes per image")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command->callback([o, &status] { status = predict(*o); });
}
