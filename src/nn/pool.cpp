#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nn/layers.h"
#include "nn/options.h"
#include "ops/arguments.h"
#include "ops/rows.h"

namespace snug::nn {
namespace {

std::size_t pooled_axes(const Expr& x) {
  if (x.ndim() < 3)
    fail(Fault::Type,
         fmt::format("pooling takes (batch, channels, ...), not {}", snug::describe(x.type())));
  return static_cast<std::size_t>(x.ndim()) - 2;
}

class Pool : public Layer {
 public:
  Pool(const char* kind, const char* mode, std::vector<std::int64_t> window,
       const PoolLayerOptions& o)
      : kind_(kind), mode_(mode), window_(std::move(window)), options_(o) {
    for (std::int64_t k : window_) require_positive(kind, "window", k);
    for (std::int64_t k : o.stride) require_positive(kind, "stride", k);
  }
  std::string describe() const override {
    return fmt::format("{}({}{})", kind_, fmt::join(window_, "x"),
                       options_.stride.empty() || options_.stride == window_
                           ? ""
                           : fmt::format(", /{}", fmt::join(options_.stride, "x")));
  }

 protected:
  Expr forward(const Expr& x, Pass&) override {
    const std::size_t axes = pooled_axes(x);
    PoolOptions o;
    o.window = per_axis(kind_, "window", window_, axes);
    if (!options_.stride.empty()) o.stride = per_axis(kind_, "stride", options_.stride, axes);
    o.pad = per_axis(kind_, "pad", options_.pad, axes);
    o.ignore_border = options_.ignore_border;
    o.mode = mode_;
    return pool(x, o);
  }

 private:
  const char *kind_, *mode_;
  std::vector<std::int64_t> window_;
  PoolLayerOptions options_;
};

/// The gradient of sums over windows, which has every element once per cell of its window.
class Upsample : public Layer {
 public:
  explicit Upsample(std::vector<std::int64_t> factor) : factor_(std::move(factor)) {
    for (std::int64_t k : factor_) require_positive("Upsample", "factor", k);
  }
  std::string describe() const override {
    return fmt::format("Upsample({})", fmt::join(factor_, "x"));
  }

 protected:
  Expr forward(const Expr& x, Pass&) override {
    const std::size_t axes = pooled_axes(x);
    const std::vector<std::int64_t> factor = per_axis("Upsample", "factor", factor_, axes);
    std::vector<Expr> sizes{shape_i(x, 0), shape_i(x, 1)};
    for (std::size_t k = 0; k < axes; ++k)
      sizes.push_back(shape_i(x, static_cast<std::int64_t>(k) + 2) * int64_constant(factor[k]));
    return apply(ops::average_pool_grad, {x, make_vector(sizes)},
                 {{"window", factor},
                  {"stride", factor},
                  {"pad", std::vector<std::int64_t>(2 * axes, 0)},
                  {"partial", false},
                  {"mode", "sum"},
                  {"broadcast", std::int64_t{0}}});
  }

 private:
  std::vector<std::int64_t> factor_;
};

class GlobalPool : public Layer {
 public:
  explicit GlobalPool(bool average) : average_(average) {}
  std::string describe() const override { return average_ ? "GlobalAveragePool" : "GlobalMaxPool"; }

 protected:
  Expr forward(const Expr& x, Pass&) override {
    return global_pool(x, average_ ? "average" : "max");
  }

 private:
  bool average_;
};

}  // namespace

LayerPtr max_pool(const std::vector<std::int64_t>& window, const PoolLayerOptions& options) {
  return std::make_shared<Pool>("MaxPool", "max", window, options);
}
LayerPtr average_pool(const std::vector<std::int64_t>& window, const PoolLayerOptions& options) {
  return std::make_shared<Pool>("AveragePool", "average_exc_pad", window, options);
}
LayerPtr upsample(const std::vector<std::int64_t>& factor) {
  return std::make_shared<Upsample>(factor);
}
LayerPtr global_max_pool() { return std::make_shared<GlobalPool>(false); }
LayerPtr global_average_pool() { return std::make_shared<GlobalPool>(true); }

}  // namespace snug::nn
