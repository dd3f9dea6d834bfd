#include <fmt/format.h>

#include <cmath>

#include "nn/layers.h"
#include "nn/options.h"
#include "ops/arguments.h"

namespace snug::nn {
namespace {

class Attention : public Layer {
 public:
  Attention(std::int64_t heads, const AttentionOptions& o)
      : Layer(-1, o.in), heads_(heads), options_(o) {
    require_positive("Attention", "heads", heads);
  }
  std::string describe() const override {
    return fmt::format("Attention({}{})", heads_, options_.causal ? ", causal" : "");
  }

 protected:
  /// Query, key and value are the three parts of one product.
  void make(std::int64_t in) override {
    if (in % heads_ != 0)
      fail(Fault::Shape,
           fmt::format("Attention: {} features cannot be cut into {} heads", in, heads_));
    const Fans fans{static_cast<double>(in), static_cast<double>(in)};
    add("weight", {in, 3 * in}, options_.weight, fans);
    add("out_weight", {in, in}, options_.weight, fans);
    if (!options_.bias) return;
    add("bias", {3 * in}, init::zeros());
    add("out_bias", {in}, init::zeros());
  }

  Expr forward(const Expr& x, Pass&) override {
    if (x.ndim() != 3)
      fail(Fault::Type, fmt::format("Attention takes (batch, time, features), not {}",
                                    snug::describe(x.type())));
    const std::int64_t features = as_shared(variable(1))->shape()[0], size = features / heads_;
    const Expr all = options_.bias ? dot(x, variable(0)) + variable(2) : dot(x, variable(0));
    auto part = [&](std::int64_t k) {
      const Expr of_all_heads =
          slice_axis(all, -1, int64_constant(k * features), int64_constant((k + 1) * features));
      return snug::reshape(of_all_heads, {shape_i(x, 0), shape_i(x, 1), int64_constant(heads_),
                                          int64_constant(size)});
    };
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    Expr scores = einsum("bthd,bshd->bhts", {part(0) * typed_number(scale, x.dtype()), part(1)});
    if (options_.causal) scores = without_future(scores);
    const Expr taken = einsum("bhts,bshd->bthd", {softmax(scores), part(2)});
    const Expr y = dot(snug::reshape(taken, shape(x)), variable(1));
    return options_.bias ? y + variable(3) : y;
  }

 private:
  /// Scores (..., time, source) with -inf where the source is later.
  static Expr without_future(const Expr& scores) {
    const Expr times = arange(shape_i(scores, -1));
    const Expr seen = ge(dimshuffle(times, {0, -1}), dimshuffle(times, {-1, 0}));
    return switch_(dimshuffle(seen, {-1, -1, 0, 1}), scores,
                   typed_number(-std::numeric_limits<double>::infinity(), scores.dtype()));
  }

  std::int64_t heads_;
  AttentionOptions options_;
};

}  // namespace

LayerPtr attention(std::int64_t heads, const AttentionOptions& options) {
  return std::make_shared<Attention>(heads, options);
}

}  // namespace snug::nn
