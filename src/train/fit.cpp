#include "train/fit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

#include "base/bytes.h"
#include "base/spelling.h"
#include "data/fingerprint.h"
#include "io/checkpoints.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace snug::nn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// ---- numbers in checkpoints

Array doubles(const std::vector<double>& values, std::int64_t rows, std::int64_t columns) {
  return Array::from(values, {rows, columns});
}

std::int64_t number_in(const io::TensorFile& file, const std::string& path, const char* name) {
  const auto found = file.metadata.find(name);
  std::int64_t value = 0;
  bool read = false;
  if (found != file.metadata.end()) {
    const std::string& text = found->second;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    read = status == std::errc() && end == text.data() + text.size();
  }
  if (!read) fail(Fault::Value, fmt::format("{}: has no number \"{}\"", path, name));
  return value;
}

struct StateNumber {
  const char* name;
  std::int64_t data::LoaderState::*member;
};
constexpr StateNumber kPosition[] = {
    {"data.epoch", &data::LoaderState::epoch},
    {"data.batch", &data::LoaderState::batch},
    {"data.rows", &data::LoaderState::rows},
    {"data.batch_rows", &data::LoaderState::batch_rows},
    {"data.window_rows", &data::LoaderState::window_rows},
};

/// One of the numbers of an epoch.
struct Watched {
  std::size_t index = 0;  // 0: the loss, from 1: metrics
  bool validation = false;
  double of(const Epoch& e) const {
    if (index == 0) return validation ? e.validation_loss : e.loss;
    return (validation ? e.validation_metrics : e.metrics)[index - 1];
  }
};

Watched find_watched(const std::string& name, const std::vector<std::string>& metrics,
                     bool validated) {
  std::vector<std::string> known;
  for (bool validation : {false, true}) {
    if (validation && !validated) continue;
    for (std::size_t i = 0; i <= metrics.size(); ++i) {
      known.push_back((validation ? "validation_" : "") + (i == 0 ? "loss" : metrics[i - 1]));
      if (known.back() == name) return {i, validation};
    }
  }
  fail(Fault::Value, fmt::format("fit: no epoch has a \"{}\"", name),
       fmt::format("there are {}", fmt::join(known, ", ")));
}

// ---- means over rows

/// An error if the rows have no weight. `which`: "training".
std::vector<double> means_of(const BatchSums& sums, const char* which) {
  if (sums.weight == 0)
    fail(Fault::Value, fmt::format("fit: all weights of the {} data are 0", which),
         "rows with a weight of 0 are left out; give some a weight");
  return sums.means();
}

/// Of what `values` gives for the batches of an epoch.
template <class F>
std::vector<double> means_over(data::Loader& loader, std::int64_t epoch, const char* which,
                               F&& values) {
  data::LoaderState begin = loader.state();
  begin.epoch = epoch;
  begin.batch = 0;
  loader.seek(begin);
  BatchSums sums;
  while (std::optional<data::Batch> batch = loader.next()) sums.add(values(*batch));
  return means_of(sums, which);
}

/// Where a training stands: with the values of the trainer and the position in the data all that
/// decides how it goes on.
struct Standing {
  std::int64_t epoch = 0, step = 0;  // finished ones
  bool trained = false;              // the epoch has its training, but no evaluation yet
  BatchSums sums;                    // of the loss and the metrics in this epoch
  double best = std::numeric_limits<double>::quiet_NaN();
  std::int64_t best_epoch = 0;
};

/// The words of a text that `others` has not.
std::vector<std::string> words_without(const std::string& text, const std::string& others) {
  const auto words_of = [](const std::string& joined) {
    std::istringstream stream(joined);
    return std::vector<std::string>{std::istream_iterator<std::string>(stream), {}};
  };
  const std::vector<std::string> known = words_of(others);
  std::vector<std::string> out;
  for (const std::string& word : words_of(text))
    if (std::find(known.begin(), known.end(), word) == known.end()) out.push_back(word);
  return out;
}

