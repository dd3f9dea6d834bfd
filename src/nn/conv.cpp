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
    Dims shape{filters_, in / options_.groups};
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
  const ConvLayerOptions& options() const { return options_; }

 private:
  const char* kind_;
  std::int64_t filters_;
  std::vector<std::int64_t> kernel_;
  ConvLayerOptions options_;
  Activation act_;
};

class Conv2d : public Conv {
 public:
  Conv2d(std::int64_t filters, const std::vector<std::int64_t>& kernel, const ConvLayerOptions& o)
      : Conv("Conv2d", 2, filters, kernel, o) {}

 protected:
  Expr convolve(const Expr& x) const override {
    const ConvLayerOptions& o = options();
    return snug::conv2d(x, variable(0),
                        {.border_mode = o.border,
                         .pad = o.pad,
                         .subsample = {o.stride[0], o.stride[1]},
                         .dilation = {o.dilation[0], o.dilation[1]},
                         .flip = false,
                         .groups = o.groups});
  }
};

}  // namespace

LayerPtr conv2d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                const ConvLayerOptions& options) {
  return std::make_shared<Conv2d>(filters, kernel, options);
}

}  // namespace snug::nn
