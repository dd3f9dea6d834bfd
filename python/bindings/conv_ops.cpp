// Convolutions, pooling and normalisation of images (ops/conv_functions.h).
#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

ConvOptions options_of(const std::string& border_mode, handle pad, handle subsample,
                       handle dilation, bool flip, std::int64_t groups) {
  return {.border_mode = border_mode,
          .pad = ints_of(pad),
          .subsample = ints_of(subsample),
          .dilation = ints_of(dilation),
          .flip = flip,
          .groups = groups};
}

void bind_conv(nb::module_& m, const char* name,
               Expr (*f)(const Arg&, const Arg&, const ConvOptions&), const char* doc) {
  m.def(
      name,
      [f, name](handle x, handle w, const std::string& border_mode, handle pad, handle subsample,
                handle dilation, bool flip, std::int64_t groups) {
        UserLine line;
        return tensor_of(f(as_tensor(x, name), as_tensor(w, name),
                           options_of(border_mode, pad, subsample, dilation, flip, groups)));
      },
      tensor_arg("x"), tensor_arg("w"), arg("border_mode") = "valid", arg("pad") = nb::tuple(),
      arg("subsample") = nb::tuple(), arg("dilation") = nb::tuple(), arg("flip") = true,
      arg("groups") = 1, doc);
}

void bind_conv_gradient(nb::module_& m, const char* name,
                        Expr (*f)(const Arg&, const Arg&, const Sizes&, const ConvOptions&),
                        const char* doc) {
  m.def(
      name,
      [f, name](handle a, handle b, handle shape, const std::string& border_mode, handle pad,
                handle subsample, handle dilation, bool flip, std::int64_t groups) {
        UserLine line;
        return tensor_of(f(as_tensor(a, name), as_tensor(b, name), sizes_of(shape, name),
                           options_of(border_mode, pad, subsample, dilation, flip, groups)));
      },
      tensor_arg("a"), tensor_arg("b"), arg("shape"), arg("border_mode") = "valid",
      arg("pad") = nb::tuple(), arg("subsample") = nb::tuple(), arg("dilation") = nb::tuple(),
      arg("flip") = true, arg("groups") = 1, doc);
}

void bind_pooling(nb::module_& m) {
  m.def(
      "pool",
      [](handle x, handle window, handle stride, handle pad, bool ignore_border,
         const std::string& mode) {
        UserLine line;
        return tensor_of(pool(as_tensor(x, "pool"), {.window = ints_of(window),
                                                     .stride = ints_of(stride),
                                                     .pad = ints_of(pad),
                                                     .ignore_border = ignore_border,
                                                     .mode = mode}));
      },
      tensor_arg("x"), arg("window"), arg("stride") = nb::tuple(), arg("pad") = nb::tuple(),
      arg("ignore_border") = true, arg("mode") = "max",
      "The largest element, the average or the sum of every window over the last axes.");
  m.def(
      "pool_of_sizes",
      [](handle x, handle window, handle stride, handle pad, bool ignore_border,
         const std::string& mode) {
        UserLine line;
        const PoolSizes sizes{.window = tensors_of(window, "pool"),
                              .stride = tensors_of(stride, "pool"),
                              .pad = tensors_of(pad, "pool")};
        return tensor_of(pool_of_sizes(as_tensor(x, "pool"), sizes, ignore_border, mode));
      },
      tensor_arg("x"), arg("window"), arg("stride"), arg("pad"), arg("ignore_border"), arg("mode"),
      "As pool, with sizes that only a call knows: 0-d integers.");
  define(m, "max_pool_same_size", max_pool_same_size, tensor_arg("x"), arg("window"),
         "x where it is the largest of its window, else 0.");
  define(m, "global_pool", global_pool, tensor_arg("x"), arg("mode") = "average",
         "One number per image and channel: the average, maximum or sum over all axes behind.");
}

}  // namespace

template <>
struct Parameter<Coefficient> {
  using From = nb::handle;
  static Coefficient get(nb::handle h, std::string_view what) {
    if (PyFloat_Check(h.ptr()) || PyLong_Check(h.ptr())) return nb::cast<double>(h);
    return Coefficient(as_tensor(h, what));
  }
};