constexpr const char* kOtherFolder = "or begin a new training in another folder";

/// An error unless a checkpoint is of a training with the same loss, optimizer and parameters.
void require_same_training(const io::Metadata& then, const io::Metadata& now,
                           const std::string& path) {
  for (const auto& [key, value] : now) {
    const auto found = then.find(key);
    if (found == then.end() || found->second == value) continue;
    const std::string name = key.substr(key.find('.') + 1);
    const std::string& before = found->second;
    if (name == "trained") {
      const auto frozen = words_without(before, value), thawed = words_without(value, before);
      const bool less = !frozen.empty();
      fail(Fault::Value,
           fmt::format("{}: is of a training that {} {}", path,
                       less ? "also trained" : "did not train",
                       fmt::join(less ? frozen : thawed, ", ")),
           fmt::format("{} the same layers, {}", less ? "unfreeze" : "freeze", kOtherFolder));
    }
    if (name == "fields")
      fail(Fault::Value,
           fmt::format("{}: is of a training on rows of {}; these are {}", path, before, value),
           fmt::format("give the same data and transforms, {}", kOtherFolder));
    fail(Fault::Value,
         fmt::format("{}: is of a training with {} {}, this one has {}", path, name, before, value),
         fmt::format("go on with the {} it had, {}", name, kOtherFolder));
  }
}

/// "60000 rows in batches of 128, shuffled"
std::string order_text(const data::LoaderState& s) {
  std::string text = fmt::format("{} rows in batches of {}, {}", s.rows, s.batch_rows,
                                 s.shuffle ? "shuffled" : "in order");
  if (s.window_rows > 0) text += fmt::format(" within windows of {} rows", s.window_rows);
  return text;
}

void require_same_order(const data::LoaderState& then, data::LoaderState now,
                        const std::string& path) {
  now.seed = then.seed;
  now.epoch = then.epoch;
  now.batch = then.batch;
  if (then == now) return;
  fail(
      Fault::Value,
      fmt::format("{}: is of a training on {}; these data are {}", path, order_text(then),
                  order_text(now)),
      fmt::format("give the same data, batch, shuffle and memory of the loader, {}", kOtherFolder));
}

// ---- what decides bits

/// The numbers of rows that batches of an epoch have.
std::vector<std::int64_t> batch_sizes(const data::Loader& loader) {
  const std::int64_t rows = loader.rows(), most = loader.state().batch_rows;
  if (rows <= most) return {rows};
  return rows % most == 0 ? std::vector{most} : std::vector{most, rows % most};
}

std::string text_of(const Function::Way& way) {
  return fmt::format("{}{}", way.slices, way.rounded ? " rounded" : "");
}

Function::Way way_in(const io::TensorFile& file, const std::string& path, const std::string& key) {
  const std::string& text = file.metadata.at(key);
  const std::size_t end = text.find(' ');
  Function::Way way;
  auto [stop, status] =
      std::from_chars(text.data(), text.data() + std::min(end, text.size()), way.slices);
  way.rounded = end != text.npos && text.substr(end) == " rounded";
  if (status != std::errc() || way.slices < 1 || text != text_of(way))
    fail(Fault::Value, fmt::format("{}: \"{}\" is no way to run: \"{}\"", path, key, text));
  return way;
}

/// As users write it.
std::string accepting(std::string_view what) {
  if (language() == Language::Tool) return option("accept", what);
  return fmt::format(fmt::runtime(spelled(".accept = {{\"{}\"}}", "accept=[\"{}\"]")), what);
}

/// An error unless the data are those that a checkpoint names under `key`.
void require_same_data(const io::TensorFile& file, const char* key, const char* which,
                       const data::Fingerprint& now, const std::string& path) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) return;
  const std::string how = data::difference(found->second, now);
  if (how.empty()) return;
  fail(Fault::Value, fmt::format("{}: is of a training with other {} data: {}", path, which, how),
       fmt::format("give the data it had; go on with these on purpose ({}); {}", accepting("data"),
                   kOtherFolder));
}

