#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/init.h"
#include "ops/functions.h"

/// Layers are callables that build expressions; their parameters are shared variables.
///
///   auto model = nn::sequential({nn::dense(128, {.activation = "relu"}), nn::dense(10)});
///   model->build({-1, 784});
///   nn::Pass pass{.training = true};
///   Expr loss = nn::cross_entropy((*model)(x, pass), y);
namespace snug::nn {

class Layer;
using LayerPtr = std::shared_ptr<Layer>;
/// (shared variable, its new value)
using Updates = std::vector<std::pair<Expr, Expr>>;

/// A value of a layer that lives between calls.
struct Parameter {
  std::string name;       // "features.0.weight"
  Expr variable;          // shared
  bool trainable = true;  // false: a buffer, as running statistics, or of a frozen layer
  Expr mask = {};         // shared bools: where updates are let through (nn/prune.h); null: all

  std::int64_t size() const;
  std::int64_t bytes() const { return size() * size_of(variable.dtype()); }
};

inline constexpr std::uint64_t kDefaultSeed = 42;

/// What a layer did in a pass.
struct Visit {
  std::string path;  // "features.0"
  Layer& layer;
  Expr input, output;
};

/// One walk through a model that builds the expression of its output.
struct Pass {
  bool training = false;              // dropout drops, batch norm uses and updates statistics
  std::uint64_t seed = kDefaultSeed;  // of parameters made on the way
  RandomStream random = RandomStream(seed);             // of dropout
  std::function<void(const Visit&)> visited = nullptr;  // after each layer without inner layers
  std::string path = {};                                // of the layer that is called
};

struct Named {
  std::string name;
  LayerPtr layer;
  Named(LayerPtr l) : layer(std::move(l)) {}  // its name is its number
  Named(std::string n, LayerPtr l) : name(std::move(n)), layer(std::move(l)) {}
};

/// A layer makes its parameters in the first pass, from the size of one axis of its input, unless
/// that size was given. Their names and values follow from the place of the layer in the model and
/// the seed of the pass.
class Layer : public std::enable_shared_from_this<Layer> {
 public:
  virtual ~Layer() = default;

  /// The output for `x`, of a model: names of parameters start here.
  Expr operator()(const Arg& x, Pass& pass);
  Expr operator()(const Arg& x);  // for inference
  /// The same for a layer inside another one, which calls it `name`.
  Expr call_inner(const Expr& x, Pass& pass, const std::string& name);

  /// Makes all parameters for inputs of these sizes; -1: any. No value is computed.
  void build(const Dims& input, std::uint64_t seed = kDefaultSeed, DType dtype = default_float(),
             Here where = Here::current());
  /// Of this layer and those inside it, by name; what occurs twice counts once. An error if the
  /// size of an input is not known yet.
  std::vector<Parameter> parameters();
  std::vector<Expr> trainable();  // variables of the trainable ones

  /// This layer and those inside it are not trained in expressions made from now on: their
  /// parameters are not among the trainable ones, and batch_norm keeps and uses its running
  /// statistics. `frozen = false` undoes it.
  void freeze(bool frozen = true);
  bool frozen() const { return frozen_; }

  virtual std::string describe() const = 0;  // "Dense(128)"
  virtual std::vector<Named> inner() const { return {}; }
  /// The layer at a path inside this one: "features.0". An unknown path is an Index error.
  LayerPtr at(const std::string& path) const;
  /// Puts another layer in the place of number `i` of the inner ones. Its parameters are made in
  /// the next pass.
  virtual void replace(std::size_t i, LayerPtr layer);
  /// Layers [begin, end) of a sequential as one, with their names and parameters.
  virtual LayerPtr part(std::size_t begin, std::size_t end) const;
  /// This layer and those inside it with their paths, outer ones first.
  void visit(const std::function<void(const std::string& path, Layer& layer)>& f);
  virtual std::vector<Parameter>& own() { return own_; }  // names without the path

 protected:
  Layer() = default;
  static constexpr int kNoAxis = 100;  // the size does not come from the input
  /// Parameters depend on the size of this axis of the input; 0: not known yet.
  Layer(int axis, std::int64_t size) : parametric_(true), axis_(axis), size_(size) {}

  virtual Expr forward(const Expr& x, Pass& pass) = 0;
  /// Calls `add` for every parameter.
  virtual void make(std::int64_t size) { static_cast<void>(size); }
  void add(const std::string& name, const Dims& shape, const Initialiser& initialiser,
           const Fans& fans = {}, bool trainable = true);
  const Expr& variable(std::size_t i) const { return own_[i].variable; }

  std::vector<Parameter> own_;

 private:
  void make_for(const Expr* x, const std::string& path, std::uint64_t seed);

  bool parametric_ = false, made_ = false, frozen_ = false;
  int axis_ = 0;
  std::int64_t size_ = 0;
  std::string making_path_;  // of the pass, which parameters are made in
  std::uint64_t making_seed_ = 0;
};

}  // namespace snug::nn
