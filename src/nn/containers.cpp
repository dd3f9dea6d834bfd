#include <fmt/format.h>

#include <algorithm>

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
  void replace(std::size_t i, LayerPtr layer) override {
    if (i >= layers_.size())
      fail(Fault::Index, fmt::format("{}: there is no layer {} of {}", kind_, i, layers_.size()));
    if (!layer) fail(Fault::Type, fmt::format("{}: layer {} is empty", kind_, i));
    layer->visit([&](const std::string&, const Layer& inside) {
      if (&inside == this) fail(Fault::Value, fmt::format("{}: a layer inside itself", kind_));
    });
    layers_[i].layer = std::move(layer);
  }

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
  LayerPtr part(std::size_t begin, std::size_t end) const override {
    std::vector<Named> layers = inner();
    end = std::min(end, layers.size());
    begin = std::min(begin, end);
    const auto first = layers.begin();
    return sequential(
        {first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end)});
  }

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
    const Expr y = call_part(0, x, pass);
    const Expr shortcut = count() > 1 ? call_part(1, x, pass) : x;
    require_equal_sizes(y, shortcut, pass.path);
    return act_(y + shortcut);
  }

 private:
  void require_equal_sizes(const Expr& y, const Expr& shortcut, const std::string& path) const {
    const Dims &a = y.type().shape, &b = shortcut.type().shape;
    bool equal = a.size() == b.size();
    for (std::size_t i = 0; equal && i < a.size(); ++i)
      equal = a[i] < 0 || b[i] < 0 || a[i] == b[i] || a[i] == 1 || b[i] == 1;
    if (equal) return;
    const bool projected = count() > 1;
    std::string hint = projected ? "" : "make it so in the body, or give a shortcut that does";
    if (!projected && a.size() == b.size() && a.size() == 4 && a[1] > 0)
      hint = fmt::format("give a projection: shortcut Conv2d({}, 1{})", a[1],
                         stride_of(a, b) > 1 ? fmt::format(", stride={}", stride_of(a, b)) : "");
    if (!projected && a.size() == b.size() && a.size() == 2 && a[1] > 0)
      hint = fmt::format("give a projection: shortcut Dense({})", a[1]);
    fail(Fault::Shape,
         fmt::format("Residual{}: the body gives {}, the {} {}", path.empty() ? "" : " " + path,
                     describe_shape(a), projected ? "shortcut" : "input is", describe_shape(b)),
         hint);
  }

  /// By how much images get smaller, if by a whole number; 1 if that is not known.
  static std::int64_t stride_of(const Dims& small, const Dims& large) {
    if (small[2] <= 0 || large[2] <= small[2]) return 1;
    return (large[2] + small[2] - 1) / small[2];
  }

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