constexpr const char* kData = "data.fingerprint";
constexpr const char* kValidation = "validation.fingerprint";

class Loop {
 public:
  Loop(Trainer& trainer, data::Loader& data, const FitOptions& options)
      : trainer_(trainer), data_(data), options_(options), view_(options.progress) {
    history_.validated = options.validation != nullptr;
    for (const Objective& metric : options.metrics) history_.metrics.push_back(metric.name);
    if (options.epochs < 0) fail(Fault::Value, fmt::format("fit: epochs is {}", options.epochs));
    if (options.resume && options.folder.empty())
      fail(Fault::Value, "fit: there is no folder to resume from", "give " + option("folder"));
    if (data.rows() == 0 || (options.validation && options.validation->rows() == 0))
      fail(Fault::Value, fmt::format("fit: the {} data have no rows",
                                     data.rows() == 0 ? "training" : "validation"));
    if (options.checkpoint_steps < 0 || options.patience < 0)
      fail(Fault::Value, "fit: checkpoint_steps and patience are not negative");
    for (const std::string& name : options.accept)
      if (name != "data" && name != "plan")
        fail(Fault::Value, fmt::format("fit: accept has \"{}\"", name),
             "a training that is resumed may have another \"data\" or \"plan\"");
    find_monitor();
    if (!options.folder.empty()) checkpoints_.emplace(options.folder, options.keep);
    if (checkpoints_ && !options.resume && checkpoints_->any())
      fail(Fault::Value, fmt::format("fit: {} has checkpoints of a training", options.folder),
           fmt::format("resume it ({}), or give another folder", switched("resume", true)));
    reset_sums();
  }

  History run() {
    if (checkpoints_) {
      prints_.emplace(kData, data::fingerprint(data_.source()));
      if (options_.validation)
        prints_.emplace(kValidation, data::fingerprint(options_.validation->source()));
    }
    if (options_.resume) resume();
    if (history_.resumed_from.empty()) settle_ways(nullptr);
    data_.begin_epoch();  // stays where `resume` went
    position_ = data_.state();
    const MemoryReport step = trainer_.plan(std::min(position_.batch_rows, data_.rows()));
    planned_ = step.peak;
    history_.planned = {{"cpu", host_bytes()}};
    for (const MemoryReport::OnDevice& d : step.devices)
      if (d.peak > 0) history_.planned.emplace_back(d.name, d.peak);
    try {
      while (now_.epoch < options_.epochs && !stopped()) run_epoch();
    } catch (const Error& error) {
      if (error.fault() != Fault::Interrupted) throw;
      history_.interrupted = true;
      if (now_.step > 0 || now_.epoch > 0) checkpoint(false);
      view_.say(checkpoints_ ? fmt::format("interrupted: saved in {}", options_.folder)
                             : "interrupted");
    }
    finish();
    return std::move(history_);
  }

 private:
  // ---- epochs

  void run_epoch() {
    start_ = Clock::now();
    rows_here_ = 0;
    if (!now_.trained) train();
    Epoch e;
    e.number = now_.epoch + 1;
    e.step = now_.step;
    const std::vector<double> means = means_of(now_.sums, "training");
    e.loss = means[0];
    e.metrics.assign(means.begin() + 1, means.end());
    if (std::isnan(e.loss))  // parameters that are nan must not replace the checkpoints before
      fail(Fault::Value, fmt::format("fit: the loss of epoch {} is nan", e.number),
           "look for nan in the data, lower the rate, or clip the gradients (clip_global_norm)");
    e.rows_per_second = rows_here_ / std::max(seconds_since(start_), 1e-9);
    if (options_.validation) validate(e);
    const double value = monitor_.of(e);
    e.best = !std::isnan(value) && (std::isnan(now_.best) || better(value, now_.best));
    if (e.best) {
      now_.best = value;
      now_.best_epoch = e.number;
    }
    e.seconds = seconds_since(start_);
    history_.epochs.push_back(e);
    ++now_.epoch;
    now_.trained = false;
    reset_sums();
    if (e.best && options_.restore_best && !checkpoints_) remember_best();
    view_.epoch(e, history_, options_.epochs, memory());
    if (!options_.on_epoch) return checkpoint(e.best);
    if (checkpoints_ && e.best) checkpoints_->save_best(now_.step, state());
    if (!options_.on_epoch(e)) history_.stopped_early = ended_ = true;
    trainer_.check_masks();
    checkpoint(false);
  }

