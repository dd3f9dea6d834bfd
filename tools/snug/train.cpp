// snug train MODEL: images on disk to a trained, saved model.
#include <snug/snug.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "nn/models.h"

namespace {

namespace fs = std::filesystem;
namespace data = snug::data;
namespace nn = snug::nn;

struct TrainOptions {
  std::string model, data, validation, out, optimizer = "adam", memory, monitor,
                                     precision = "float32";
  std::int64_t epochs = 10, batch = 128, classes = 0, size = 0, patience = 0, checkpoint_steps = 0;
  std::uint64_t seed = 0;
  double rate = 0, weight_decay = -1;
  int threads = 0;
  bool resume = false;
};

bool ends_with(const std::string& path, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return path.ends_with(ending); });
}

data::SourcePtr file(const std::string& path) {
  return ends_with(path, {".npy"}) ? data::npy(path) : data::idx(path);
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

/// "IMAGES,LABELS", one file that holds both, or a folder with a folder of images per class.
data::SourcePtr rows(const std::string& text, std::int64_t size) {
  const std::size_t comma = text.find(',');
  if (comma != text.npos)
    return data::zip({file(text.substr(0, comma)), file(text.substr(comma + 1))});
  if (ends_with(text, {".npz"})) return data::npz(text);
  if (ends_with(text, {".h5", ".hdf5"})) return data::hdf5(text);
  if (fs::is_directory(text) && size > 0)
    return data::images(text, {.height = size, .width = size});
  if (fs::is_directory(text))
    snug::fail(snug::Fault::Value, fmt::format("train: {} has no train-images-idx3-ubyte", text),
               "for a folder of images give --size: they are cut and scaled to that many pixels");
  const char* fault = fs::exists(text) ? "holds no inputs and labels" : "is not there";
  snug::fail(snug::Fault::Value, fmt::format("train: {} {}", text, fault),
             "give IMAGES,LABELS (.npy or IDX files), a .npz or .h5 file, or a folder");
}

/// Images of bytes become floats between 0 and 1, and get an axis of channels.
std::vector<data::Transform> steps_for(const data::Field& field) {
  std::vector<data::Transform> steps;
  if (field.dtype == snug::DType::U8) steps.push_back(data::to(snug::DType::F32, 1 / 255.0));
  if (field.shape.size() == 2) steps.push_back(data::reshape({1, field.shape[0], field.shape[1]}));
  return steps;
}

/// One more than the largest label.
std::int64_t count_classes(const data::Source& source) {
  if (!source.classes().empty()) return static_cast<std::int64_t>(source.classes().size());
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
    for (std::int64_t k = 0; k < count; ++k) largest = std::max(largest, part.at_int(k));
  }
  return largest + 1;
}

void on_interrupt(int) {
  snug::request_interrupt();
  std::signal(SIGINT, SIG_DFL);  // the next one ends the process
}

int train(TrainOptions o) {
  if (fs::is_directory(o.data)) {
    const fs::path folder = o.data;
    if (std::string pair = mnist_pair(folder, "train"); !pair.empty()) o.data = pair;
    if (o.validation.empty()) o.validation = mnist_pair(folder, "t10k");
  }
  const data::SourcePtr source = rows(o.data, o.size);
  data::LoaderOptions loading{.batch = o.batch, .seed = o.seed};
  loading.transforms = steps_for(source->fields()[0]);
  data::Loader loader(source, loading);
  std::unique_ptr<data::Loader> validation;
  loading.shuffle = false;
  if (!o.validation.empty())
    validation = std::make_unique<data::Loader>(rows(o.validation, o.size), loading);

  nn::LayerPtr model =
      nn::models::make(o.model, {.input = loader.fields()[0].shape,
                                 .classes = o.classes > 0 ? o.classes : count_classes(*source),
                                 .seed = o.seed + nn::kDefaultSeed});
  nn::FitOptions options;
  options.epochs = o.epochs;
  options.metrics = {"accuracy"};
  options.optimizer = o.optimizer;
  if (o.rate > 0) options.optim.rate = o.rate;
  if (o.weight_decay >= 0) options.optim.weight_decay = o.weight_decay;
  options.validation = validation.get();
  options.monitor = o.monitor;
  options.patience = o.patience;
  options.folder = o.out;
  options.checkpoint_steps = o.checkpoint_steps;
  options.resume = o.resume;
  options.memory = o.memory;
  options.threads = o.threads;
  options.precision = *snug::dtype_from_name(o.precision);
  std::signal(SIGINT, on_interrupt);
  const nn::History history = nn::fit(*model, loader, options);
  if (history.interrupted) return 130;
  if (!o.out.empty()) fmt::print("{}\n", (fs::path(o.out) / "model.safetensors").string());
  return 0;
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto o = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Trains a model by its name and saves it.");
  std::vector<std::string> models;
  for (const nn::models::Info& info : nn::models::all()) models.push_back(info.name);
  command->add_option("model", o->model, fmt::format("One of {}", fmt::join(models, ", ")))
      ->required();
  command
      ->add_option("--data", o->data,
                   "IMAGES,LABELS (.npy or IDX files), a .npz or .h5 file with both, a folder of "
                   "the MNIST family, or one with a folder of images per class")
      ->required();
  command->add_option("--validation", o->validation, "The same for evaluation after every epoch");
  command->add_option("--size", o->size, "Rows and columns that images of a folder get");
  command->add_option("--epochs", o->epochs)
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command->add_option("--batch", o->batch, "Rows per step")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command->add_option("--optimizer", o->optimizer)
      ->check(CLI::IsMember(snug::optim::rule_names()))
      ->capture_default_str();
  command->add_option("--lr,--rate", o->rate, "The learning rate (default: of the optimizer)");
  command->add_option("--weight-decay", o->weight_decay);
  command->add_option("--classes", o->classes, "Number of classes (default: from the labels)");
  command->add_option("--out", o->out, "Folder for checkpoints and model.safetensors");
  command->add_flag("--resume", o->resume, "Goes on from the newest valid checkpoint in --out");
  command->add_option("--checkpoint-steps", o->checkpoint_steps,
                      "Checkpoints also every so many steps");
  command->add_option("--patience", o->patience, "Ends after so many epochs without a better one");
  command->add_option("--monitor", o->monitor, "What decides: loss, accuracy, validation_accuracy");
  command->add_option("--memory", o->memory, "Budget of a step, as 512MiB");
  command->add_option("--threads", o->threads);
  command
      ->add_option("--precision", o->precision,
                   "bfloat16: products and convolutions round to it, which some CPUs do many "
                   "times as fast; parameters and all that is saved stay float32")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--seed", o->seed)->capture_default_str();
  command->callback([o, &status] { status = train(*o); });
}
