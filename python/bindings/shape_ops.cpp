// Functions that make, reshape and join tensors, under the names Python code uses.
#include "arguments.h"

namespace snug::python {

using nb::arg;
using nb::handle;

void bind_shapes(nb::module_& m) {
  m.def(
      "shape_i",
      [](handle x, std::int64_t axis) {
        UserLine line;
        return tensor_of(shape_i(as_tensor(x, "shape"), axis));
      },
      tensor_arg("x"), arg("axis"), "The size of one axis.");
  define(m, "reshape", reshape, tensor_arg("x"), arg("shape"));
  define(m, "flatten", flatten, tensor_arg("x"), arg("ndim") = 1,
         "Keeps the first ndim - 1 axes and joins the others.");
  m.def(
      "dimshuffle",
      [](handle x, handle pattern) {
        UserLine line;
        std::vector<std::int64_t> list;
        for (handle p : nb::iter(pattern)) {
          if (nb::isinstance<nb::str>(p)) {
            if (nb::cast<std::string>(p) != "x")
              fail(Fault::Value, fmt::format("dimshuffle: '{}' in the pattern; a new axis is 'x'",
                                             nb::cast<std::string>(p)));
            list.push_back(-1);
            continue;
          }
          std::int64_t axis = integer_of(p, "dimshuffle");
          if (axis < 0) fail(Fault::Value, fmt::format("dimshuffle: axis {} in the pattern", axis));
          list.push_back(axis);
        }
        return tensor_of(dimshuffle(as_tensor(x, "dimshuffle"), list));
      },
      tensor_arg("x"), arg("pattern"), doc_of("dimshuffle").c_str());
  m.def(
      "transpose",
      [](handle x, handle axes) {
        UserLine line;
        return tensor_of(transpose(as_tensor(x, "transpose"),
                                   axes.is_none() ? std::vector<std::int64_t>{} : ints_of(axes)));
      },
      tensor_arg("x"), arg("axes") = nb::none(),
      "x with its axes reversed, or in the given order.");
  define(m, "swapaxes", swapaxes, tensor_arg("x"), arg("axis1"), arg("axis2"),
         "x with two axes exchanged.");
  define(m, "broadcast_to", broadcast_to, tensor_arg("x"), arg("shape"));
  define(m, "zeros_like", zeros_like, tensor_arg("x"), arg("dtype") = nb::none(),
         "Zeros in the shape of x.");
  define(m, "ones_like", ones_like, tensor_arg("x"), arg("dtype") = nb::none(),
         "Ones in the shape of x.");
  define(m, "addbroadcast", addbroadcast, tensor_arg("x"), arg("axes"),
         "Says that these axes have size 1 and stretch.");
  define(m, "unbroadcast", unbroadcast, tensor_arg("x"), arg("axes"),
         "Says that these axes do not stretch.");
  m.def(
      "specify_shape",
      [](handle x, handle sizes) {
        UserLine line;
        std::vector<std::int64_t> list;
        for (std::int64_t d : dims_of(sizes)) list.push_back(d);
        return tensor_of(specify_shape(as_tensor(x, "specify_shape"), list));
      },
      tensor_arg("x"), arg("shape"),
      "x, whose sizes are checked at the call and known from here on.");
  m.def(
      "concatenate",
      [](handle xs, std::int64_t axis) {
        UserLine line;
        return tensor_of(concatenate(tensors_of(xs, "concatenate"), axis));
      },
      arg("tensors"), arg("axis") = 0, doc_of("concatenate").c_str());
  m.def(
      "stack",
      [](handle xs, std::int64_t axis) {
        UserLine line;
        return tensor_of(stack(tensors_of(xs, "stack"), axis));
      },
      arg("tensors"), arg("axis") = 0, "The tensors side by side on a new axis.");
  define(m, "arange",
         static_cast<Expr (*)(const Arg&, const Arg&, const Arg&, std::optional<DType>)>(arange),
         tensor_arg("start"), tensor_arg("stop"), tensor_arg("step"), arg("dtype").none());
  define(m, "eye", eye, tensor_arg("n"), tensor_arg("m"), arg("k"), arg("dtype"));
  define(m, "tril", tril, tensor_arg("x"), arg("k") = 0, "x with 0 above its k-th diagonal.");
  define(m, "triu", triu, tensor_arg("x"), arg("k") = 0, "x with 0 below its k-th diagonal.");
  define(m, "nonzero", nonzero, tensor_arg("x"));
}

}  // namespace snug::python