  void train() {
    const std::int64_t batches = data_.batches();
    while (std::optional<data::Batch> batch = data_.next()) {
      const BatchSums values = trainer_.step(*batch);
      position_ = data_.state();
      ++now_.step;
      now_.trained = batch->number + 1 == batches;  // the position is in the next epoch then
      now_.sums.add(values);
      rows_here_ += static_cast<double>((*batch)[0].shape[0]);
      show(*batch, batches);
      batch.reset();  // its storage is used again
      if (options_.checkpoint_steps > 0 && now_.step % options_.checkpoint_steps == 0)
        checkpoint(false);
    }
    now_.trained = true;
  }

  void show(const data::Batch& batch, std::int64_t batches) {
    ProgressView::Numbers n;
    n.epoch = now_.epoch + 1;
    n.epochs = options_.epochs;
    n.batch = batch.number + 1;
    n.batches = batches;
    n.rows = static_cast<std::int64_t>(rows_here_);
    n.seconds = seconds_since(start_);
    const std::vector<double> means = now_.sums.means();
    n.loss = means[0];
    if (means.size() > 1) {
      n.metric = means[1];
      n.metric_name = history_.metrics[0];
    }
    n.memory = memory();
    view_.batch(n);
  }

  /// "136.78 MiB on opencl:0, 2.10 MiB"; without another device what there is on the host.
  std::string memory() const {
    const auto amount = [](std::int64_t bytes) {
      return describe_bytes(static_cast<std::uint64_t>(bytes));
    };
    std::string text;
    for (std::size_t k = 1; k < history_.planned.size(); ++k)
      text +=
          fmt::format("{} on {}, ", amount(history_.planned[k].second), history_.planned[k].first);
    return text + amount(host_bytes()) + (text.empty() ? "" : " on cpu");
  }

  /// Of a step as planned, and of the loaders as it is.
  std::int64_t host_bytes() const {
    return planned_ + data_.memory().total() +
           (options_.validation ? options_.validation->memory().total() : 0);
  }

  /// The same rows with the same random numbers whenever this epoch is evaluated.
  void validate(Epoch& e) {
    const std::vector<double> means =
        means_over(*options_.validation, now_.epoch, "validation",
                   [&](const data::Batch& batch) { return trainer_.evaluate(batch); });
    e.validation_loss = means[0];
    e.validation_metrics.assign(means.begin() + 1, means.end());
  }

  void reset_sums() { now_.sums = {std::vector<double>(1 + options_.metrics.size(), 0), 0}; }

  // ---- ways to keep to the budget

  bool accepts(const char* what) const {
    return std::find(options_.accept.begin(), options_.accept.end(), what) != options_.accept.end();
  }

  /// For all sizes of batches, before the first: chosen, or those of a checkpoint.
  void settle_ways(const io::Checkpoints::Found* from) {
    settle_ways(Trainer::Part::Step, "plan.train", data_, from);
    if (options_.validation)
      settle_ways(Trainer::Part::Evaluation, "plan.evaluate", *options_.validation, from);
  }

