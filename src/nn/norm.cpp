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
    Expr centred = x - mean(x, -1, true);
    Expr variance = mean(sqr(centred), -1, true);
    Expr y = centred / sqrt(variance + typed_number(options_.epsilon, x.dtype()));
    return options_.affine ? y * variable(0) + variable(1) : y;
  }

 private:
  NormOptions options_;
};

/// Another variable of the value of a running statistic, which a call moves by `momentum` towards
/// that of the batch. Functions that do not reach it leave the statistic alone.
Expr moving(const Expr& statistic, const Expr& of_batch, double momentum) {
  Ref<SharedVariable> alias(new SharedVariable(Ref<SharedVariable>(as_shared(statistic))));
  alias->origin = current_origin();
  alias->default_update_rule = [of_batch, momentum](const Expr& self) {
    return self + typed_number(momentum, self.dtype()) * (cast(of_batch, self.dtype()) - self);
  };
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
    return pass.training ? with_statistics_of_batch(x) : with_running_statistics(x);
  }

 private:
  Expr with_running_statistics(const Expr& x) const {
    Expr scale = deviation_below(variable(1), x.dtype());
    if (options_.affine) scale = scale * variable(2);
    Expr y = (x - along_channels(variable(0), x)) * along_channels(scale, x);
    return options_.affine ? y + along_channels(variable(3), x) : y;
  }

  Expr with_statistics_of_batch(const Expr& x) const {
    std::vector<std::int64_t> axes{0};
    for (int i = 2; i < x.ndim(); ++i) axes.push_back(i);
    Expr batch_mean = mean(x, axes);
    Expr centred = x - along_channels(batch_mean, x);
    Expr variance = mean(sqr(centred), axes);
    // Running variances are those of the population, as the sample estimates them.
    Expr count = prod(shape(x)) / maximum(shape_i(x, 1), int64_constant(1));
    count = cast(count, x.dtype());
    Expr one = typed_number(1, x.dtype());
    Expr estimate = variance * (count / maximum(count - one, one));
    // The sizes of the moving variables make the output depend on them, at no cost.
    Expr to_mean = shape(moving(variable(0), batch_mean, options_.momentum));
    Expr to_var = shape(moving(variable(1), estimate, options_.momentum));
    Expr scale = options_.affine ? snug::reshape(variable(2), to_mean) : broadcast_to(one, to_mean);
    scale = snug::reshape(scale, to_var) * deviation_below(variance, x.dtype());
    Expr y = centred * along_channels(scale, x);
    return options_.affine ? y + along_channels(variable(3), x) : y;
  }

  /// 1 / sqrt(variance + epsilon)
  Expr deviation_below(const Expr& variance, DType dtype) const {
    return typed_number(1, dtype) / sqrt(variance + typed_number(options_.epsilon, dtype));
  }
  static Expr along_channels(const Expr& vector, const Expr& x) {
    std::vector<std::int64_t> pattern(static_cast<std::size_t>(x.ndim()), -1);
    pattern[1] = 0;
    return dimshuffle(vector, pattern);
  }

  NormOptions options_;
};

}  // namespace

LayerPtr layer_norm(const NormOptions& options) { return std::make_shared<LayerNorm>(options); }
LayerPtr batch_norm(const NormOptions& options) { return std::make_shared<BatchNorm>(options); }

}  // namespace snug::nn
