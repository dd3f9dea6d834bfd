#include "train/trainer.h"

#include <algorithm>

#include "nn/losses.h"
#include "nn/prune.h"
#include "ops/arguments.h"

namespace snug::nn {
namespace {

struct Known {
  const char* name;
  Expr (*of)(const Expr& predictions, const Expr& targets);
};
/// Classes of the pixels of images are channels, others are on the last axis.
std::int64_t class_axis(const Expr& predictions) { return predictions.ndim() > 3 ? 1 : -1; }

constexpr Known kObjectives[] = {
    {"cross_entropy",
     [](const Expr& p, const Expr& y) { return cross_entropy(p, y, "mean", class_axis(p)); }},
    {"binary_cross_entropy",
     [](const Expr& p, const Expr& y) { return binary_cross_entropy(p, y); }},
    {"mse", [](const Expr& p, const Expr& y) { return mse(p, y); }},
    {"mae", [](const Expr& p, const Expr& y) { return mae(p, y); }},
    {"huber", [](const Expr& p, const Expr& y) { return huber(p, y); }},
    {"hinge", [](const Expr& p, const Expr& y) { return hinge(p, y); }},
    {"accuracy", [](const Expr& p, const Expr& y) { return accuracy(p, y, class_axis(p)); }},
    {"top_k_accuracy",
     [](const Expr& p, const Expr& y) { return top_k_accuracy(p, y, 5, class_axis(p)); }},
    {"mean_error", [](const Expr& p, const Expr& y) { return mean_error(p, y, class_axis(p)); }},
};

Expr input_of(const data::Field& field, const char* name) {
  Dims sizes = field.shape;
  sizes.insert(0, -1);
  return input({field.dtype, sizes, 0}, name);
}

/// The loss and the metrics, in float64.
std::vector<Expr> outputs_of(const Expr& predictions, const Expr& targets,
                             const FitOptions& options) {
  std::vector<Expr> out;
  const auto add = [&](const Objective& objective) {
    Expr value = objective.of(predictions, targets);
    if (value.ndim() != 0)
      fail(Fault::Type, fmt::format("fit: {} gives {}", objective.name, describe(value.type())),
           "a loss or metric is one number per batch: take the mean");
    out.push_back(cast(value, DType::F64));
  };
  add(options.loss);
  for (const Objective& metric : options.metrics) add(metric);
  return out;
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
  io::Metadata all{{"fit.fields", fmt::format("{}", fmt::join(inputs, "; "))},
                   {"fit.loss", options.loss.name},
                   {"fit.optimizer", options.optimizer},
                   {"fit.accumulate", o.accumulate > 1 ? "on" : "off"},
                   {"fit.average", o.average > 0 ? "on" : "off"},
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

/// The input and the target.
std::pair<Expr, Expr> inputs_of(const std::vector<data::Field>& fields) {
  if (fields.size() < 2)
    fail(Fault::Value, fmt::format("fit: the data have {} fields", fields.size()),
         "a row has an input and a target");
  return {input_of(fields[0], "x"), input_of(fields[1], "y")};
}

}  // namespace

Objective::Objective(const std::string& given) : name(given) {
  for (const Known& known : kObjectives)
    if (name == known.name) of = known.of;
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
  const auto [x, y] = inputs_of(fields);
  return function({x, y}, outputs_of(model(x), y, options),
                  {.givens = givens,
                   .name = "evaluate",
                   .memory = options.memory,
                   .precision = options.precision,
                   .threads = options.threads});
}

std::vector<double> run(const Function& function, const data::Batch& batch) {
  std::vector<double> values;
  for (const Array& a : function.call({batch[0], batch[1]})) values.push_back(a.item<double>());
  return values;
}

Trainer::Trainer(Layer& model, const std::vector<data::Field>& fields, const FitOptions& options)
    : model_(model), metrics_(options.metrics.size()) {
  const auto [x, y] = inputs_of(fields);
  row_ = fields[0].shape;
  target_row_ = fields[1].shape;
  Pass pass{.training = true};
  const Expr predictions = model(x, pass);
  std::vector<Expr> outputs = outputs_of(predictions, y, options);

  if (model.trainable().empty())
    fail(Fault::Value, "fit: no parameter of the model is trained",
         model.parameters().empty() ? "it has none" : "its layers are frozen: unfreeze some");
  identity_ = identity_of(model, fields, options);

  optim::Options optim = options.optim;
  if (!optim.rate.schedule) {  // a variable: it can change without new code
    const Array* number = optim.rate.value ? constant_value(optim.rate.value) : nullptr;
    if (number || !optim.rate.value)
      optim.rate = shared(
          Array::scalar(number ? number->at_double(0) : optim::default_rate(options.optimizer)),
          "rate");
    if (as_shared(optim.rate.value)) rate_ = optim.rate.value;
  }
  const optim::Updates updates =
      optim::updates_by(options.optimizer, outputs[0], model.trainable(), optim);

  step_ = function({x, y}, outputs,
                   {.updates = masked_updates(updates, model),
                    .name = "train",
                    .memory = options.memory,
                    .micro_batches = options.micro_batches,
                    .recompute = options.recompute,
                    .offload = options.offload,
                    .activations = options.activations,
                    .precision = options.precision,
                    .threads = options.threads});
  const std::vector<Expr> trainable = model.trainable();
  Updates averaged;
  for (std::size_t i = 0; i < updates.averages.size(); ++i)
    averaged.emplace_back(trainable[i], updates.averages[i]);
  evaluate_ = evaluation_of(model, fields, options, averaged);

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
  for (const Expr& e : topological(outputs))
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

std::vector<double> Trainer::step(const data::Batch& batch) const { return run(step_, batch); }

std::vector<double> Trainer::evaluate(const data::Batch& batch) const {
  return run(evaluate_, batch);
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

MemoryReport Trainer::plan(std::int64_t rows) const {
  Dims x = row_, y = target_row_;
  x.insert(0, rows);
  y.insert(0, rows);
  const Dims shapes[] = {x, y};
  return step_.memory(shapes);
}

}  // namespace snug::nn