  void settle_ways(Trainer::Part part, const char* name, const data::Loader& loader,
                   const io::Checkpoints::Found* from) {
    for (std::int64_t rows : batch_sizes(loader)) {
      const std::string key = fmt::format("{}.{}", name, rows);
      Function::Way way;
      if (from && !accepts("plan") && from->state.metadata.count(key) != 0) {
        way = way_in(from->state, from->path, key);
        try {
          trainer_.set_way(part, rows, way);
        } catch (const Error& e) {
          if (e.fault() != Fault::Memory && e.fault() != Fault::Value) throw;
          fail_at(e.origin(), e.fault(),
                  fmt::format("{}: batches of {} rows ran in {} there{}, which cannot be kept "
                              "up: {}",
                              from->path, rows,
                              way.slices == 1 ? "one" : fmt::format("{} slices", way.slices),
                              way.rounded ? ", with activations in bfloat16" : "", e.message()),
                  fmt::format("give the memory and the options it had; or plan anew, after "
                              "which sums over batches may round differently ({}){}{}",
                              accepting("plan"), e.hint().empty() ? "" : "\n", e.hint()));
        }
      } else {
        way = trainer_.way(part, rows);
        trainer_.set_way(part, rows, way);
      }
      ways_[key] = text_of(way);
    }
  }

  // ---- which epoch is best

  void find_monitor() {
    std::string name = options_.monitor;
    if (name.empty()) name = history_.validated ? "validation_loss" : "loss";
    monitor_ = find_watched(name, history_.metrics, history_.validated);
    small_ = monitor_.index == 0;
    for (std::string_view ending : {"entropy", "mse", "mae", "huber", "hinge", "error", "loss"})
      small_ |= name.ends_with(ending);
  }

  bool better(double a, double b) const { return small_ ? a < b : a > b; }

  bool stopped() {
    if (options_.patience > 0 && now_.epoch - now_.best_epoch >= options_.patience &&
        now_.epoch > 0)
      history_.stopped_early = true;
    return ended_ || history_.stopped_early;
  }

  void remember_best() {
    io::TensorFile file;
    trainer_.save_model(file);
    for (io::NamedArray& t : file.tensors) t.array = t.array.contiguous_copy();
    best_ = std::move(file);
  }

  // ---- checkpoints

  void checkpoint(bool best) {
    if (checkpoints_) checkpoints_->save(now_.step, state(), best);
  }

  io::TensorFile state() const {
    io::TensorFile file;
    trainer_.save(file);
    const auto columns = static_cast<std::int64_t>(now_.sums.values.size());
    std::vector<double> sums = now_.sums.values, past;
    sums.push_back(now_.sums.weight);
    sums.push_back(now_.best);
    for (const Epoch& e : history_.epochs) {
      past.push_back(static_cast<double>(e.step));
      past.push_back(e.best);
      past.push_back(e.loss);
      past.insert(past.end(), e.metrics.begin(), e.metrics.end());
      past.push_back(e.validation_loss);
      past.insert(past.end(), e.validation_metrics.begin(), e.validation_metrics.end());
      past.resize(past.size() + (history_.validated ? 0 : e.metrics.size()));
    }
    file.tensors.push_back({"progress/sums", doubles(sums, 1, columns + 2)});
    file.tensors.push_back(
        {"progress/history",
         doubles(past, static_cast<std::int64_t>(history_.epochs.size()), 2 + 2 * columns)});
    file.metadata.insert(trainer_.identity().begin(), trainer_.identity().end());
    file.metadata.insert(ways_.begin(), ways_.end());
    for (const auto& [key, print] : prints_) file.metadata[key] = print.text();
    file.metadata["epoch"] = fmt::format("{}", now_.epoch);
    file.metadata["trained"] = now_.trained ? "1" : "0";
    file.metadata["best_epoch"] = fmt::format("{}", now_.best_epoch);
    for (const StateNumber& n : kPosition)
      file.metadata[n.name] = fmt::format("{}", position_.*n.member);
    file.metadata["data.seed"] = fmt::format("{}", static_cast<std::int64_t>(position_.seed));
    file.metadata["data.shuffle"] = position_.shuffle ? "1" : "0";
    return file;
  }

