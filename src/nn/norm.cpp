#include <fmt/format.h>

#include "nn/layers.h"
#include "ops/arguments.h"

namespace snug::nn {
namespace {

class LayerNorm : public Layer {
 public:
  explicit LayerNorm(const NormOptions& o) : Layer(-1, o.in), options_(o) {}
  std::string describe() const override { return "LayerNorm"; }

 protected:
  void make(std::int64_t size) override {
    if (!options_.affine) return;
    add("weight", {size}, init::ones());
    add("bias", {size}, init::zeros());
  }
  Expr forward(const Expr& x, Pass&) override {
    const Expr deviation = sqrt(var(x, -1, true) + typed_number(options_.epsilon, x.dtype()));
    Expr y =
        standardize(x, mean(x, -1, true), typed_number(1, x.dtype()) / deviation, {x.ndim() - 1});
    return options_.affine ? y * variable(0) + variable(1) : y;
  }

 private:
  NormOptions options_;
};

/// Another variable of the value of a running statistic. An update of it is one of the statistic,
/// in functions that reach it alone: those of training.
Expr alias_of(const Expr& statistic) {
  Ref<SharedVariable> alias(new SharedVariable(Ref<SharedVariable>(as_shared(statistic))));
  alias->origin = current_origin();
  return Expr(Ref<Variable>(alias));
}

class BatchNorm : public Layer {
 public:
  explicit BatchNorm(const NormOptions& o) : Layer(1, o.in), options_(o) {
    if (!(o.momentum >= 0 && o.momentum <= 1))
      fail(Fault::Value,
           fmt::format("BatchNorm: momentum is {}, it must be in [0, 1]", o.momentum));
  }
  std::string describe() const override { return "BatchNorm"; }

 protected:
  void make(std::int64_t size) override {
    add("running_mean", {size}, init::zeros(), {}, false);
    add("running_var", {size}, init::ones(), {}, false);
    if (!options_.affine) return;
    add("weight", {size}, init::ones());
    add("bias", {size}, init::zeros());
  }
  Expr forward(const Expr& x, Pass& pass) override {
    return pass.training && !frozen() ? with_statistics_of_batch(x) : with_running_statistics(x);
  }

 private:
  Expr with_running_statistics(const Expr& x) const {
    return batch_normalization_test(x, scale(shape(variable(0))), shift(), variable(0), variable(1),
                                    axes_of(x), options_.epsilon);
  }

  Expr with_statistics_of_batch(const Expr& x) const {
    const Expr mean = alias_of(variable(0)), variance = alias_of(variable(1));
    // The sizes of the aliases make the output depend on them, at no cost.
    BatchNormalization r = batch_normalization_train(
        x, snug::reshape(scale(shape(mean)), shape(variance)), shift(), axes_of(x),
        options_.epsilon, options_.momentum, variable(0), variable(1));
    as_shared(mean)->default_update = snug::flatten(r.running_mean);
    as_shared(variance)->default_update = snug::flatten(r.running_variance);
    return r.out;
  }

  Expr scale(const Expr& sizes) const {
    return options_.affine ? snug::reshape(variable(2), sizes)
                           : broadcast_to(typed_number(1, variable(0).dtype()), sizes);
  }
  Expr shift() const { return options_.affine ? variable(3) : zeros_like(variable(0)); }

  static std::vector<std::int64_t> axes_of(const Expr& x) {
    std::vector<std::int64_t> axes{0};
    for (int i = 2; i < x.ndim(); ++i) axes.push_back(i);
    return axes;
  }

  NormOptions options_;
};

}  // namespace

LayerPtr layer_norm(const NormOptions& options) { return std::make_shared<LayerNorm>(options); }
LayerPtr batch_norm(const NormOptions& options) { return std::make_shared<BatchNorm>(options); }

}  // namespace snug::nn
