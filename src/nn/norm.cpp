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

}  // namespace

LayerPtr layer_norm(const NormOptions& options) { return std::make_shared<LayerNorm>(options); }

}  // namespace snug::nn