  void resume() {
    auto found = checkpoints_->load_newest(&history_.skipped);
    for (const std::string& text : history_.skipped) view_.say("skipped " + text);
    if (!found) return;
    const io::TensorFile& file = found->state;
    const auto number = [&](const char* name) { return number_in(file, found->path, name); };
    Standing then;
    then.epoch = number("epoch");
    then.step = number("step");
    then.trained = number("trained") != 0;
    then.best_epoch = number("best_epoch");
    data::LoaderState position;
    for (const StateNumber& n : kPosition) position.*n.member = number(n.name);
    position.seed = static_cast<std::uint64_t>(number("data.seed"));
    position.shuffle = number("data.shuffle") != 0;
    require_same_training(file.metadata, trainer_.identity(), found->path);
    require_same_order(position, data_.state(), found->path);
    if (!accepts("data"))
      for (const auto& [key, print] : prints_)
        require_same_data(file, key.c_str(), key == kData ? "training" : "validation", print,
                          found->path);
    const auto columns = static_cast<std::int64_t>(now_.sums.values.size());
    const Array sums = table(file, found->path, "progress/sums", 1, columns + 2);
    for (std::int64_t i = 0; i < columns; ++i) then.sums.values.push_back(sums.at_double(i));
    then.sums.weight = sums.at_double(columns);
    then.best = sums.at_double(columns + 1);
    const Array past = table(file, found->path, "progress/history", then.epoch, 2 + 2 * columns);
    settle_ways(&*found);
    trainer_.restore(file, found->path);
    data_.seek(position);
    now_ = then;
    for (std::int64_t k = 0; k < then.epoch; ++k)
      history_.epochs.push_back(epoch_of(past, k, columns));
    history_.resumed_from = found->path;
    view_.say(
        fmt::format("resumed from {}: {} epochs, {} steps", found->path, now_.epoch, now_.step));
  }

  static Array table(const io::TensorFile& file, const std::string& path, const char* name,
                     std::int64_t rows, std::int64_t columns) {
    const Array* a = file.find(name);
    if (!a || a->dtype != DType::F64 || !(a->shape == Dims{rows, columns}))
      fail(Fault::Value, fmt::format("{}: \"{}\" does not fit", path, name),
           "it is of a training with other metrics");
    return *a;
  }

  Epoch epoch_of(const Array& past, std::int64_t k, std::int64_t columns) const {
    std::int64_t at = k * (2 + 2 * columns);
    const auto next = [&] { return past.at_double(at++); };
    Epoch e;
    e.number = k + 1;
    e.step = static_cast<std::int64_t>(next());
    e.best = next() != 0;
    e.loss = next();
    for (std::int64_t i = 1; i < columns; ++i) e.metrics.push_back(next());
    e.validation_loss = next();
    if (history_.validated)
      for (std::int64_t i = 1; i < columns; ++i) e.validation_metrics.push_back(next());
    return e;
  }

  void finish() {
    history_.best_epoch = now_.best_epoch;
    if (history_.interrupted) return;
    if (options_.restore_best && now_.best_epoch > 0) {
      if (best_)
        trainer_.restore_model(*best_, "the best epoch");
      else if (checkpoints_)
        trainer_.restore_model(io::load_hashed(checkpoints_->best_path()),
                               checkpoints_->best_path());
    }
    trainer_.take_averages();
    if (!checkpoints_) return;
    io::TensorFile model{{}, options_.metadata};
    trainer_.save_parameters(model);
    io::save(options_.folder + "/model.safetensors", model);
  }

  Trainer& trainer_;
  data::Loader& data_;
  const FitOptions& options_;
  ProgressView view_;
  std::optional<io::Checkpoints> checkpoints_;
  History history_;
  Standing now_;
  data::LoaderState position_;                       // of the next batch that was not trained on
  std::map<std::string, data::Fingerprint> prints_;  // with a folder
  std::map<std::string, std::string> ways_;          // of batches, by their rows
  std::int64_t planned_ = 0;
  Clock::time_point start_;
  double rows_here_ = 0;
  bool ended_ = false;
  Watched monitor_;
  bool small_ = true;                   // the best value is the smallest
  std::optional<io::TensorFile> best_;  // without a folder
};

}  // namespace

