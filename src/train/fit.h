#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/memory_report.h"
#include "data/loader.h"
#include "nn/layer.h"
#include "optim/optim.h"

/// The training loop.
///
///   nn::History h = nn::fit(*model, loader, {.epochs = 5, .metrics = {"accuracy"},
///                                            .folder = "run1", .resume = true});
namespace snug::nn {

/// A loss or metric of predictions and targets.
struct Objective {
  using Formula = std::function<Expr(const Expr& predictions, const Expr& targets)>;
  std::string name;
  /// The mean over the rows of a batch (0-d), or one number per row.
  Formula of;
  /// One number per row, or per label of a row, for weights; null: `of` gives them.
  Formula each = nullptr;
  /// One of nn/losses.h by its name; an unknown name is a Value error.
  Objective(const char* name) : Objective(std::string(name)) {}
  Objective(const std::string& name);
  Objective(std::string name, Formula of) : name(std::move(name)), of(std::move(of)) {}
};
std::vector<std::string> objective_names();

/// What one epoch gave; means over its rows, by weight if they have weights.
struct Epoch {
  std::int64_t number = 0;  // from 1
  std::int64_t step = 0;    // steps since the beginning of the training
  double loss = 0;
  std::vector<double> metrics;
  double validation_loss = 0;  // 0 without validation data
  std::vector<double> validation_metrics;
  bool best = false;   // so far
  double seconds = 0;  // 0 for epochs before a resume
  double rows_per_second = 0;
  std::string describe() const;  // one line
};

struct History {
  std::vector<std::string> metrics;  // their names
  bool validated = false;
  std::vector<Epoch> epochs;
  std::int64_t best_epoch = 0;  // from 1; 0: none
  bool stopped_early = false;   // by patience or by the callback
  bool interrupted = false;     // by Ctrl-C
  std::string resumed_from;     // path of a checkpoint
  /// Bytes of a step as planned, by device; the host, "cpu", with what loaders have.
  std::vector<std::pair<std::string, std::int64_t>> planned;
  std::vector<std::string> skipped;  // damaged and foreign checkpoints, and why
  /// One number per epoch: of "loss", a metric, or one of them with "validation_" in front.
  std::vector<double> values(const std::string& name) const;
  std::string describe() const;  // an aligned table
};

enum class Progress : std::uint8_t { Auto, Bar, Lines, Silent };  // Auto: a bar on a terminal

struct FitOptions {
  std::int64_t epochs = 10;
  Objective loss = "cross_entropy";
  std::vector<Objective> metrics = {};
  std::string optimizer = "adam";
  optim::Options optim = {};
  data::Loader* validation = nullptr;
  /// A weight per class, for targets that are classes: the rows of a class (the pixels, where each
  /// has one) weigh so much, in training and evaluation, times the weights they have of their own.
  std::vector<double> class_weight = {};

  /// The value that says which epoch is best: "loss", the name of a metric, or one of them with
  /// "validation_" in front. Empty: the loss, of the validation data if there are any. Losses and
  /// errors shall be small, other metrics large.
  std::string monitor = {};
  std::int64_t patience = 0;  // stop after so many epochs that were not the best; 0: never
  bool restore_best = false;  // the model ends with the parameters of the best epoch

  /// Checkpoints after every epoch, and every so many steps if given, in this folder; at the end
  /// also "model.safetensors" with the parameters alone.
  std::string folder = {};
  std::int64_t checkpoint_steps = 0;
  int keep = 2;
  /// From the newest valid checkpoint in the folder, if there is one. Without it a folder that has
  /// checkpoints is an error. The ways its steps kept to the budget, as far as they decide bits,
  /// are those of the checkpoint.
  bool resume = false;
  /// What a training that is resumed may do otherwise than before: "data" (other values of as many
  /// rows), "plan" (how it keeps to the budget is chosen anew). Else such a change is an error.
  std::vector<std::string> accept = {};
  std::map<std::string, std::string> metadata = {};  // of "model.safetensors"

  std::string device = settings().device;  // of the step and the evaluation, as in FunctionOptions
  std::string memory = {};                 // budget of a step, likewise
  std::int64_t micro_batches = 0;          // as in FunctionOptions, and so are the next three
  bool recompute = true;
  std::string offload = {};
  DType activations = DType::F32;
  int threads = settings().threads;  // as in FunctionOptions
  /// As in FunctionOptions, of the step and the evaluation. Parameters stay float32.
  DType precision = DType::F32;
  Progress progress = Progress::Auto;
  /// After every epoch; false ends the training. It may change the model, as prune does: the
  /// checkpoint of the epoch is made after it, the best one before it.
  std::function<bool(const Epoch& epoch)> on_epoch = nullptr;
};

class Trainer;

/// Trains on batches whose first field is the input and whose second one the target. A third one
/// has weights of rows, or of the labels of a row: losses and metrics are weighted means then,
/// sum(w l) / sum(w), over a batch as a step sees it, and over all rows of an epoch. So a weight of
/// 2 is a row that is there twice, one of 0 a row that is not there, and weights that are all the
/// same are none. A batch without any weight has gradients of 0. A training that was stopped at any
/// moment and resumed gives the same bits as one that was not. Weights that were pruned stay 0
/// (nn/prune.h); a model that is to be pruned on the way is masked before the training, for which
/// prune(model, 0) is enough. With averages of the parameters (optim.average) these are evaluated,
/// and the model ends with them. Ctrl-C (request_interrupt) saves a checkpoint and returns.
History fit(Layer& model, data::Loader& data, const FitOptions& options = {},
            Here where = Here::current());
/// The same with functions that are compiled already.
History fit(Trainer& trainer, data::Loader& data, const FitOptions& options);

/// What a step of `fit` with these options takes, for the batch of the loader, be there as many
/// rows or not; nothing is allocated.
MemoryReport plan(Layer& model, data::Loader& data, const FitOptions& options = {},
                  Here where = Here::current());
/// The same without data: for batches of `rows` rows with such fields.
MemoryReport plan(Layer& model, const std::vector<data::Field>& fields, std::int64_t rows,
                  const FitOptions& options = {}, Here where = Here::current());

/// The loss and the metrics by name, means over the rows of the data, by weight if they have a
/// third field, as `fit` evaluates. Of the options it takes loss, metrics, class_weight, device,
/// memory, threads and precision. The loader stays where it is.
std::map<std::string, double> evaluate(Layer& model, data::Loader& data,
                                       const FitOptions& options = {},
                                       Here where = Here::current());

/// Writes and reads the parameters and running statistics of a model; ".safetensors" or ".npz".
void save(Layer& model, const std::string& path);

/// What `load` did, by the names of parameters.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;    // in the model alone
  std::vector<std::string> different;  // "NAME: TYPE in the file, TYPE in the model"
  std::vector<std::string>
      left_over;  // in the file alone; other parts of a checkpoint do not count
  bool complete() const { return missing.empty() && different.empty() && left_over.empty(); }
  std::string describe() const;
};
/// With `strict` it is a Value error, and nothing changes, unless model and file have the same
/// parameters. Otherwise those of the same name and type are taken; an error if there are none.
LoadReport load(Layer& model, const std::string& path, bool strict = true);

}  // namespace snug::nn
