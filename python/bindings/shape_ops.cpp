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
  m.def(
      "reshape",
      [](handle x, handle sizes) {
        UserLine line;
        return tensor_of(reshape(as_tensor(x, "reshape"), sizes_of(sizes, "reshape")));
      },
      tensor_arg("x"), arg("shape"), doc_of("reshape").c_str());
  m.def(
      "flatten",
      [](handle x, int ndim) {
        UserLine line;
        return tensor_of(flatten(as_tensor(x, "flatten"), ndim));
      },
      tensor_arg("x"), arg("ndim") = 1, "Keeps the first ndim - 1 axes and joins the others.");
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
  m.def(
      "swapaxes",
      [](handle x, std::int64_t a, std::int64_t b) {
        UserLine line;
        return tensor_of(swapaxes(as_tensor(x, "swapaxes"), a, b));
      },
      tensor_arg("x"), arg("axis1"), arg("axis2"), "x with two axes exchanged.");
  m.def(
      "broadcast_to",
      [](handle x, handle sizes) {
        UserLine line;
        return tensor_of(
            broadcast_to(as_tensor(x, "broadcast_to"), sizes_of(sizes, "broadcast_to")));
      },
      tensor_arg("x"), arg("shape"), doc_of("broadcast_to").c_str());
  m.def(
      "zeros_like",
      [](handle x, handle dtype) {
        UserLine line;
        return tensor_of(zeros_like(as_tensor(x, "zeros_like"), dtype_or_none(dtype)));
      },
      tensor_arg("x"), arg("dtype") = nb::none(), "Zeros in the shape of x.");
  m.def(
      "ones_like",
      [](handle x, handle dtype) {
        UserLine line;
        return tensor_of(ones_like(as_tensor(x, "ones_like"), dtype_or_none(dtype)));
      },
      tensor_arg("x"), arg("dtype") = nb::none(), "Ones in the shape of x.");
  m.def(
      "addbroadcast",
      [](handle x, handle axes) {
        UserLine line;
        return tensor_of(addbroadcast(as_tensor(x, "addbroadcast"), ints_of(axes)));
      },
      tensor_arg("x"), arg("axes"), "Says that these axes have size 1 and stretch.");
  m.def(
      "unbroadcast",
      [](handle x, handle axes) {
        UserLine line;
        return tensor_of(unbroadcast(as_tensor(x, "unbroadcast"), ints_of(axes)));
      },
      tensor_arg("x"), arg("axes"), "Says that these axes do not stretch.");
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
  m.def(
      "arange",
      [](handle start, handle stop, handle step, handle dtype) {
        UserLine line;
        return tensor_of(arange(as_tensor(start, "arange"), as_tensor(stop, "arange"),
                                as_tensor(step, "arange"), dtype_or_none(dtype)));
      },
      tensor_arg("start"), tensor_arg("stop"), tensor_arg("step"), arg("dtype").none(),
      doc_of("arange").c_str());
  m.def(
      "eye",
      [](handle n, handle cols, std::int64_t k, handle dtype) {
        UserLine line;
        return tensor_of(eye(as_tensor(n, "eye"), as_tensor(cols, "eye"), k, as_dtype(dtype)));
      },
      tensor_arg("n"), tensor_arg("m"), arg("k"), arg("dtype"), doc_of("eye").c_str());
  m.def(
      "tril",
      [](handle x, std::int64_t k) {
        UserLine line;
        return tensor_of(tril(as_tensor(x, "tril"), k));
      },
      tensor_arg("x"), arg("k") = 0, "x with 0 above its k-th diagonal.");
  m.def(
      "triu",
      [](handle x, std::int64_t k) {
        UserLine line;
        return tensor_of(triu(as_tensor(x, "triu"), k));
      },
      tensor_arg("x"), arg("k") = 0, "x with 0 below its k-th diagonal.");
  m.def(
      "nonzero",
      [](handle x) {
        UserLine line;
        return nb::tuple(wrap_all(nonzero(as_tensor(x, "nonzero"))));
      },
      tensor_arg("x"), doc_of("nonzero").c_str());
}

}  // namespace snug::python