History fit(Trainer& trainer, data::Loader& data, const FitOptions& options) {
  return Loop(trainer, data, options).run();
}

History fit(Layer& model, data::Loader& data, const FitOptions& options, Here where) {
  const FallbackOrigin origin(where);
  Trainer trainer(model, data.fields(), options);
  try {
    return fit(trainer, data, options);
  } catch (const StepRefusal& e) {
    trainer.refuse(e);
  }
}

MemoryReport plan(Layer& model, data::Loader& data, const FitOptions& options, Here where) {
  return plan(model, data.fields(), data.state().batch_rows, options, where);
}

MemoryReport plan(Layer& model, const std::vector<data::Field>& fields, std::int64_t rows,
                  const FitOptions& options, Here where) {
  const FallbackOrigin origin(where);
  const Trainer trainer(model, fields, options);
  try {
    return trainer.plan(rows);
  } catch (const StepRefusal& e) {
    trainer.refuse(e);
  }
}

std::map<std::string, double> evaluate(Layer& model, data::Loader& data, const FitOptions& options,
                                       Here where) {
  const FallbackOrigin origin(where);
  return evaluate(evaluation_of(model, data.fields(), options), data, options);
}

std::map<std::string, double> evaluate(const Function& evaluation, data::Loader& data,
                                       const FitOptions& options) {
  const data::LoaderState before = data.state();
  const std::vector<double> means = means_over(data, 0, "evaluated", [&](const data::Batch& batch) {
    return run(evaluation, batch, 1 + options.metrics.size());
  });
  data.seek(before);
  std::map<std::string, double> named{{"loss", means[0]}};
  for (std::size_t i = 0; i < options.metrics.size(); ++i)
    named.emplace(options.metrics[i].name, means[i + 1]);
  return named;
}

std::string Epoch::describe() const {
  const auto numbers = [](double loss, const std::vector<double>& others) {
    std::string text = fmt::format("loss {:.4f}", loss);
    for (double value : others) text += fmt::format(" {:.4f}", value);
    return text;
  };
  std::string text = fmt::format("<epoch {}: {}", number, numbers(loss, metrics));
  if (validation_loss != 0 || !validation_metrics.empty())
    text += ", validation_" + numbers(validation_loss, validation_metrics);
  return text + fmt::format(", {} steps{}>", step, best ? ", best" : "");
}

std::string History::describe() const {
  std::vector<std::string> names;
  for (bool validation : {false, true})
    for (std::size_t i = 0; i <= metrics.size() && (validated || !validation); ++i)
      names.push_back((validation ? "validation_" : "") + (i == 0 ? "loss" : metrics[i - 1]));
  std::string text = "epoch";
  for (const std::string& name : names) text += fmt::format("  {:>8}", name);
  // Of many epochs the first and the last ones.
  constexpr std::size_t kEnd = 5;
  for (std::size_t k = 0; k < epochs.size(); ++k) {
    if (epochs.size() > 2 * kEnd + 1 && k == kEnd) {
      text += "\n  ...";
      k = epochs.size() - kEnd;
    }
    text += fmt::format("\n{:>5}", epochs[k].number);
    for (const std::string& name : names)
      text += fmt::format("  {:>{}.4f}", find_watched(name, metrics, validated).of(epochs[k]),
                          std::max<std::size_t>(name.size(), 8));
    if (epochs[k].number == best_epoch) text += "  best";
  }
  std::string end;
  if (stopped_early) end += ", stopped early";
  if (interrupted) end += ", interrupted";
  if (!resumed_from.empty()) end += ", resumed from " + resumed_from;
  return text + fmt::format("\n{} epochs{}", epochs.size(), end);
}

std::vector<double> History::values(const std::string& name) const {
  const Watched watched = find_watched(name, metrics, validated);
  std::vector<double> out;
  for (const Epoch& e : epochs) out.push_back(watched.of(e));
  return out;
}

}  // namespace snug::nn
