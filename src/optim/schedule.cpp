#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "ops/arguments.h"
#include "ops/functions.h"

namespace snug::optim {
namespace {

Expr number(double value) { return typed_number(value, DType::F64); }

void require_steps(const char* what, std::int64_t steps) {
  if (steps < 1)
    fail(Fault::Value, fmt::format("{}: {} steps", what, steps),
         "give a number of updates, from 1");
}

void require_rate(const char* what, double rate) {
  if (!(rate >= 0) || !std::isfinite(rate))
    fail(Fault::Value, fmt::format("{}: {} is no learning rate", what, rate));
}

/// Half a cosine from `first` (at 0) to `last` (at 1).
Expr half_cosine(double first, double last, const Expr& part) {
  Expr wave = cos(clip(part, number(0), number(1)) * number(M_PI)) + number(1);
  return number(last) + number((first - last) / 2) * wave;
}

}  // namespace

Rate::Rate(double rate) : value(number(rate)) {}

Schedule constant_rate(double rate) {
  require_rate("constant_rate", rate);
  return [rate](const Expr&) { return number(rate); };
}

Schedule step_decay(double rate, std::int64_t every, double factor) {
  require_rate("step_decay", rate);
  require_steps("step_decay", every);
  return [=](const Expr& step) {
    return number(rate) * pow(number(factor), floor(step / number(static_cast<double>(every))));
  };
}

Schedule exponential_decay(double rate, double factor) {
  require_rate("exponential_decay", rate);
  return [=](const Expr& step) { return number(rate) * pow(number(factor), step); };
}

Schedule cosine(double rate, std::int64_t steps, double last) {
  require_rate("cosine", rate);
  require_steps("cosine", steps);
  return [=](const Expr& step) {
    return half_cosine(rate, last, step / number(static_cast<double>(steps)));
  };
}

Schedule warm_up(std::int64_t steps, Schedule then) {
  require_steps("warm_up", steps);
  if (!then) fail(Fault::Type, "warm_up: the schedule that follows is empty");
  return [=](const Expr& step) {
    Expr length = number(static_cast<double>(steps));
    Expr after = then(maximum(step - length, number(0)));  // then(0) while the line rises
    return after * minimum((step + number(1)) / length, number(1));
  };
}

Schedule one_cycle(double peak, std::int64_t steps, double rising, double divide,
                   double divide_last) {
  require_rate("one_cycle", peak);
  require_steps("one_cycle", steps);
  if (!(rising > 0 && rising < 1) || !(divide > 0) || !(divide_last > 0))
    fail(
        Fault::Value,
        fmt::format("one_cycle: rising {}, divide {}, divide_last {}", rising, divide, divide_last),
        "rising lies between 0 and 1, the others are positive");
  return [=](const Expr& step) {
    const double total = static_cast<double>(steps);
    const double top = std::max(rising * total - 1, 0.0), end = std::max(total - 1, top);
    const double first = peak / divide;
    Expr up = half_cosine(first, peak, step / number(std::max(top, 1e-12)));
    Expr down = half_cosine(peak, first / divide_last,
                            (step - number(top)) / number(std::max(end - top, 1e-12)));
    return switch_(le(step, number(top)), up, down);
  };
}

}  // namespace snug::optim