namespace {

void bind_normalization(nb::module_& m) {
  m.def(
      "batch_normalization_train",
      [](handle x, handle gamma, handle beta, handle axes, handle epsilon, handle factor,
         handle running_mean, handle running_var) {
        UserLine line;
        constexpr const char* kName = "batch_normalization_train";
        const auto optional = [&](handle h) { return Parameter<Expr>::get(h, kName); };
        const auto number = [&](handle h) { return Parameter<Coefficient>::get(h, kName); };
        BatchNormalization r = batch_normalization_train(
            as_tensor(x, kName), as_tensor(gamma, kName), as_tensor(beta, kName), ints_of(axes),
            number(epsilon), number(factor), optional(running_mean), optional(running_var));
        std::vector<Expr> out{r.out, r.mean, r.inverse_deviation};
        if (r.running_mean) out.insert(out.end(), {r.running_mean, r.running_variance});
        return result_of(out);
      },
      tensor_arg("x"), tensor_arg("gamma"), tensor_arg("beta"), arg("axes"), tensor_arg("epsilon"),
      tensor_arg("factor"), arg("running_mean") = nb::none(), arg("running_var") = nb::none(),
      "x normalised by its own statistics, these, and the new running ones.");
  define(m, "batch_normalization_test", batch_normalization_test, tensor_arg("x"),
         tensor_arg("gamma"), tensor_arg("beta"), tensor_arg("mean"), tensor_arg("var"),
         arg("axes"), tensor_arg("epsilon"), "(x - mean) * gamma / sqrt(var + epsilon) + beta");
  define(m, "local_response_normalization", local_response_normalization, tensor_arg("x"),
         arg("size") = 5, arg("alpha") = 1e-4, arg("beta") = 0.75, arg("k") = 2.0,
         "x / (k + alpha * s) ** beta, where s is the sum of the squares of `size` neighbouring "
         "channels.");
}

void bind_sampling(nb::module_& m) {
  define(m, "images2neibs", images2neibs, tensor_arg("x"), arg("shape"), arg("step") = nb::tuple(),
         arg("mode") = "valid", "A matrix with one row per window of images.");
  define(m, "neibs2images", neibs2images, tensor_arg("neibs"), arg("neib_shape"), arg("shape"),
         arg("mode") = "valid", "Images of a shape from their windows.");
  define(m, "bilinear_kernel", bilinear_kernel, tensor_arg("ratio"), arg("normalize") = true,
         "1, 2, ... ratio ... 2, 1, divided by the ratio if normalize.");
  define(m, "bilinear_upsampling", bilinear_upsampling, tensor_arg("x"), arg("numerators"),
         arg("denominators"), "Images enlarged by bilinear interpolation.");
  define(m, "affine_grid", affine_grid, tensor_arg("theta"), arg("rows"), arg("columns"),
         "The coordinates that affine maps give for every place of images.");
  define(m, "sample_grid", sample_grid, tensor_arg("x"), tensor_arg("grid"), arg("border") = "zero",
         "Images at the coordinates of a grid.");
}

}  // namespace

void bind_convolutions(nb::module_& m) {
  bind_conv(m, "conv1d", conv1d, "A convolution along the last of three axes.");
  bind_conv(m, "causal_conv1d", causal_conv1d,
            "A convolution along the last of three axes whose results depend on no later input.");
  bind_conv(m, "conv2d", conv2d, doc_of("conv2d").c_str());
  bind_conv(m, "conv3d", conv3d, doc_of("conv3d").c_str());
  bind_conv_gradient(m, "conv2d_grad_inputs", conv2d_grad_inputs,
                     "The gradient of conv2d by its images.");
  bind_conv_gradient(m, "conv2d_grad_weights", conv2d_grad_weights,
                     "The gradient of conv2d by its filters.");
  bind_conv_gradient(m, "conv3d_grad_inputs", conv3d_grad_inputs,
                     "The gradient of conv3d by its images.");
  bind_conv_gradient(m, "conv3d_grad_weights", conv3d_grad_weights,
                     "The gradient of conv3d by its filters.");
  bind_pooling(m);
  bind_normalization(m);
  bind_sampling(m);
}

}  // namespace snug::python
