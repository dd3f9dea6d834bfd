// snug train MODEL: images on disk to a trained, saved model.
#include <snug/snug.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "base/threads.h"
#include "commands.h"
#include "options.h"
#include "train_data.h"

namespace {

namespace fs = std::filesystem;
namespace data = snug::data;
namespace nn = snug::nn;

struct TrainOptions {
  DataOptions data;
  std::string model, out, optimizer = "adam", device, memory, offload, monitor;
  Precisions precision;
  std::int64_t epochs = 10, batch = 32, accumulate = 1, classes = 0, patience = 0,
               checkpoint_steps = 0;
  double rate = 0, weight_decay = -1;
  int threads = 0;
  bool resume = false, flip = false;
  std::vector<std::string> accept;
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

/// A model that gives one class per row.
bool gives_classes(const nn::models::Info& info) {
  if (info.classes == 0) return false;
  snug::Dims one = info.input;
  one.insert(0, 1);
  return nn::summarise(*nn::models::make(info.name), one).layers.back().output.size() == 2;
}

/// What can be told from the options alone, before data are read.
void check_options(const TrainOptions& o) {
  const nn::models::Info& info = nn::models::info(o.model);
  if (!gives_classes(info)) {
    std::vector<std::string> others;
    for (const nn::models::Info& other : nn::models::all())
      if (gives_classes(other)) others.push_back(other.name);
    snug::fail(snug::Fault::Value,
               fmt::format("train: {} ({}) gives no class per row, and `snug train` has labels of "
                           "rows alone",
                           o.model, info.doc),
               fmt::format("train it with nn.fit, or take one of {}", fmt::join(others, ", ")));
  }
  if (info.input.size() != 3 && !o.data.size.empty())
    snug::fail(snug::Fault::Value,
               fmt::format("train: {} takes no images, --size is theirs", o.model));
  if (o.memory.empty() && (!o.offload.empty() || o.precision.rounded_activations()))
    snug::fail(snug::Fault::Value,
               fmt::format("train: {} is a way to keep to a budget",
                           o.offload.empty() ? "--precision bfloat16-activations" : "--offload"),
               "give the budget, as --memory 4GiB");
}

int train(TrainOptions o) {
  check_options(o);
  const nn::models::Info& info = nn::models::info(o.model);
  if (o.data.size.empty()) o.data.size = {info.input[info.input.size() - 2], info.input.back()};
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
  options.optim.accumulate = o.accumulate;
  options.validation = validation.get();
  options.monitor = o.monitor;
  options.patience = o.patience;
  options.restore_best = validation != nullptr;
  options.folder = o.out;
  options.checkpoint_steps = o.checkpoint_steps;
  options.resume = o.resume;
  options.accept = o.accept;
  options.metadata =
      nn::ModelCard{o.model, input, classes, fields[0].dtype == snug::DType::U8}.metadata();
  if (!o.device.empty()) options.device = o.device;
  options.memory = o.memory;
  options.offload = o.offload;
  options.threads = o.threads;
  if (o.precision.rounded_activations()) options.activations = snug::DType::BF16;
  if (o.precision.bfloat16()) options.precision = snug::DType::BF16;
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
  add_model(*command, o->model);
  command
      ->add_option("--data", o->data.data,
                   "A folder with a folder of JPEG and PNG images per class (or with folders "
                   "train, val and test of such), a folder of the MNIST family, IMAGES,LABELS "
                   "(.npy or IDX files), or a .npz or .h5 file with both "
                   "(FILE:IMAGES,LABELS names them)")
      ->type_name("DATA")
      ->required();
  command
      ->add_option("--validation", o->data.validation,
                   "Data of the same kind to evaluate on after every epoch, or the part of the "
                   "rows that is held out for it (default: val beside train, or 0.1; 0: none)")
      ->type_name("DATA");
  command
      ->add_option("--test", o->data.test,
                   "Data of the same kind to evaluate on at the end (default: test beside train, "
                   "or the test images of the MNIST family)")
      ->type_name("DATA");
  add_size(*command, o->data.size,
           "Rows and columns of the images of a folder, which are scaled and cut to it (default: "
           "of the model as published)");
  command->add_flag("--grey", o->data.grey, "One channel instead of three");
  command->add_flag("--flip", o->flip, "Images are mirrored at random while training");
  command->add_flag("--skip-broken", o->data.skip_broken,
                    "Looks at all images first, and leaves out those that cannot be decoded");
  command->add_option("--epochs", o->epochs, "Times that all rows are gone through")
      ->type_name("N")
      ->check(whole_number(1))
      ->capture_default_str();
  add_batch(*command, o->batch);
  add_optimizer(*command, o->optimizer);
  command->add_option("--rate", o->rate, "The learning rate (default: of the optimizer)")
      ->type_name("NUMBER")
      ->check(above_zero());
  command
      ->add_option("--weight-decay", o->weight_decay,
                   "How far weights shrink (default: of the optimizer)")
      ->type_name("NUMBER")
      ->check(at_least_zero());
  add_accumulate(*command, o->accumulate);
  command->add_option("--classes", o->classes, "Number of classes (default: from the labels)")
      ->type_name("N")
      ->check(whole_number(2, 1'000'000));
  command
      ->add_option("--out", o->out,
                   "Folder for checkpoints and model.safetensors (default: snug-MODEL)")
      ->type_name("FOLDER");
  command->add_flag("--resume", o->resume, "Goes on from the newest valid checkpoint in --out");
  command
      ->add_option("--accept", o->accept,
                   "What may be otherwise than before: data (other images, as many), plan (how "
                   "steps keep to --memory). May be given twice")
      ->type_name("NAME")
      ->check(one_of({"data", "plan"}));
  command
      ->add_option("--checkpoint-steps", o->checkpoint_steps,
                   "Checkpoints also every so many steps")
      ->type_name("N")
      ->check(whole_number(1));
  command->add_option("--patience", o->patience, "Ends after so many epochs without a better one")
      ->type_name("N")
      ->check(whole_number(1));
  command
      ->add_option("--monitor", o->monitor,
                   "What says which epoch is best: loss, accuracy, validation_loss or "
                   "validation_accuracy (default: validation_loss, or loss)")
      ->type_name("NAME")
      ->check(one_of({"loss", "accuracy", "validation_loss", "validation_accuracy"}));
  add_device(*command, o->device);
  add_memory(*command, o->memory);
  add_offload(*command, o->offload);
  command->add_option("--threads", o->threads, "(default: all cores)")
      ->type_name("N")
      ->check(whole_number(1, snug::kMostThreads));
  add_precision(*command, o->precision);
  command->add_option("--seed", o->data.seed, "Of parameters, order and what is held out")
      ->type_name("N")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  command->callback([o, &status] { status = train(*o); });
}
