#include <fmt/format.h>

#include "nn/layers.h"
#include "nn/options.h"
#include "ops/arguments.h"

namespace snug::nn {
namespace {

class Dense : public Layer {
 public:
  Dense(std::int64_t units, const DenseOptions& o)
      : Layer(-1, o.in), units_(units), options_(o), act_(activation_function(o.activation)) {
    require_positive("dense", "units", units);
  }
  std::string describe() const override {
    return fmt::format("Dense({}{})", units_, shown_activation(options_.activation));
  }

 protected:
  void make(std::int64_t in) override {
    const Fans fans{static_cast<double>(in), static_cast<double>(units_)};
    add("weight", {in, units_}, options_.weight, fans);
    if (options_.bias) add("bias", {units_}, options_.bias_start, fans);
  }
  Expr forward(const Expr& x, Pass&) override {
    Expr y = dot(x, variable(0));
    return act_(options_.bias ? y + variable(1) : y);
  }

 private:
  std::int64_t units_;
  DenseOptions options_;
  Activation act_;
};

class Embedding : public Layer {
 public:
  Embedding(std::int64_t count, std::int64_t size, const EmbeddingOptions& o)
      : Layer(kNoAxis, count), count_(count), size_(size), options_(o) {
    require_positive("embedding", "count", count);
    require_positive("embedding", "size", size);
  }
  std::string describe() const override { return fmt::format("Embedding({}, {})", count_, size_); }

 protected:
  void make(std::int64_t count) override { add("weight", {count, size_}, options_.weight); }
  Expr forward(const Expr& x, Pass&) override {
    if (!is_int(x.dtype()))
      fail(Fault::Type, fmt::format("embedding: takes integers, not {}", name_of(x.dtype())),
           "cast the input, or start from an integer variable");
    return take(variable(0), x, 0);
  }

 private:
  std::int64_t count_, size_;
  EmbeddingOptions options_;
};

class Flatten : public Layer {
 public:
  std::string describe() const override { return "Flatten"; }

 protected:
  Expr forward(const Expr& x, Pass&) override { return snug::flatten(x, 2); }
};

class Reshape : public Layer {
 public:
  explicit Reshape(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}
  std::string describe() const override {
    return fmt::format("Reshape{}", describe_shape(Dims(sizes_)));
  }

 protected:
  Expr forward(const Expr& x, Pass&) override {
    std::vector<Expr> all{shape_i(x, 0)};
    for (std::int64_t size : sizes_) all.push_back(int64_constant(size < 0 ? rest(x) : size));
    return snug::reshape(x, all);
  }
  /// The open size, or -1 if it is known at a call alone.
  std::int64_t rest(const Expr& x) const {
    std::int64_t elements = 1, given = 1;
    for (std::size_t i = 1; i < x.type().shape.size(); ++i) {
      if (x.type().shape[i] < 0) return -1;
      elements *= x.type().shape[i];
    }
    for (std::int64_t size : sizes_)
      if (size >= 0) given *= size;
    return given > 0 && elements % given == 0 ? elements / given : -1;
  }

 private:
  std::vector<std::int64_t> sizes_;
};

class Dropout : public Layer {
 public:
  explicit Dropout(double p) : p_(p) {
    if (!(p >= 0 && p < 1))
      fail(Fault::Value, fmt::format("dropout: the probability is {}, it must be in [0, 1)", p));
  }
  std::string describe() const override { return fmt::format("Dropout({})", p_); }

 protected:
  Expr forward(const Expr& x, Pass& pass) override {
    return pass.training ? snug::dropout(x, p_, pass.random) : x;
  }

 private:
  double p_;
};

class Call : public Layer {
 public:
  Call(std::function<Expr(const Expr&, Pass&)> f, std::string name)
      : f_(std::move(f)), name_(std::move(name)) {}
  std::string describe() const override { return name_; }

 protected:
  Expr forward(const Expr& x, Pass& pass) override { return f_(x, pass); }

 private:
  std::function<Expr(const Expr&, Pass&)> f_;
  std::string name_;
};

}  // namespace

LayerPtr dense(std::int64_t units, const DenseOptions& options) {
  return std::make_shared<Dense>(units, options);
}
LayerPtr embedding(std::int64_t count, std::int64_t size, const EmbeddingOptions& options) {
  return std::make_shared<Embedding>(count, size, options);
}
LayerPtr flatten() { return std::make_shared<Flatten>(); }
LayerPtr reshape(const std::vector<std::int64_t>& sizes) {
  return std::make_shared<Reshape>(sizes);
}
LayerPtr dropout(double p) { return std::make_shared<Dropout>(p); }
LayerPtr call(std::function<Expr(const Expr& x, Pass& pass)> f, std::string name) {
  if (!f) fail(Fault::Type, fmt::format("{}: the function is empty", name));
  return std::make_shared<Call>(std::move(f), std::move(name));
}

}  // namespace snug::nn
