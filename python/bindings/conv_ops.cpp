// Convolutions and pooling (ops/conv_functions.h).
#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

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
  define(m, "max_pool_same_size", max_pool_same_size, tensor_arg("x"), arg("window"),
         "x where it is the largest of its window, else 0.");
}

}  // namespace

void bind_convolutions(nb::module_& m) {
  m.def(
      "conv2d",
      [](handle x, handle w, const std::string& border_mode, handle pad,
         std::pair<std::int64_t, std::int64_t> subsample,
         std::pair<std::int64_t, std::int64_t> dilation, bool flip, std::int64_t groups) {
        UserLine line;
        ConvOptions options;
        options.border_mode = border_mode;
        options.pad = ints_of(pad);
        options.subsample = {subsample.first, subsample.second};
        options.dilation = {dilation.first, dilation.second};
        options.flip = flip;
        options.groups = groups;
        return tensor_of(conv2d(as_tensor(x, "conv2d"), as_tensor(w, "conv2d"), options));
      },
      tensor_arg("x"), tensor_arg("w"), arg("border_mode"), arg("pad"), arg("subsample"),
      arg("dilation"), arg("flip"), arg("groups"), doc_of("conv2d").c_str());
  bind_pooling(m);
}

}  // namespace snug::python
