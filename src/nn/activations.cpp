#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numbers>

#include "nn/layers.h"
#include "ops/arguments.h"

namespace snug::nn {
namespace {

Expr number(double value, const Expr& like) { return typed_number(value, like.dtype()); }

struct Row {
  const char* name;
  Activation function;
};
const Row kActivations[] = {
    {"elu", [](const Expr& x) { return elu(x); }},
    {"gelu",
     [](const Expr& x) {
       return number(0.5, x) * x * (number(1, x) + erf(x * number(1 / std::numbers::sqrt2, x)));
     }},
    {"hard_sigmoid", [](const Expr& x) { return hard_sigmoid(x); }},
    {"leaky_relu", [](const Expr& x) { return leaky_relu(x, number(0.01, x)); }},
    {"linear", [](const Expr& x) { return x; }},
    {"log_softmax", [](const Expr& x) { return log_softmax(x); }},
    {"relu", [](const Expr& x) { return snug::relu(x); }},
    {"relu6", [](const Expr& x) { return clip(x, number(0, x), number(6, x)); }},
    {"selu", [](const Expr& x) { return selu(x); }},
    {"sigmoid", [](const Expr& x) { return sigmoid(x); }},
    {"softmax", [](const Expr& x) { return softmax(x); }},
    {"softplus", [](const Expr& x) { return softplus(x); }},
    {"softsign", [](const Expr& x) { return softsign(x); }},
    {"swish", [](const Expr& x) { return x * sigmoid(x); }},
    {"tanh", [](const Expr& x) { return tanh(x); }},
};

class ActivationLayer : public Layer {
 public:
  explicit ActivationLayer(const std::string& name)
      : name_(name), function_(activation_function(name)) {}
  std::string describe() const override { return fmt::format("Activation({})", name_); }

 protected:
  Expr forward(const Expr& x, Pass&) override { return function_(x); }

 private:
  std::string name_;
  Activation function_;
};

}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const Row& row : kActivations) names.push_back(row.name);
  return names;
}

Activation activation_function(const std::string& name) {
  for (const Row& row : kActivations)
    if (row.name == (name.empty() ? "linear" : name)) return row.function;
  const std::string near = nearest(name, activation_names());
  fail(Fault::Value, fmt::format("there is no activation '{}'", name),
       near.empty() ? fmt::format("there are {}", fmt::join(activation_names(), ", "))
                    : fmt::format("did you mean '{}'?", near));
}

LayerPtr activation(const std::string& name) { return std::make_shared<ActivationLayer>(name); }

}  // namespace snug::nn
