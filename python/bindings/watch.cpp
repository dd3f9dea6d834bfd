// Identities with a meaning of their own.
#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

/// A Python callable that may be held and called without the GIL.
std::function<void(const Array&)> callable_of(handle f) {
  if (f.is_none()) return nullptr;
  std::shared_ptr<nb::object> held(new nb::object(nb::borrow(f)), [](nb::object* o) {
    if (!nb::is_alive()) return;  // the interpreter is gone, and the object with it
    nb::gil_scoped_acquire gil;
    delete o;
  });
  return [held](const Array& value) {
    nb::gil_scoped_acquire gil;
    (*held)(export_array(value.contiguous_copy()));
  };
}

}  // namespace

void bind_watch(nb::module_& m) {
  define(m, "stop_gradient", stop_gradient, tensor_arg("x"));
  define(m, "disconnected_grad", disconnected_grad, tensor_arg("x"));
  define(m, "undefined_grad", undefined_grad, tensor_arg("x"));
  define(m, "grad_clip", grad_clip, tensor_arg("x"), arg("lower_bound"), arg("upper_bound"));
  define(m, "grad_scale", grad_scale, tensor_arg("x"), arg("multiplier"));
  define(m, "on_device", on_device, tensor_arg("x"), arg("device"));
  define(m, "assert_all", assert_, tensor_arg("x"), arg("conditions"), arg("message"),
         "x; the call fails if one of the conditions is 0, and changes nothing.");
  m.def(
      "ifelse",
      [](handle condition, handle then, handle otherwise) {
        UserLine line;
        return wrap_all(ifelse(as_tensor(condition, "ifelse"), tensors_of(then, "ifelse"),
                               tensors_of(otherwise, "ifelse")));
      },
      tensor_arg("condition"), arg("then"), arg("otherwise"),
      "The values of one of two branches, which alone is computed.");
  m.def(
      "print_value",
      [](handle x, std::string message, handle show) {
        UserLine line;
        return tensor_of(print(as_tensor(x, "Print"), std::move(message), callable_of(show)));
      },
      tensor_arg("x"), arg("message"), arg("show").none(),
      "x; `show` gets its value when it runs.");
}

}  // namespace snug::python
