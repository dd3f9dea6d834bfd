#pragma once
#include <cstdint>
#include <functional>

#include "expr/expr.h"

/// Learning rates that change from step to step.
namespace snug::optim {

/// The rate of a step: `step` is a 0-d float64, 0 at the first update. Gives a 0-d float.
using Schedule = std::function<Expr(const Expr& step)>;

/// A learning rate: a number, a 0-d expression (a shared variable can be set between calls), or a
/// schedule.
struct Rate {
  Expr value;
  Schedule schedule;
  Rate() = default;   // the default of the rule
  Rate(double rate);  // in float64 until it is used
  Rate(const Expr& rate) : value(rate) {}
  Rate(Schedule s) : schedule(std::move(s)) {}
  bool given() const { return value || schedule; }
};

Schedule constant_rate(double rate);
/// rate * factor^floor(step / every)
Schedule step_decay(double rate, std::int64_t every, double factor = 0.1);
/// rate * factor^step
Schedule exponential_decay(double rate, double factor);
/// Half a cosine from `rate` down to `last` at `steps`, and `last` from there on.
Schedule cosine(double rate, std::int64_t steps, double last = 0);
/// A straight line from then(0) / steps up to then(0) within the first `steps`; then(step - steps)
/// from there on.
Schedule warm_up(std::int64_t steps, Schedule then);
/// PyTorch's OneCycleLR: a cosine from peak / divide up to `peak` in the first part of `steps`, a
/// second one down to peak / divide / divide_last.
Schedule one_cycle(double peak, std::int64_t steps, double rising = 0.3, double divide = 25,
                   double divide_last = 1e4);

}  // namespace snug::optim
