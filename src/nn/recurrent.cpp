#include <fmt/format.h>

#include <algorithm>

#include "nn/layers.h"
#include "nn/options.h"
#include "ops/arguments.h"

namespace snug::nn {
namespace {

/// Part `k` of `count` equal ones of the last axis.
Expr part(const Expr& x, std::int64_t k, std::int64_t count) {
  Expr units = floor_div(shape_i(x, -1), int64_constant(count));
  return slice_axis(x, -1, units * int64_constant(k), units * int64_constant(k + 1));
}

void require_cell(const char* what, std::initializer_list<Arg> matrices) {
  for (const Arg& m : matrices) {
    require_expr(what, m.expr);
    if (m.expr.ndim() != 2)
      fail(Fault::Type,
           fmt::format("{}: expected matrices, got {}", what, snug::describe(m.expr.type())));
  }
}

/// A cell run over the second axis of (batch, time, features).
class Recurrent : public Layer {
 public:
  Recurrent(const char* kind, std::int64_t gates, std::int64_t units, const RecurrentOptions& o)
      : Layer(2, o.in), units_(units), kind_(kind), gates_(gates), options_(o) {
    require_positive(kind, "units", units);
  }
  std::string describe() const override {
    return fmt::format("{}({}{}{})", kind_, units_, options_.sequences ? ", sequences" : "",
                       options_.backwards ? ", backwards" : "");
  }

 protected:
  void make(std::int64_t in) override {
    const Fans fans{static_cast<double>(in), static_cast<double>(units_)};
    const Fans inside{static_cast<double>(units_), static_cast<double>(units_)};
    add("weight", {in, gates_ * units_}, options_.weight, fans);
    add("recurrent", {units_, gates_ * units_}, options_.recurrent, inside);
    add("bias", {gates_ * units_}, bias_start());
  }
  virtual Initialiser bias_start() const { return init::zeros(); }
  /// The states after one step, the output first.
  virtual std::vector<Expr> step(const Expr& from_input, const std::vector<Expr>& states) const = 0;
  virtual std::size_t state_count() const { return 1; }

  Expr forward(const Expr& given, Pass&) override {
    const Expr x = options_.unrolled ? with_known_times(given) : given;
    // What comes from the input is one product for all times.
    Expr gates = dot(swapaxes(x, 0, 1), variable(0)) + variable(2);
    if (options_.backwards) gates = flip(gates, 0);
    Expr start =
        broadcast_to(typed_number(0, gates.dtype()), {shape_i(x, 0), int64_constant(units_)});
    start = rebroadcast(start, 0);
    std::vector<Expr> states(state_count(), start);
    if (!options_.unrolled) return in_a_loop(gates, states);
    return step_by_step(gates, std::move(states));
  }

 private:
  Expr in_a_loop(const Expr& gates, const std::vector<Expr>& start) const {
    LoopResult r = loop(
        [&](const Expr&, const std::vector<Expr>& now, const std::vector<Expr>& states) {
          std::vector<Expr> next = step(now[0], states);
          LoopStep result{next, {}};
          if (options_.sequences) result.outputs = {next[0]};
          return result;
        },
        {gates}, start);
    return options_.sequences ? all_times(r.outputs[0]) : r.states[0];
  }

  /// The first pass that knows the number of times decides it.
  Expr with_known_times(const Expr& x) {
    if (times_ == 0) times_ = std::max<std::int64_t>(x.ndim() == 3 ? x.type().shape[1] : 0, 0);
    if (times_ == 0)
      fail(Fault::Shape, fmt::format("{}: the number of times is not known", kind_),
           "unrolled needs it: give it to build, or leave unrolled out");
    return specify_shape(x, {-1, times_, -1});
  }

  Expr step_by_step(const Expr& gates, std::vector<Expr> states) const {
    std::vector<Expr> outputs;
    for (int t = 0; t < times_; ++t) {
      states = step(subtensor(gates, {t}), states);
      outputs.push_back(states[0]);
    }
    return options_.sequences ? all_times(stack(outputs, 0)) : states[0];
  }

  /// (time, batch, units) as computed -> (batch, time, units) in the order of the input
  Expr all_times(const Expr& outputs) const {
    return swapaxes(options_.backwards ? flip(outputs, 0) : outputs, 0, 1);
  }

 protected:
  std::int64_t units_;

 private:
  const char* kind_;
  std::int64_t gates_;
  RecurrentOptions options_;
  std::int64_t times_ = 0;  // if unrolled
};

class Lstm : public Recurrent {
 public:
  Lstm(std::int64_t units, const RecurrentOptions& o) : Recurrent("LSTM", 4, units, o) {}

 protected:
  Initialiser bias_start() const override {
    Array bias = Array::zeros(default_float(), {4 * units_});
    for (std::int64_t i = units_; i < 2 * units_; ++i) bias.set_double(i, 1);
    return init::value(bias);
  }
  std::size_t state_count() const override { return 2; }
  std::vector<Expr> step(const Expr& from_input, const std::vector<Expr>& states) const override {
    LstmState next = lstm_cell(from_input, states[0], states[1], variable(1));
    return {next.hidden, next.cell};
  }
};

class Gru : public Recurrent {
 public:
  Gru(std::int64_t units, const RecurrentOptions& o) : Recurrent("GRU", 3, units, o) {}

 protected:
  void make(std::int64_t in) override {
    Recurrent::make(in);
    add("recurrent_bias", {3 * units_}, init::zeros());
  }
  std::vector<Expr> step(const Expr& from_input, const std::vector<Expr>& states) const override {
    return {gru_cell(from_input, states[0], variable(1), variable(3))};
  }
};

}  // namespace

LstmState lstm_cell(const Arg& from_input, const Arg& hidden, const Arg& cell,
                    const Arg& recurrent) {
  Scope scope(from_input);
  require_cell("lstm_cell", {from_input, hidden, cell, recurrent});
  Expr gates = from_input.expr + dot(hidden, recurrent);
  Expr next =
      sigmoid(part(gates, 1, 4)) * cell.expr + sigmoid(part(gates, 0, 4)) * tanh(part(gates, 2, 4));
  return {sigmoid(part(gates, 3, 4)) * tanh(next), next};
}

Expr gru_cell(const Arg& from_input, const Arg& hidden, const Arg& recurrent,
              const Arg& recurrent_bias) {
  Scope scope(from_input);
  require_cell("gru_cell", {from_input, hidden, recurrent});
  require_expr("gru_cell", recurrent_bias.expr);
  Expr x = from_input.expr, h = dot(hidden, recurrent) + recurrent_bias;
  Expr reset = sigmoid(part(x, 0, 3) + part(h, 0, 3));
  Expr update = sigmoid(part(x, 1, 3) + part(h, 1, 3));
  Expr candidate = tanh(part(x, 2, 3) + reset * part(h, 2, 3));
  return candidate + update * (hidden.expr - candidate);
}

LayerPtr lstm(std::int64_t units, const RecurrentOptions& options) {
  return std::make_shared<Lstm>(units, options);
}
LayerPtr gru(std::int64_t units, const RecurrentOptions& options) {
  return std::make_shared<Gru>(units, options);
}

}  // namespace snug::nn
