#pragma once
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/schedule.h"

/// Update rules: what one step of training makes of the parameters. The formulas are PyTorch's
/// (torch.optim), which for AdaDelta are Lasagne's too. State begins as recipes of zeros, so it
/// takes no memory before the first call, in the dtype and shape of its parameter.
namespace snug::optim {

/// A loss (0-d), or the gradients of the parameters in their order.
struct Cost {
  Expr loss;
  std::vector<Expr> gradients;
  /// If given (0-d): the loss is a sum over so much weight, and what is to be small is their ratio.
  /// Gradients are divided by it after they were added up, over the calls that `accumulate` joins
  /// and over slices of a batch; where it is 0 they are 0.
  Expr weight = {};
  std::source_location where;  // the line of the rule
  Cost(const Expr& loss, std::source_location w = std::source_location::current())
      : loss(loss), where(w) {}
  Cost(const Expr& sum, const Expr& weight,
       std::source_location w = std::source_location::current())
      : loss(sum), weight(weight), where(w) {}
  Cost(std::vector<Expr> gradients, std::source_location w = std::source_location::current())
      : gradients(std::move(gradients)), where(w) {}
};

struct Options {
  Rate rate = {};
  /// Added to the gradient as weight_decay * parameter; with adamw the parameter shrinks by
  /// rate * weight_decay instead. 0.01 there unless given, 0 elsewhere.
  std::optional<double> weight_decay = {};
  // Gradients are clipped before they are used, in this order; 0: not.
  double clip_value = 0;        // elements to [-clip_value, clip_value]
  double clip_norm = 0;         // each gradient to this L2 norm at most
  double clip_global_norm = 0;  // all together to this L2 norm at most
  /// One step per so many calls, with the mean of their gradients (by weight, if Cost has it).
  std::int64_t accumulate = 1;
  /// Decay of exponential averages "<parameter>.average", which begin as the parameter; 0: none.
  double average = 0;
  // Of single rules; without a value their default.
  std::optional<double> momentum = {};  // momentum, nesterov: 0.9; rmsprop: 0
  std::optional<double> rho = {};       // adadelta: 0.9, rmsprop: 0.99
  std::optional<double> beta1 = {};     // adam, adamw, adamax: 0.9
  std::optional<double> beta2 = {};     // 0.999
  std::optional<double> epsilon = {};   // adagrad: 1e-10, adadelta: 1e-6, others: 1e-8
  bool centered = false;                // rmsprop: by the variance
};
/// Sets the option of that name. An unknown name is a Value error.
void set_option(Options& options, std::string_view name, double value);

struct Updates {
  std::vector<std::pair<Expr, Expr>> pairs;  // (shared variable, its new value)
  /// The shared variables that were made: "<parameter>.momentum" and so on, "step", "accumulated".
  std::vector<Expr> states;
  std::vector<Expr> averages;  // those of the states that average, one per parameter
};

//   g: the gradient, clipped and decayed; p: the parameter; t: the number of the step, from 1
/// p - rate g
Updates sgd(const Cost& cost, const std::vector<Expr>& parameters, const Options& options = {});
/// v = momentum v + g;  p - rate v
Updates momentum(const Cost& cost, const std::vector<Expr>& parameters,
                 const Options& options = {});
/// v = momentum v + g;  p - rate (g + momentum v)
Updates nesterov(const Cost& cost, const std::vector<Expr>& parameters,
                 const Options& options = {});
/// s = s + g^2;  p - rate g / (sqrt(s) + epsilon)
Updates adagrad(const Cost& cost, const std::vector<Expr>& parameters, const Options& options = {});
/// s = rho s + (1 - rho) g^2;  d = sqrt(e + epsilon) / sqrt(s + epsilon) g;
/// e = rho e + (1 - rho) d^2;  p - rate d
Updates adadelta(const Cost& cost, const std::vector<Expr>& parameters,
                 const Options& options = {});
/// s = rho s + (1 - rho) g^2;  d = g / (sqrt(s) + epsilon);  p - rate d
/// centered: s less the square of the average of g; momentum: v = momentum v + d, p - rate v
Updates rmsprop(const Cost& cost, const std::vector<Expr>& parameters, const Options& options = {});
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
/// p - rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
Updates adam(const Cost& cost, const std::vector<Expr>& parameters, const Options& options = {});
/// adam of the gradient alone, of the parameter (1 - rate weight_decay) p
Updates adamw(const Cost& cost, const std::vector<Expr>& parameters, const Options& options = {});
/// m = beta1 m + (1 - beta1) g;  u = max(beta2 u, |g| + epsilon);  p - rate / (1 - beta1^t) m / u
Updates adamax(const Cost& cost, const std::vector<Expr>& parameters, const Options& options = {});

/// A rule by its name, for tools.
Updates updates_by(std::string_view rule, const Cost& cost, const std::vector<Expr>& parameters,
                   const Options& options = {});
std::vector<std::string> rule_names();
double default_rate(std::string_view rule);

/// The gradients with elements outside [-limit, limit] set to the bound.
std::vector<Expr> clip_by_value(const std::vector<Expr>& gradients, double limit,
                                std::source_location where = std::source_location::current());
/// Each gradient scaled to the norm `limit` if its L2 norm is larger.
std::vector<Expr> clip_by_norm(const std::vector<Expr>& gradients, double limit,
                               std::source_location where = std::source_location::current());
/// All gradients scaled by one factor so that the L2 norm of all together is at most `limit`.
std::vector<Expr> clip_by_global_norm(const std::vector<Expr>& gradients, double limit,
                                      std::source_location where = std::source_location::current());

}  // namespace snug::optim
