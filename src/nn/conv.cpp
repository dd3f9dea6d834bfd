#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nn/layers.h"
#include "nn/options.h"

namespace snug::nn {
namespace {

/// What convolutions of any number of axes share.
class Conv : public Layer {
 public:
  Conv(const char* kind, std::size_t axes, std::int64_t filters,
       const std::vector<std::int64_t>& kernel, const ConvLayerOptions& o)
      : Layer(1, o.in),
        kind_(kind),
        filters_(filters),
        kernel_(per_axis(kind, "kernel", kernel, axes)),
        options_(o),
        act_(activation_function(o.activation)) {
    require_positive(kind, "filters", filters);
    for (std::int64_t k : kernel_) require_positive(kind, "kernel", k);
    require_positive(kind, "groups", o.groups);
    if (filters % o.groups != 0)
      fail(Fault::Value,
           fmt::format("{}: {} filters are no multiple of {} groups", kind, filters, o.groups));
    options_.stride = per_axis(kind, "stride", o.stride, axes);
    options_.dilation = per_axis(kind, "dilation", o.dilation, axes);
    if (o.pad.size() == 1) options_.pad = per_axis(kind, "pad", o.pad, axes);
    if (o.border == "same") options_.border = "half";
  }
  std::string describe() const override {
    return fmt::format("{}({}, {}{}{}{})", kind_, filters_, fmt::join(kernel_, "x"),
                       options_.stride[0] == 1 ? "" : fmt::format(", /{}", options_.stride[0]),
                       options_.groups == 1 ? "" : fmt::format(", groups {}", options_.groups),
                       shown_activation(options_.activation));
  }

 protected:
  void make(std::int64_t in) override {
    if (in % options_.groups != 0)
      fail(Fault::Value,
           fmt::format("{} channels are no multiple of {} groups", in, options_.groups));
    double window = 1;
    for (std::int64_t k : kernel_) window *= static_cast<double>(k);
    const auto groups = static_cast<double>(options_.groups);
    const Fans fans{window * static_cast<double>(in) / groups,
                    window * static_cast<double>(filters_) / groups};
    Dims shape = weight_shape(in);
    for (std::int64_t k : kernel_) shape.push_back(k);
    add("weight", shape, options_.weight, fans);
    if (options_.bias) add("bias", {filters_}, options_.bias_start, fans);
  }
  Expr forward(const Expr& x, Pass&) override {
    Expr y = convolve(x);
    if (options_.bias) {
      std::vector<std::int64_t> pattern(static_cast<std::size_t>(x.ndim()), -1);
      pattern[1] = 0;
      y = y + dimshuffle(variable(1), pattern);
    }
    return act_(y);
  }
  virtual Expr convolve(const Expr& x) const = 0;
  /// Without the kernel.
  virtual Dims weight_shape(std::int64_t in) const { return {filters_, in / options_.groups}; }
  const ConvLayerOptions& options() const { return options_; }
  std::int64_t filters() const { return filters_; }
  ConvOptions conv_options() const {
    return {.border_mode = options_.border,
            .pad = options_.pad,
            .subsample = options_.stride,
            .dilation = options_.dilation,
            .flip = false,
            .groups = options_.groups};
  }

 private:
  const char* kind_;
  std::int64_t filters_;
  std::vector<std::int64_t> kernel_;
  ConvLayerOptions options_;
  Activation act_;
};

class Plain : public Conv {
 public:
  using Function = Expr (*)(const Arg& x, const Arg& w, const ConvOptions& options);
  Plain(const char* kind, Function f, std::size_t axes, std::int64_t filters,
        const std::vector<std::int64_t>& kernel, const ConvLayerOptions& o)
      : Conv(kind, axes, filters, kernel, o), f_(f) {}

 protected:
  Expr convolve(const Expr& x) const override { return f_(x, variable(0), conv_options()); }

 private:
  Function f_;
};

class Transposed : public Conv {
 public:
  Transposed(std::int64_t filters, const std::vector<std::int64_t>& kernel,
             const ConvLayerOptions& o)
      : Conv("ConvTranspose2d", 2, filters, kernel, o) {}

 protected:
  Dims weight_shape(std::int64_t in) const override { return {in, filters() / options().groups}; }
  Expr convolve(const Expr& x) const override {
    return conv2d_transpose(x, variable(0), conv_options());
  }
};

}  // namespace

LayerPtr conv1d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                const ConvLayerOptions& options) {
  return std::make_shared<Plain>("Conv1d", snug::conv1d, 1, filters, kernel, options);
}
LayerPtr conv2d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                const ConvLayerOptions& options) {
  return std::make_shared<Plain>("Conv2d", snug::conv2d, 2, filters, kernel, options);
}
LayerPtr conv3d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                const ConvLayerOptions& options) {
  return std::make_shared<Plain>("Conv3d", snug::conv3d, 3, filters, kernel, options);
}
LayerPtr conv_transpose2d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                          const ConvLayerOptions& options) {
  return std::make_shared<Transposed>(filters, kernel, options);
}

}  // namespace snug::nn
