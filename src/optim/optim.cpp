#include "optim/optim.h"

#include <algorithm>
#include <cmath>

#include "autodiff/grad.h"
#include "ops/arguments.h"
#include "ops/functions.h"

namespace snug::optim {
namespace {

/// What a rule works with: one parameter at a time.
struct Step {
  const Options& options;
  Updates& out;
  Expr parameter, gradient;
  std::string name;  // of the parameter
  Expr number;       // of the step, from 1: 0-d float64; null if the rule does not count
  Expr rate64;       // 0-d

  DType dtype() const { return parameter.dtype(); }
  Expr value(double v) const { return typed_number(v, dtype()); }
  Expr rate() const { return cast(rate64, dtype()); }
  Expr state(const char* suffix) const {
    const TensorType& type = parameter.type();
    Recipe zeros{dtype(), as_shared(parameter)->shape()};
    out.states.push_back(shared(zeros, fmt::format("{}.{}", name, suffix), type.broadcast));
    return out.states.back();
  }
  void update(const Expr& variable, const Expr& next) const {
    out.pairs.emplace_back(variable, next);
  }
  /// state = decay * state + (1 - decay) * x
  Expr averaged(const char* suffix, double decay, const Expr& x) const {
    Expr s = state(suffix);
    Expr next = value(decay) * s + value(1 - decay) * x;
    update(s, next);
    return next;
  }
  void move_by(const Expr& delta) const { update(parameter, parameter - delta); }
};

void sgd_step(const Step& s) { s.move_by(s.rate() * s.gradient); }

Expr velocity(const Step& s, const Expr& gradient, double momentum) {
  Expr v = s.state("momentum");
  Expr next = s.value(momentum) * v + gradient;
  s.update(v, next);
  return next;
}

void momentum_step(const Step& s) {
  s.move_by(s.rate() * velocity(s, s.gradient, s.options.momentum.value_or(0.9)));
}

void nesterov_step(const Step& s) {
  const double momentum = s.options.momentum.value_or(0.9);
  Expr v = velocity(s, s.gradient, momentum);
  s.move_by(s.rate() * (s.gradient + s.value(momentum) * v));
}

void adagrad_step(const Step& s) {
  Expr squares = s.state("squares");
  Expr next = squares + sqr(s.gradient);
  s.update(squares, next);
  s.move_by(s.rate() * s.gradient / (sqrt(next) + s.value(s.options.epsilon.value_or(1e-10))));
}

void adadelta_step(const Step& s) {
  const double rho = s.options.rho.value_or(0.9);
  Expr epsilon = s.value(s.options.epsilon.value_or(1e-6));
  Expr squares = s.averaged("squares", rho, sqr(s.gradient));
  Expr deltas = s.state("deltas");
  Expr delta = sqrt(deltas + epsilon) / sqrt(squares + epsilon) * s.gradient;
  s.update(deltas, s.value(rho) * deltas + s.value(1 - rho) * sqr(delta));
  s.move_by(s.rate() * delta);
}

void rmsprop_step(const Step& s) {
  const double rho = s.options.rho.value_or(0.99);
  const double momentum = s.options.momentum.value_or(0);
  Expr squares = s.averaged("squares", rho, sqr(s.gradient));
  if (s.options.centered) squares = squares - sqr(s.averaged("mean", rho, s.gradient));
  Expr delta = s.gradient / (sqrt(squares) + s.value(s.options.epsilon.value_or(1e-8)));
  if (momentum != 0) delta = velocity(s, delta, momentum);
  s.move_by(s.rate() * delta);
}

/// 1 - beta^t, in float64 until it is used.
Expr correction(const Step& s, double beta) {
  return typed_number(1, DType::F64) - pow(typed_number(beta, DType::F64), s.number);
}

void adam_step(const Step& s) {
  const double beta1 = s.options.beta1.value_or(0.9), beta2 = s.options.beta2.value_or(0.999);
  Expr m = s.averaged("mean", beta1, s.gradient);
  Expr v = s.averaged("squares", beta2, sqr(s.gradient));
  Expr size = cast(s.rate64 / correction(s, beta1), s.dtype());
  Expr root = sqrt(v) / cast(sqrt(correction(s, beta2)), s.dtype());
  s.move_by(size * m / (root + s.value(s.options.epsilon.value_or(1e-8))));
}

void adamw_step(const Step& s) {
  adam_step(s);
  const double decay = s.options.weight_decay.value_or(0.01);
  if (decay == 0) return;
  Expr& next = s.out.pairs.back().second;  // of the parameter
  next = next - s.rate() * s.value(decay) * s.parameter;
}

void adamax_step(const Step& s) {
  const double beta1 = s.options.beta1.value_or(0.9), beta2 = s.options.beta2.value_or(0.999);
  Expr m = s.averaged("mean", beta1, s.gradient);
  Expr u = s.state("largest");
  Expr next =
      maximum(s.value(beta2) * u, abs(s.gradient) + s.value(s.options.epsilon.value_or(1e-8)));
  s.update(u, next);
  s.move_by(cast(s.rate64 / correction(s, beta1), s.dtype()) * m / next);
}

struct Rule {
  std::string_view name;
  void (*step)(const Step&);
  double rate;
  bool counts = false;     // uses the number of the step
  bool own_decay = false;  // does the weight decay itself
};
constexpr Rule kRules[] = {
    {"sgd", sgd_step, 0.01},
    {"momentum", momentum_step, 0.01},
    {"nesterov", nesterov_step, 0.01},
    {"adagrad", adagrad_step, 0.01},
    {"adadelta", adadelta_step, 1},
    {"rmsprop", rmsprop_step, 0.01},
    {"adam", adam_step, 0.001, true},
    {"adamw", adamw_step, 0.001, true, true},
    {"adamax", adamax_step, 0.002, true},
};

const Rule& find_rule(std::string_view name) {
  for (const Rule& rule : kRules)
    if (rule.name == name) return rule;
  std::string near = nearest(name, rule_names());
  fail(Fault::Value, fmt::format("optim: there is no rule \"{}\"", name),
       near.empty() ? fmt::format("there are {}", fmt::join(rule_names(), ", "))
                    : fmt::format("did you mean \"{}\"?", near));
}

void check(const Rule& rule, const std::vector<Expr>& parameters, const Options& o) {
  for (const Expr& p : parameters) {
    require_expr(rule.name.data(), p);
    if (!as_shared(p))
      fail(Fault::Type, fmt::format("{}: {} is no shared variable", rule.name, label(p)),
           "parameters live between calls: make them with shared()");
    if (!is_float(p.dtype()))
      fail(Fault::Type, fmt::format("{}: {} is {}, which has no gradient", rule.name, label(p),
                                    name_of(p.dtype())));
  }
  const std::pair<const char*, double> ranges[] = {
      {"momentum", o.momentum.value_or(0)},
      {"rho", o.rho.value_or(0)},
      {"beta1", o.beta1.value_or(0)},
      {"beta2", o.beta2.value_or(0)},
      {"average", o.average},
  };
  for (const auto& [name, value] : ranges)
    if (!(value >= 0 && value < 1))
      fail(Fault::Value, fmt::format("{}: {} is {}", rule.name, name, value),
           "it lies between 0 and 1, 1 excluded");
  for (double value : {o.weight_decay.value_or(0), o.clip_value, o.clip_norm, o.clip_global_norm,
                       o.epsilon.value_or(0)})
    if (!(value >= 0))
      fail(Fault::Value,
           fmt::format("{}: weight_decay, clip_* and epsilon are not negative, got {}", rule.name,
                       value));
  if (o.accumulate < 1)
    fail(Fault::Value, fmt::format("{}: accumulate is {}", rule.name, o.accumulate),
         "the number of calls per step, from 1");
  if (o.rate.value && (o.rate.value.ndim() != 0 || is_complex(o.rate.value.dtype())))
    fail(Fault::Type, fmt::format("{}: the rate is {}", rule.name, describe(o.rate.value.type())),
         "give a number, a 0-d variable or a schedule");
}

std::vector<Expr> gradients_of(const Rule& rule, const Cost& cost,
                               const std::vector<Expr>& parameters) {
  if (!cost.loss && cost.gradients.empty() && !parameters.empty())
    fail(Fault::Type, fmt::format("{}: there is neither a loss nor a gradient", rule.name),
         "the loss is an empty expression: it was never set, or moved from");
  std::vector<Expr> all = cost.gradients;
  if (cost.loss) all = grad(cost.loss, parameters);
  if (all.size() != parameters.size())
    fail(Fault::Value, fmt::format("{}: {} gradients for {} parameters", rule.name, all.size(),
                                   parameters.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = cast(all[i], parameters[i].dtype());
  return all;
}

/// Names differ: parts of models may be put together whose parameters have the same ones.
std::string name_of_parameter(const std::vector<Expr>& parameters, std::size_t i) {
  const std::string name = parameters[i].name();
  if (name.empty()) return fmt::format("parameter_{}", i);
  const auto own = parameters.begin() + static_cast<std::ptrdiff_t>(i);
  const bool taken =
      std::any_of(parameters.begin(), own, [&](const Expr& p) { return p.name() == name; });
  return taken ? fmt::format("{}_{}", name, i) : name;
}

Expr counter(const char* name) { return shared(Recipe{DType::I64, {}}, name); }

/// Gradients of a sum as those of a mean; 0 where there is no weight.
void divide_by_weight(std::vector<Expr>& gradients, const Expr& weight) {
  const Expr none = typed_number(0, DType::F64), one = typed_number(1, DType::F64);
  const Expr some = gt(weight, none);
  const Expr inverse = switch_(some, one / switch_(some, weight, one), none);
  for (Expr& g : gradients) g = g * cast(inverse, g.dtype());
}

/// Sums the gradients of `count` calls. The rule's updates are made at the last of them, where
/// `gradients` are the means, by `weight` if that is given.
class Accumulation {
 public:
  Accumulation(std::vector<Expr>& gradients, const Expr& weight,
               const std::vector<Expr>& parameters, std::int64_t count, Updates& out)
      : out_(out), counter_(counter("accumulated")) {
    Expr next = counter_ + int64_constant(1);
    due_ = ge(next, int64_constant(count));
    pairs_.emplace_back(counter_, switch_(due_, int64_constant(0), next));
    states_.push_back(counter_);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Expr& p = parameters[i];
      Expr sum = shared(Recipe{p.dtype(), as_shared(p)->shape()},
                        name_of_parameter(parameters, i) + ".gradient", p.type().broadcast);
      Expr total = sum + gradients[i];
      pairs_.emplace_back(sum, switch_(due_, zeros_like(total), total));
      states_.push_back(sum);
      gradients[i] = weight ? total : total / typed_number(static_cast<double>(count), p.dtype());
    }
    if (!weight) return;
    Expr sum = shared(Recipe{DType::F64, {}}, "accumulated_weight");
    Expr total = sum + weight;
    pairs_.emplace_back(sum, switch_(due_, typed_number(0, DType::F64), total));
    states_.push_back(sum);
    divide_by_weight(gradients, total);
  }
  /// Lets the updates made so far happen at the last call only.
  void hold_back() {
    for (auto& [variable, next] : out_.pairs) next = switch_(due_, next, variable);
    out_.pairs.insert(out_.pairs.end(), pairs_.begin(), pairs_.end());
    out_.states.insert(out_.states.end(), states_.begin(), states_.end());
  }

 private:
  Updates& out_;
  Expr counter_, due_;
  std::vector<std::pair<Expr, Expr>> pairs_;
  std::vector<Expr> states_;
};

/// A variable that begins as the parameter does, without making its value if it is a recipe.
Expr copy_of(const Expr& p, const std::string& name) {
  SharedVariable& variable = *as_shared(p);
  const Recipe* recipe = variable.recipe();
  if (recipe) return shared(*recipe, name, p.type().broadcast);
  return shared(variable.get_value(), name, p.type().broadcast);
}

void add_averages(const std::vector<Expr>& parameters, double decay, Updates& out) {
  std::vector<std::pair<Expr, Expr>> made;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Expr& p = parameters[i];
    Expr next = p;
    for (const auto& [variable, value] : out.pairs)
      if (same(variable, p)) next = value;
    Expr average = copy_of(p, name_of_parameter(parameters, i) + ".average");
    made.emplace_back(average, typed_number(decay, p.dtype()) * average +
                                   typed_number(1 - decay, p.dtype()) * next);
    out.states.push_back(average);
    out.averages.push_back(average);
  }
  out.pairs.insert(out.pairs.end(), made.begin(), made.end());
}

std::vector<Expr> clipped(std::vector<Expr> gradients, const Options& o) {
  if (o.clip_value > 0) gradients = clip_by_value(gradients, o.clip_value);
  if (o.clip_norm > 0) gradients = clip_by_norm(gradients, o.clip_norm);
  if (o.clip_global_norm > 0) gradients = clip_by_global_norm(gradients, o.clip_global_norm);
  return gradients;
}

Updates make(const Rule& rule, const Cost& cost, const std::vector<Expr>& parameters,
             const Options& options) {
  const FallbackOrigin origin(cost.where);
  check(rule, parameters, options);
  Updates out;
  std::vector<Expr> gradients = gradients_of(rule, cost, parameters);
  const Expr weight = cost.weight ? cast(cost.weight, DType::F64) : Expr();
  std::optional<Accumulation> accumulation;
  if (options.accumulate > 1)
    accumulation.emplace(gradients, weight, parameters, options.accumulate, out);
  else if (weight)
    divide_by_weight(gradients, weight);
  gradients = clipped(std::move(gradients), options);

  const Rate rate = options.rate.given() ? options.rate : Rate(rule.rate);
  Expr step, number;
  if (rule.counts || rate.schedule) {
    step = counter("step");
    number = cast(step, DType::F64);
    out.states.push_back(step);
  }
  Expr rate64 = cast(rate.schedule ? rate.schedule(number) : rate.value, DType::F64);
  if (number) number = number + typed_number(1, DType::F64);
  const double decay = rule.own_decay ? 0 : options.weight_decay.value_or(0);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Expr& p = parameters[i];
    Expr g = gradients[i];
    if (decay > 0) g = g + typed_number(decay, p.dtype()) * p;
    const auto first = static_cast<std::ptrdiff_t>(out.pairs.size());
    rule.step({options, out, p, g, name_of_parameter(parameters, i), number, rate64});
    // The parameter before its state: what is computed of the step number then comes before both,
    // so that one loop makes them all.
    std::rotate(out.pairs.begin() + first, out.pairs.end() - 1, out.pairs.end());
  }
  if (step) out.pairs.emplace_back(step, step + int64_constant(1));
  if (options.average > 0) add_averages(parameters, options.average, out);
  if (accumulation) accumulation->hold_back();
  return out;
}

Expr squared_norm(const Expr& g) { return sum(sqr(g)); }

/// g * limit / norm where the norm is larger than the limit. The norm of a gradient of zeros is
/// not divided by.
Expr scaled(const Expr& g, const Expr& norm, double limit) {
  Expr bound = typed_number(limit, norm.dtype());
  return g * cast(bound / maximum(norm, bound), g.dtype());
}

void require_limit(const char* what, double limit) {
  if (!(limit > 0)) fail(Fault::Value, fmt::format("{}: the limit is {}", what, limit));
}

}  // namespace

