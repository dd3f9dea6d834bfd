#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "nn/losses.h"
#include "nn/prune.h"
#include "ops/arguments.h"
#include "ops/index_functions.h"
#include "train/joined_batches.h"

namespace snug::nn {
namespace {

struct Known {
  const char* name;
  Expr (*of)(const Expr& predictions, const Expr& targets, const std::string& reduction);
};
/// Classes of the pixels of images are channels, others are on the last axis.
std::int64_t class_axis(const Expr& predictions) { return predictions.ndim() > 3 ? 1 : -1; }

using Reduction = const std::string&;

constexpr Known kObjectives[] = {
    {"cross_entropy", [](const Expr& p, const Expr& y,
                         Reduction r) { return cross_entropy(p, y, r, class_axis(p)); }},
    {"binary_cross_entropy",
     [](const Expr& p, const Expr& y, Reduction r) { return binary_cross_entropy(p, y, r); }},
    {"mse", [](const Expr& p, const Expr& y, Reduction r) { return mse(p, y, r); }},
    {"mae", [](const Expr& p, const Expr& y, Reduction r) { return mae(p, y, r); }},
    {"huber", [](const Expr& p, const Expr& y, Reduction r) { return huber(p, y, 1, r); }},
    {"hinge", [](const Expr& p, const Expr& y, Reduction r) { return hinge(p, y, r); }},
    {"accuracy",
     [](const Expr& p, const Expr& y, Reduction r) { return accuracy(p, y, class_axis(p), r); }},
    {"top_k_accuracy", [](const Expr& p, const Expr& y,
                          Reduction r) { return top_k_accuracy(p, y, 5, class_axis(p), r); }},
    {"mean_error",
     [](const Expr& p, const Expr& y, Reduction r) { return mean_error(p, y, class_axis(p), r); }},
};

Expr input_of(const data::Field& field, const char* name) {
  Dims sizes = field.shape;
  sizes.insert(0, -1);
  return input({field.dtype, sizes, 0}, name);
}

/// The arguments of a step: of the batch.
struct Inputs {
  Expr x, y, weights;  // without weights: null
  std::vector<Expr> all() const { return weights ? std::vector{x, y, weights} : std::vector{x, y}; }
};

Inputs inputs_of(const std::vector<data::Field>& fields) {
  if (fields.size() < 2 || fields.size() > 3) {
    std::vector<std::string> names;
    for (const data::Field& field : fields) names.push_back(field.name);
    fail(Fault::Value,
         fmt::format("fit: the data have {} fields ({})", fields.size(), fmt::join(names, ", ")),
         "a row has an input, a target and, if its rows weigh differently, a weight");
  }
  Inputs in{input_of(fields[0], "x"), input_of(fields[1], "y"), {}};
  if (fields.size() == 3) in.weights = input_of(fields[2], "weights");
  return in;
}

/// What the class of each target weighs.
Expr weights_of_classes(const Expr& p, const Expr& y, const FitOptions& options) {
  const std::vector<double>& given = options.class_weight;
  const Expr table = constant(Array::from(std::vector<float>(given.begin(), given.end()),
                                          {static_cast<std::int64_t>(given.size())}));
  for (double w : given)
    if (!(w >= 0 && std::isfinite(w)))
      fail(Fault::Value, fmt::format("fit: class_weight has {}", w),
           "weights are finite and not negative");
  if (options.loss.name == "binary_cross_entropy") {
    if (given.size() != 2)
      fail(Fault::Value,
           fmt::format("fit: class_weight has {} weights for 2 classes", given.size()),
           "give those of 0 and 1");
    const Expr one = typed_number(given[1] - given[0], DType::F32);
    return typed_number(given[0], DType::F32) + cast(y, DType::F32) * one;
  }
  const std::int64_t axis = normal_axis("class_weight", class_axis(p), std::max(1, p.ndim()));
  const bool numbers = is_int(y.dtype()) && y.ndim() == p.ndim() - 1;
  if (p.ndim() < 2 || (!numbers && (options.loss.name != "cross_entropy" || y.ndim() != p.ndim())))
    fail(Fault::Type,
         fmt::format("fit: class_weight is for targets that are classes; these are {}",
                     describe(y.type())),
         "give a third field with the weights of rows");
  const std::int64_t classes = p.type().shape[static_cast<std::size_t>(axis)];
  if (classes >= 0 && classes != static_cast<std::int64_t>(given.size()))
    fail(Fault::Value,
         fmt::format("fit: class_weight has {} weights for {} classes", given.size(), classes),
         "give one for each class");
  if (numbers) return take(table, y, {}, "clip");  // the loss says which label is no class
  return sum(moveaxis(cast(y, DType::F32), {axis}, {-1}) * table, -1);
}

/// The weights of a batch, or null: those of its rows times those of their classes.
Expr weights_of(const Inputs& in, const Expr& predictions, const FitOptions& options) {
  if (options.class_weight.empty()) return in.weights;
  Expr by_class = weights_of_classes(predictions, in.y, options);
  if (!in.weights) return by_class;
  Expr own = cast(in.weights, DType::F32);
  const bool more = own.ndim() < by_class.ndim();
  Expr& fewer = more ? own : by_class;
  const int ndim = (more ? by_class : own).ndim();
  while (fewer.ndim() < ndim) fewer = expand_dims(fewer, fewer.ndim());
  return own * by_class;
}

/// What a step computes of a batch: the loss and the metrics, in float64.
struct Outputs {
  std::vector<Expr> values;  // means over the rows, or with `weight` sums
  Expr weight;               // what the rows weigh together; null: each 1
  std::vector<Expr> all() const {
    std::vector<Expr> out = values;
    if (weight) out.push_back(weight);
    return out;
  }
};

Outputs outputs_of(const Inputs& in, const Expr& predictions, const FitOptions& options) {
  Outputs out;
  const Expr weights = weights_of(in, predictions, options);
  const auto add = [&](const Objective& objective) {
    if (!objective.of) fail(Fault::Type, fmt::format("fit: {} has no function", objective.name));
    const bool by_row = weights && objective.each;
    Expr value = (by_row ? objective.each : objective.of)(predictions, in.y);
    if (!by_row && value.ndim() > std::max(1, weights ? weights.ndim() : 1))
      fail(Fault::Type, fmt::format("fit: {} gives {}", objective.name, describe(value.type())),
           "a loss or metric is one number per batch, or one per row: take the mean of others");
    if (weights) {
      const WeightedSum sums = weighted_sum(objective.name.c_str(), value, weights);
      value = sums.sum;
      if (!out.weight) out.weight = sums.weight;
    } else if (value.ndim() > 0) {
      value = mean(value);
    }
    out.values.push_back(cast(value, DType::F64));
  };
  add(options.loss);
  for (const Objective& metric : options.metrics) add(metric);
  return out;
}

void check_weights(const data::Batch& batch) {
  const Array& w = batch[2];
  for (std::int64_t i = 0; i < product(w.shape); ++i)
    if (const double value = w.at_double(i); !(value >= 0 && std::isfinite(value)))
      fail(Fault::Value,
           fmt::format("fit: a weight is {} (row {} of batch {} of an epoch)", value,
                       i / (product(w.shape) / w.shape[0]), batch.number),
           "weights are finite and not negative; 0 leaves a row out");
}

constexpr std::string_view kMask = "mask/";

/// The rate and other numbers may change on the way, unless they decide what state there is.
io::Metadata identity_of(Layer& model, const std::vector<data::Field>& fields,
                         const FitOptions& options) {
  const optim::Options& o = options.optim;
  std::vector<std::string> inputs, trained;
  for (const data::Field& field : fields)
    inputs.push_back(fmt::format("{} {}", name_of(field.dtype), describe_shape(field.shape)));
  for (const Parameter& p : model.parameters())
    if (p.trainable) trained.push_back(p.name);
  const std::string class_weight = options.class_weight.empty()
                                       ? "none"
                                       : fmt::format("{}", fmt::join(options.class_weight, ", "));
  io::Metadata all{{"fit.fields", fmt::format("{}", fmt::join(inputs, "; "))},
                   {"fit.loss", options.loss.name},
                   {"fit.optimizer", options.optimizer},
                   {"fit.accumulate", o.accumulate > 1 ? "on" : "off"},
                   {"fit.average", o.average > 0 ? "on" : "off"},
                   {"fit.class_weight", class_weight},
                   {"fit.trained", fmt::format("{}", fmt::join(trained, " "))}};
  if (options.optimizer == "rmsprop") {
    all["fit.centered"] = o.centered ? "on" : "off";
    all["fit.momentum"] = o.momentum.value_or(0) > 0 ? "on" : "off";
  }
  return all;
}

/// The updates with pruned elements kept at 0, in averages of the parameters, too.
Updates masked_updates(const optim::Updates& updates, Layer& model) {
  Updates pairs = masked(updates.pairs, model);
  std::size_t i = 0;  // of the trainable ones, which the averages follow
  for (const Parameter& p : model.parameters()) {
    if (!p.trainable) continue;
    const std::size_t average = i++;
    if (!p.mask || average >= updates.averages.size()) continue;
    for (auto& [target, value] : pairs)
      if (same(target, updates.averages[average]))
        value = switch_(p.mask, value, typed_number(0, value.dtype()));
  }
  return pairs;
}

/// A training step, in expressions.
struct Step {
  Inputs in;
  Outputs outputs;
  optim::Updates updates;
  Expr rate;  // a shared variable, if it is one
};

Step step_of(Layer& model, const std::vector<data::Field>& fields, const FitOptions& options) {
  Step s;
  s.in = inputs_of(fields);
  Pass pass{.training = true};
  s.outputs = outputs_of(s.in, model(s.in.x, pass), options);
  if (model.trainable().empty())
    fail(Fault::Value, "fit: no parameter of the model is trained",
         model.parameters().empty() ? "it has none" : "its layers are frozen: unfreeze some");

  optim::Options optim = options.optim;
  if (!optim.rate.schedule) {  // a variable: it can change without new code
    const Array* number = optim.rate.value ? constant_value(optim.rate.value) : nullptr;
    if (number || !optim.rate.value)
      optim.rate = shared(
          Array::scalar(number ? number->at_double(0) : optim::default_rate(options.optimizer)),
          "rate");
    if (as_shared(optim.rate.value)) s.rate = optim.rate.value;
  }
  // Batches that are joined count by their weight, be it the number of their rows.
  optim::Cost cost = s.outputs.values[0];
  if (s.outputs.weight) {
    cost = {s.outputs.values[0], s.outputs.weight};
  } else if (optim.accumulate > 1) {
    const Expr rows = cast(shape_i(s.in.x, 0), DType::F64);
    cost = {s.outputs.values[0] * rows, rows};
  }
  s.updates = optim::updates_by(options.optimizer, cost, model.trainable(), optim);
  return s;
}

Function compiled(const Step& step, Layer& model, const FitOptions& options,
                  bool plan_only = false) {
  return function(step.in.all(), step.outputs.all(),
                  {.updates = masked_updates(step.updates, model),
                   .name = "train",
                   .memory = options.memory,
                   .device = options.device,
                   .micro_batches = options.micro_batches,
                   .recompute = options.recompute,
                   .offload = options.offload,
                   .activations = options.activations,
                   .plan_only = plan_only,
                   .precision = options.precision,
                   .threads = options.threads});
}

}  // namespace

Objective::Objective(const std::string& given) : name(given) {
  for (const Known& known : kObjectives)
    if (name == known.name) {
      of = [&known](const Expr& p, const Expr& y) { return known.of(p, y, "mean"); };
      each = [&known](const Expr& p, const Expr& y) { return known.of(p, y, "none"); };
    }
  if (of) return;
  std::string near = nearest(name, objective_names());
  fail(Fault::Value, fmt::format("fit: there is no loss or metric \"{}\"", name),
       near.empty() ? fmt::format("there are {}", fmt::join(objective_names(), ", "))
                    : fmt::format("did you mean \"{}\"?", near));
}

std::vector<std::string> objective_names() {
  std::vector<std::string> names;
  for (const Known& known : kObjectives) names.emplace_back(known.name);
  return names;
}

std::vector<NamedValue> values_of(Layer& model) {
  std::vector<NamedValue> out;
  for (const Parameter& p : model.parameters()) out.push_back({p.name, as_shared(p.variable)});
  return out;
}

std::vector<NamedValue> masks_of(Layer& model) {
  std::vector<NamedValue> out;
  for (const Parameter& p : model.parameters())
    if (p.mask) out.push_back({fmt::format("{}{}", kMask, p.name), as_shared(p.mask)});
  return out;
}

bool is_training_state(const std::string& name) {
  for (std::string_view start : {kMask, std::string_view("optimizer/"), std::string_view("random/"),
                                 std::string_view("progress/")})
    if (name.starts_with(start)) return true;
  return false;
}

void put_values(std::span<const NamedValue> values, io::TensorFile& file) {
  for (const NamedValue& v : values) file.tensors.push_back({v.name, v.shared->get_value(true)});
}

void take_values(std::span<const NamedValue> values, const io::TensorFile& file,
                 const std::string& path) {
  std::vector<const Array*> found;
  for (const NamedValue& v : values) {
    const Array* a = file.find(v.name);
    const DType dtype = v.shared->type.dtype;
    const Dims shape = v.shared->shape();
    if (!a || a->dtype != dtype || !(a->shape == shape))
      fail(Fault::Value,
           fmt::format(
               "{}: \"{}\" is {}, not {} {}", path, v.name,
               a ? fmt::format("{} {}", name_of(a->dtype), describe_shape(a->shape)) : "not there",
               name_of(dtype), describe_shape(shape)),
           v.name.starts_with(kMask) ? "it is of a model that was not pruned"
                                     : "it is of another model or optimizer");
    found.push_back(a);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i].shared->set_value(found[i]->contiguous_copy());
}

Function evaluation_of(Layer& model, const std::vector<data::Field>& fields,
                       const FitOptions& options, const Updates& givens) {
  const Inputs in = inputs_of(fields);
  return function(in.all(), outputs_of(in, model(in.x), options).all(),
                  {.givens = givens,
                   .name = "evaluate",
                   .memory = options.memory,
                   .device = options.device,
                   .precision = options.precision,
                   .threads = options.threads});
}

void BatchSums::add(const BatchSums& other) {
  values.resize(other.values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  weight += other.weight;
}

std::vector<double> BatchSums::means() const {
  std::vector<double> out = values;
  for (double& v : out) v /= weight;
  return out;
}

BatchSums run(const Function& function, const data::Batch& batch, std::size_t values) {
  if (batch.arrays.size() > 2) check_weights(batch);
  BatchSums sums;
  for (const Array& a : function.call(batch.arrays)) sums.values.push_back(a.item<double>());
  if (sums.values.size() > values) {
    sums.weight = sums.values.back();
    sums.values.pop_back();
    return sums;
  }
  sums.weight = static_cast<double>(batch[0].shape[0]);
  for (double& mean : sums.values) mean *= sums.weight;
  return sums;
}

Trainer::Trainer(Layer& model, const std::vector<data::Field>& fields, const FitOptions& options)
    : model_(model), options_(options), metrics_(options.metrics.size()), fields_(fields) {
  options_.on_epoch = nullptr;
  options_.validation = nullptr;
  const Step step = step_of(model, fields, options);
  const Outputs& outputs = step.outputs;
  const optim::Updates& updates = step.updates;
  identity_ = identity_of(model, fields, options);
  rate_ = step.rate;
  step_ = compiled(step, model, options);
  const std::vector<Expr> trainable = model.trainable();
  Updates averaged;
  for (std::size_t i = 0; i < updates.averages.size(); ++i)
    averaged.emplace_back(trainable[i], updates.averages[i]);
  evaluated_fields_ = options.validation ? options.validation->fields() : fields;
  evaluate_ = evaluation_of(model, evaluated_fields_, options, averaged);

  const std::vector<Parameter> parameters = model.parameters();
  for (const Parameter& p : parameters) add(p.name, p.variable);
  parameters_ = values_.size();
  for (const Parameter& p : parameters)
    if (p.mask) add(fmt::format("{}{}", kMask, p.name), p.mask);
  with_masks_ = values_.size();
  const auto add_state = [&](const Expr& state) { add("optimizer/" + state.name(), state); };
  for (const auto& [parameter, average] : averaged) {
    add_state(average);
    averages_.emplace_back(as_shared(average), as_shared(parameter));
  }
  model_values_ = values_.size();
  for (const Expr& state : updates.states)
    if (std::none_of(updates.averages.begin(), updates.averages.end(),
                     [&](const Expr& average) { return same(average, state); }))
      add_state(state);
  for (const Expr& e : topological(outputs.all()))
    if (SharedVariable* s = as_shared(e); s && s->find_default_update()) {
      const bool known = std::any_of(values_.begin(), values_.end(),
                                     [&](const NamedValue& v) { return v.shared->id == s->id; });
      if (known) continue;
      add(fmt::format("random/{}", starts_.size()), e);
      starts_.push_back(s->get_value());
    }
}

void Trainer::add(std::string name, const Expr& variable) {
  values_.push_back({std::move(name), as_shared(variable)});
  variables_.push_back(variable);
}

BatchSums Trainer::step(const data::Batch& batch) const try {
  return run(step_, batch, 1 + metrics_);
} catch (const MemoryError& e) {
  throw StepRefusal(e, batch[0].shape[0]);
}

BatchSums Trainer::evaluate(const data::Batch& batch) const {
  return run(evaluate_, batch, 1 + metrics_);
}

void Trainer::save(io::TensorFile& file) const { put_values(values_, file); }
void Trainer::save_model(io::TensorFile& file) const { put_values(first(model_values_), file); }
void Trainer::save_parameters(io::TensorFile& file) const { put_values(first(parameters_), file); }

void Trainer::restore(const io::TensorFile& file, const std::string& path) const {
  for (const io::NamedArray& t : file.tensors)
    if (t.name.starts_with(kMask) && parameters_ == with_masks_)
      fail(Fault::Value, fmt::format("{}: is of a pruned model, and this one is not", path),
           "call prune(model, 0) before the training: the masks come from the checkpoint");
  take_values(values_, file, path);
}

void Trainer::restore_model(const io::TensorFile& file, const std::string& path) const {
  take_values(first(model_values_), file, path);
}

void Trainer::take_averages() const {
  for (const auto& [average, parameter] : averages_) parameter->set_value(average->get_value());
}

void Trainer::check_masks() const {
  std::size_t masks = 0;
  model_.visit([&](const std::string&, Layer& layer) {
    for (const Parameter& p : layer.own()) masks += static_cast<bool>(p.mask);
  });
  if (masks > with_masks_ - parameters_)
    fail(Fault::Value, "fit: the model was pruned for the first time during its training",
         "call prune(model, 0) before it: the step is compiled with masks then");
}

void Trainer::restart(Layer& fresh) const {
  io::TensorFile file;
  put_values(values_of(fresh), file);
  put_values(masks_of(fresh), file);
  take_values(first(with_masks_), file, "the new model");
  const std::size_t random = values_.size() - starts_.size();
  for (std::size_t i = model_values_; i < values_.size(); ++i) {
    SharedVariable& s = *values_[i].shared;
    s.set_value(i < random ? Array::zeros(s.type.dtype, s.shape())
                           : starts_[i - random].contiguous_copy());
  }
  for (const auto& [average, parameter] : averages_) average->set_value(parameter->get_value());
}

void Trainer::set_rate(double rate) const {
  if (!rate_) fail(Fault::Value, "fit: the rate is a schedule, which has no one value to set");
  as_shared(rate_)->set_value(Array::scalar(rate).to(rate_.dtype()));
}

std::vector<Dims> Trainer::shapes_of(Part part, std::int64_t rows) const {
  std::vector<Dims> shapes;
  for (const data::Field& field : part == Part::Step ? fields_ : evaluated_fields_) {
    shapes.push_back(field.shape);
    shapes.back().insert(0, rows);
  }
  return shapes;
}

MemoryReport Trainer::plan(std::int64_t rows) const {
  if (rows < 1) fail(Fault::Value, fmt::format("plan: a batch has {} rows", rows));
  try {
    return step_.memory(shapes_of(Part::Step, rows));
  } catch (const MemoryError& e) {
    throw StepRefusal(e, rows);
  }
}

void Trainer::refuse(const StepRefusal& e) const {
  if (e.need().not_in_slices.empty() || options_.optim.accumulate > 1) e.raise();
  FitOptions options = options_;
  options.optim.accumulate = 2;  // more of them take no more memory
  options.memory.clear();
  options.micro_batches = 1;
  options.offload.clear();
  const std::optional<Remedy> joined = joined_batches(
      compiled(step_of(model_, fields_, options), model_, options, true),
      [&](std::int64_t n) { return shapes_of(Part::Step, n); }, e.rows, e.need().remedies_within,
      e.need().device);
  if (!joined) e.raise();
  MemoryNeed need = e.need();
  need.remedies.push_back(*joined);
  std::string row = describe(std::span(&*joined, 1), false);
  row.pop_back();  // the end of the line
  throw MemoryError(fmt::format("{}\n{}", e.message(), row), e.hint(), std::move(need), e.origin());
}

Function::Way Trainer::way(Part part, std::int64_t rows) const try {
  return function_of(part).way(shapes_of(part, rows));
} catch (const MemoryError& e) {
  if (part == Part::Step) throw StepRefusal(e, rows);
  throw;
}

void Trainer::set_way(Part part, std::int64_t rows, const Function::Way& way) const {
  function_of(part).set_way(shapes_of(part, rows), way);
}

}  // namespace snug::nn
