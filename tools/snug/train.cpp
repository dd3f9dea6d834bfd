// snug train MODEL: images on disk to a trained, saved model.
#include <snug/snug.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "train_data.h"

namespace {

namespace fs = std::filesystem;
namespace data = snug::data;
namespace nn = snug::nn;

struct TrainOptions {
  DataOptions data;
  std::string model, out, optimizer = "adam", memory, offload, monitor, precision = "float32";
  std::int64_t epochs = 10, batch = 32, classes = 0, patience = 0, checkpoint_steps = 0;
  double rate = 0, weight_decay = -1;
  int threads = 0;
  bool resume = false, flip = false;
};

/// Images of bytes become floats between 0 and 1, and get an axis of channels.
std::vector<data::Transform> steps_for(const data::Field& field) {
  std::vector<data::Transform> steps;
  if (field.dtype == snug::DType::U8) steps.push_back(data::to(snug::DType::F32, 1 / 255.0));
  if (field.shape.size() == 2) steps.push_back(data::reshape({1, field.shape[0], field.shape[1]}));
  return steps;
}

/// Room for some batches of floats, beside what sources are read with.
std::string memory_for(const data::Field& field, std::int64_t batch) {
  constexpr std::int64_t kLeast = 64 << 20, kBatches = 6;
  const std::int64_t sizes[] = {kBatches, batch, snug::product(field.shape)};
  return fmt::format("{}", kLeast + data::checked_product(sizes, 4, "train: the batch"));
}

void on_interrupt(int) {
  snug::request_interrupt();
  std::signal(SIGINT, SIG_DFL);  // the next one ends the process
}

nn::LayerPtr make_model(const TrainOptions& o, const snug::Dims& input, std::size_t classes) {
  try {
    return nn::models::make(o.model, {.input = input,
                                      .classes = static_cast<std::int64_t>(classes),
                                      .seed = o.data.seed + nn::kDefaultSeed});
  } catch (const snug::Error& error) {
    if (error.fault() != snug::Fault::Shape) throw;
    snug::fail(snug::Fault::Shape,
               fmt::format("train: {} does not work on {}: {}", o.model,
                           snug::describe_shape(input), error.message()),
               "images may be too small: give a larger --size, or another model");
  }
}

std::string describe(const TrainData& d, const std::vector<std::string>& classes, nn::Layer& model,
                     const TrainOptions& o, const snug::Dims& input) {
  std::string text = fmt::format("data   {} rows to train on", d.training->rows());
  if (d.validation)
    text += fmt::format(", {} {}", d.validation->rows(),
                        d.held_out ? "held out for validation" : "for validation");
  if (d.test) text += fmt::format(", {} to test at the end", d.test->rows());
  constexpr std::size_t kNamed = 10;
  const std::vector<std::string> named(
      classes.begin(),
      classes.begin() + static_cast<std::ptrdiff_t>(std::min(classes.size(), kNamed)));
  text += fmt::format("; {} classes: {}{}\n", classes.size(), fmt::join(named, ", "),
                      classes.size() > kNamed ? ", ..." : "");
  std::int64_t parameters = 0;
  for (const nn::Parameter& p : model.parameters()) parameters += p.size();
  return text + fmt::format("model  {} for {}, {} parameters; saved in {}\n", o.model,
                            snug::describe_shape(input), parameters, o.out);
}

/// All images that cannot be decoded, if an error is about one of them.
void name_broken(const snug::Error& error, const TrainData& d) {
  for (const std::string& folder : d.image_folders) {
    if (!error.message().starts_with(folder)) continue;
    fmt::print(stderr, "looking at all images of {}\n", folder);
    const std::vector<data::BrokenFile> broken = data::broken_images(folder);
    if (broken.empty()) continue;
    snug::fail(snug::Fault::Value, list_of(broken),
               "remove them, or give --skip-broken to train without them");
  }
}

int train(TrainOptions o) {
  const nn::models::Info& info = nn::models::info(o.model);
  if (o.data.size == 0) o.data.size = info.input.back();
  if (o.out.empty()) o.out = "snug-" + o.model;
  const TrainData d = open_data(o.data);
  const std::vector<data::Field>& fields = d.training->fields();
  data::LoaderOptions loading{.batch = o.batch, .seed = o.data.seed};
  loading.memory = memory_for(fields[0], o.batch);
  loading.transforms = steps_for(fields[0]);
  data::LoaderOptions evaluating = loading;
  evaluating.shuffle = false;
  if (o.flip) loading.transforms.push_back(data::flip());
  data::Loader loader(d.training, loading);
  std::unique_ptr<data::Loader> validation;
  if (d.validation) validation = std::make_unique<data::Loader>(d.validation, evaluating);

  std::vector<std::string> classes = d.classes();
  if (o.classes > 0 && o.classes < static_cast<std::int64_t>(classes.size()))
    snug::fail(snug::Fault::Value, fmt::format("train: --classes is {}, but the labels count {}",
                                               o.classes, classes.size()));
  while (static_cast<std::int64_t>(classes.size()) < o.classes)
    classes.push_back(fmt::format("{}", classes.size()));
  const snug::Dims input = loader.fields()[0].shape;
  const nn::LayerPtr model = make_model(o, input, classes.size());
  nn::FitOptions options;
  options.epochs = o.epochs;
  options.metrics = {"accuracy"};
  options.optimizer = o.optimizer;
  if (o.rate > 0) options.optim.rate = o.rate;
  if (o.weight_decay >= 0) options.optim.weight_decay = o.weight_decay;
  options.validation = validation.get();
  options.monitor = o.monitor;
  options.patience = o.patience;
  options.restore_best = validation != nullptr;
  options.folder = o.out;
  options.checkpoint_steps = o.checkpoint_steps;
  options.resume = o.resume;
  options.metadata =
      nn::ModelCard{o.model, input, classes, fields[0].dtype == snug::DType::U8}.metadata();
  options.memory = o.memory;
  options.offload = o.offload;
  options.threads = o.threads;
  if (o.precision == "bfloat16-activations")
    options.activations = snug::DType::BF16;
  else
    options.precision = *snug::dtype_from_name(o.precision);
  fmt::print(stderr, "{}", describe(d, classes, *model, o, input));
  std::signal(SIGINT, on_interrupt);
  try {
    const nn::History history = nn::fit(*model, loader, options);
    if (history.interrupted) {
      fmt::print(stderr, "the same command with --resume goes on\n");
      return 130;
    }
    if (validation && history.best_epoch > 0)
      fmt::print(stderr, "the model is that of epoch {}, the best by {}\n", history.best_epoch,
                 o.monitor.empty() ? "validation_loss" : o.monitor);
    if (d.test) {
      data::Loader test(d.test, evaluating);
      const auto found = nn::evaluate(*model, test, options);
      fmt::print(stderr, "test   loss {:.4f}  accuracy {:.4f}\n", found.at("loss"),
                 found.at("accuracy"));
    }
  } catch (const snug::Error& error) {
    name_broken(error, d);
    throw;
  }
  fmt::print("{}\n", (fs::path(o.out) / "model.safetensors").string());
  return 0;
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto o = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Trains a model by its name and saves it.");
  command->footer(
      "Examples:\n"
      "  snug train vgg-small --data pictures --size 64 --out pets\n"
      "  snug train mlp --data images.npy,labels.npy --epochs 20 --out run1 --resume\n"
      "  snug predict pets/model.safetensors cat.jpg");
  std::vector<std::string> models;
  for (const nn::models::Info& info : nn::models::all()) models.push_back(info.name);
  command->add_option("model", o->model, fmt::format("One of {}", fmt::join(models, ", ")))
      ->required();
  command
      ->add_option("--data", o->data.data,
                   "A folder with a folder of JPEG and PNG images per class (or with folders "
                   "train, val and test of such), a folder of the MNIST family, IMAGES,LABELS "
                   "(.npy or IDX files), or a .npz or .h5 file with both "
                   "(FILE:IMAGES,LABELS names them)")
      ->required();
  command->add_option("--validation", o->data.validation,
                      "Data of the same kind to evaluate on after every epoch, or the part of the "
                      "rows that is held out for it (default: val beside train, or 0.1; 0: none)");
  command->add_option("--test", o->data.test,
                      "Data of the same kind to evaluate on at the end (default: test beside "
                      "train, or the test images of the MNIST family)");
  command
      ->add_option("--size", o->data.size,
                   "Rows and columns of the images of a folder, which are scaled and cut to it "
                   "(default: of the model as published)")
      ->check(CLI::Range(1, 32768));
  command->add_flag("--grey", o->data.grey, "One channel instead of three");
  command->add_flag("--flip", o->flip, "Images are mirrored at random while training");
  command->add_flag("--skip-broken", o->data.skip_broken,
                    "Looks at all images first, and leaves out those that cannot be decoded");
  command->add_option("--epochs", o->epochs)
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command->add_option("--batch", o->batch, "Rows per step")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command->add_option("--optimizer", o->optimizer)
      ->check(CLI::IsMember(snug::optim::rule_names()))
      ->capture_default_str();
  command->add_option("--lr,--rate", o->rate, "The learning rate (default: of the optimizer)")
      ->check(CLI::PositiveNumber);
  command->add_option("--weight-decay", o->weight_decay, "(default: of the optimizer)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--classes", o->classes, "Number of classes (default: from the labels)");
  command->add_option("--out", o->out,
                      "Folder for checkpoints and model.safetensors (default: snug-MODEL)");
  command->add_flag("--resume", o->resume, "Goes on from the newest valid checkpoint in --out");
  command->add_option("--checkpoint-steps", o->checkpoint_steps,
                      "Checkpoints also every so many steps");
  command->add_option("--patience", o->patience, "Ends after so many epochs without a better one");
  command->add_option("--monitor", o->monitor,
                      "What says which epoch is best: loss, accuracy, validation_loss, "
                      "validation_accuracy (default: validation_loss, or loss)");
  command->add_option("--memory", o->memory, "Budget of a step, as 512MiB");
  command->add_option("--offload", o->offload,
                      "A directory on a disk: values may go to a file there to keep to the budget");
  command->add_option("--threads", o->threads, "(default: all cores)")->check(CLI::Range(0, 1024));
  command
      ->add_option("--precision", o->precision,
                   "bfloat16: products and convolutions round to it, which some CPUs do many "
                   "times as fast; parameters and all that is saved stay float32. "
                   "bfloat16-activations: what is kept for the backward part may be rounded to "
                   "keep to --memory")
      ->check(CLI::IsMember({"float32", "bfloat16", "bfloat16-activations"}))
      ->capture_default_str();
  command->add_option("--seed", o->data.seed, "Of parameters, order and what is held out")
      ->capture_default_str();
  command->callback([o, &status] { status = train(*o); });
}