std::vector<Expr> clip_by_value(const std::vector<Expr>& gradients, double limit,
                                std::source_location where) {
  const FallbackOrigin origin(where);
  require_limit("clip_by_value", limit);
  std::vector<Expr> out;
  for (const Expr& g : gradients)
    out.push_back(clip(g, typed_number(-limit, g.dtype()), typed_number(limit, g.dtype())));
  return out;
}

std::vector<Expr> clip_by_norm(const std::vector<Expr>& gradients, double limit,
                               std::source_location where) {
  const FallbackOrigin origin(where);
  require_limit("clip_by_norm", limit);
  std::vector<Expr> out;
  for (const Expr& g : gradients) out.push_back(scaled(g, sqrt(squared_norm(g)), limit));
  return out;
}

std::vector<Expr> clip_by_global_norm(const std::vector<Expr>& gradients, double limit,
                                      std::source_location where) {
  const FallbackOrigin origin(where);
  require_limit("clip_by_global_norm", limit);
  Expr total = typed_number(0, DType::F64);
  for (const Expr& g : gradients) total = total + squared_norm(g);
  std::vector<Expr> out;
  for (const Expr& g : gradients) out.push_back(scaled(g, sqrt(total), limit));
  return out;
}

void set_option(Options& o, std::string_view name, double value) {
  const std::pair<std::string_view, double*> numbers[] = {
      {"clip_value", &o.clip_value},
      {"clip_norm", &o.clip_norm},
      {"clip_global_norm", &o.clip_global_norm},
      {"average", &o.average},
  };
  const std::pair<std::string_view, std::optional<double>*> defaulted[] = {
      {"weight_decay", &o.weight_decay},
      {"momentum", &o.momentum},
      {"rho", &o.rho},
      {"beta1", &o.beta1},
      {"beta2", &o.beta2},
      {"epsilon", &o.epsilon},
  };
  std::vector<std::string> known = {"accumulate", "centered", "rate"};
  for (const auto& [option, target] : numbers) {
    if (option == name) return void(*target = value);
    known.emplace_back(option);
  }
  for (const auto& [option, target] : defaulted) {
    if (option == name) return void(*target = value);
    known.emplace_back(option);
  }
  if (name == "rate") return void(o.rate = value);
  if (name == "centered") return void(o.centered = value != 0);
  if (name == "accumulate") {
    if (value != std::floor(value) || !(std::abs(value) < 1e15))
      fail(Fault::Value, fmt::format("optim: accumulate is {}, which is no whole number", value));
    return void(o.accumulate = static_cast<std::int64_t>(value));
  }
  std::string near = nearest(name, known);
  fail(Fault::Type, fmt::format("optim: there is no option '{}'", name),
       near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                    : fmt::format("did you mean '{}'?", near));
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const Rule& rule : kRules) names.emplace_back(rule.name);
  return names;
}

double default_rate(std::string_view rule) { return find_rule(rule).rate; }

Updates updates_by(std::string_view rule, const Cost& cost, const std::vector<Expr>& parameters,
                   const Options& options) {
  return make(find_rule(rule), cost, parameters, options);
}

#define SNUG_RULE(name)                                                                         \
  Updates name(const Cost& cost, const std::vector<Expr>& parameters, const Options& options) { \
    return updates_by(#name, cost, parameters, options);                                        \
  }
SNUG_RULE(sgd)
SNUG_RULE(momentum)
SNUG_RULE(nesterov)
SNUG_RULE(adagrad)
SNUG_RULE(adadelta)
SNUG_RULE(rmsprop)
SNUG_RULE(adam)
SNUG_RULE(adamw)
SNUG_RULE(adamax)
#undef SNUG_RULE

}  // namespace snug::optim
