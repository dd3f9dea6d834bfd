#include <fmt/format.h>

#include "nn/layers.h"
#include "nn/options.h"
#include "ops/arguments.h"

namespace snug::nn {
namespace {

/// With a number for a name where there is none; names differ and hold no dot.
std::vector<Named> with_names(const char* what, std::vector<Named> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].layer) fail(Fault::Type, fmt::format("{}: layer {} is empty", what, i));
    if (layers[i].name.empty()) layers[i].name = std::to_string(i);
    if (layers[i].name.find('.') != std::string::npos)
      fail(Fault::Value, fmt::format("{}: the name '{}' has a dot", what, layers[i].name),
           "dots join the names of layers inside each other");
    for (std::size_t k = 0; k < i; ++k)
      if (layers[k].name == layers[i].name)
        fail(Fault::Value, fmt::format("{}: two layers are named '{}'", what, layers[i].name));
  }
  return layers;
}

/// A layer of other layers.
class Container : public Layer {
 public:
  Container(const char* kind, std::vector<Named> layers)
      : kind_(kind), layers_(with_names(kind, std::move(layers))) {}
  std::string describe() const override {
    std::vector<std::string> parts;
    for (const Named& part : layers_) parts.push_back(part.layer->describe());
    return fmt::format("{}({})", kind_, fmt::join(parts, ", "));
  }
  std::vector<Named> inner() const override { return layers_; }

 protected:
  Expr call_part(std::size_t i, const Expr& x, Pass& pass) const {
    return layers_[i].layer->call_inner(x, pass, layers_[i].name);
  }
  std::size_t count() const { return layers_.size(); }

 private:
  const char* kind_;
  std::vector<Named> layers_;
};

class Sequential : public Container {
 public:
  explicit Sequential(std::vector<Named> layers) : Container("Sequential", std::move(layers)) {}

 protected:
  Expr forward(const Expr& x, Pass& pass) override {
    Expr y = x;
    for (std::size_t i = 0; i < count(); ++i) y = call_part(i, y, pass);
    return y;
  }
};

class Residual : public Container {
 public:
  Residual(std::vector<Named> parts, const std::string& activation)
      : Container("Residual", std::move(parts)), act_(activation_function(activation)) {}

 protected:
  Expr forward(const Expr& x, Pass& pass) override {
    Expr y = call_part(0, x, pass);
    return act_(y + (count() > 1 ? call_part(1, x, pass) : x));
  }

 private:
  Activation act_;
};

class Concat : public Container {
 public:
  Concat(std::vector<Named> branches, std::int64_t axis, bool with_input)
      : Container(with_input ? "Skip" : "Concat", std::move(branches)),
        axis_(axis),
        with_input_(with_input) {}

 protected:
  Expr forward(const Expr& x, Pass& pass) override {
    std::vector<Expr> parts;
    if (with_input_) parts.push_back(x);
    for (std::size_t i = 0; i < count(); ++i) parts.push_back(call_part(i, x, pass));
    return concatenate(parts, axis_);
  }

 private:
  std::int64_t axis_;
  bool with_input_;
};

}  // namespace

LayerPtr sequential(std::vector<Named> layers) {
  return std::make_shared<Sequential>(std::move(layers));
}
LayerPtr residual(LayerPtr body, LayerPtr shortcut, const std::string& activation) {
  std::vector<Named> parts{{"body", std::move(body)}};
  if (shortcut) parts.emplace_back("shortcut", std::move(shortcut));
  return std::make_shared<Residual>(std::move(parts), activation);
}
LayerPtr concat(std::vector<Named> branches, std::int64_t axis) {
  return std::make_shared<Concat>(std::move(branches), axis, false);
}
LayerPtr skip(LayerPtr body, std::int64_t axis) {
  return std::make_shared<Concat>(std::vector<Named>{{"body", std::move(body)}}, axis, true);
}

}  // namespace snug::nn
