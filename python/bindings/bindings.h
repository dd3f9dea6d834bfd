#pragma once
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/function.h"
#include "base/array.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/origin_marks.h"
#include "expr/expr.h"
#include "expr/op_def.h"

namespace snug::python {

namespace nb = nanobind;

// ---- objects.cpp, as_tensor.cpp: expressions as Python objects

/// The Python object of an expression: always the same one while anybody holds the expression.
/// None for an empty expression.
nb::object wrap(const Expr& e);
nb::object wrap(const Ref<Apply>& apply);
/// The object of an expression as a result of a bound function: signatures name its class.
struct Tensor {
  nb::object object;
};
inline Tensor tensor_of(const Expr& e) { return {wrap(e)}; }
nb::list wrap_all(const std::vector<Expr>& items);
bool is_variable(nb::handle h);
/// The expression of a Variable object; a TypeError naming `what` otherwise.
Expr unwrap(nb::handle h, std::string_view what);
std::vector<Expr> unwrap_all(nb::handle sequence, std::string_view what);

/// Anything that can stand for a tensor: a variable, a number, an array, or a list of these.
/// Numbers follow Theano's autocast; errors name `what`.
Expr as_tensor(nb::handle h, std::string_view what);
/// An argument for `as_tensor`, whose text for None is clearer than nanobind's.
inline auto tensor_arg(const char* name) { return nb::arg(name).none(); }
/// True for the kinds of objects that `as_tensor` takes; operators answer NotImplemented otherwise.
bool is_tensor_like(nb::handle h);

/// The text of a type as users know it: "TensorType(float32, matrix)".
std::string describe_type(const TensorType& type);

// ---- arrays.cpp: NumPy and DLPack

void init_arrays();
/// NumPy's number of a dtype, and back. bfloat16 is the one of ml_dtypes.
int numpy_type(DType dtype);
std::optional<DType> dtype_of_descr(PyObject* descr);
/// "float32", numpy.float32, numpy.dtype("float32"), "floatX".
DType as_dtype(nb::handle h);
nb::object numpy_dtype(DType dtype);

/// A NumPy array that shares the storage of `array`.
nb::object export_array(const Array& array);
/// An Array over the memory of a NumPy array, which it keeps alive. Takes a copy where the memory
/// is not aligned, has foreign byte order or strides that are no multiple of the item.
Array array_from(nb::handle ndarray);
/// numpy.asarray for everything, with __dlpack__ objects taken without a copy.
nb::object as_ndarray(nb::handle h);

/// How far values may be converted on the way into a typed variable (Theano's `allow_downcast`).
enum class Downcast : std::int8_t { Never, FloatLiterals, Always };
Downcast downcast_of(nb::handle allow_downcast);  // False, None, True
/// The value of an integer, not of a float or a text that could become one; errors name `what`.
std::int64_t integer_of(nb::handle h, std::string_view what);
/// The same, of one that fits in an int.
int small_integer(nb::handle h, std::string_view what);
/// A tuple of sizes; None becomes -1. A plain integer is one size.
Dims dims_of(nb::handle shape);

/// The value as a NumPy array of exactly this type, converted only as Theano allows; a TypeError
/// that names `what` otherwise, and says how to `allow` more. The result may be `h` itself.
nb::object filter(nb::handle h, const TensorType& type, bool strict, Downcast downcast,
                  std::string_view what,
                  std::string_view allow = "give function() allow_input_downcast=True");

// ---- origin.cpp, interrupt.cpp, errors.cpp

void init_origins(nb::module_& m);
OriginId origin_of_caller();
/// Expressions built while one lives carry the line of the Python code that called us.
struct UserLine {
  OriginOverride origin{with_current_device(origin_of_caller())};
};
void init_errors(nb::module_& m);
/// Sets the Python error for an exception in flight; call inside a catch block.
void set_python_error();

/// While one lives on the main thread, Ctrl-C asks what runs there to stop: a call, compiling,
/// planning. Requests are not for other threads. Made with the GIL.
class InterruptGuard {
 public:
  /// `check_handler`: the call may be long, so make sure that SIGINT still comes to us.
  explicit InterruptGuard(bool check_handler);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

 private:
  bool armed_ = false;
  std::optional<IgnoreInterrupts> ignore_;
};
void init_interrupts();

// ---- the parts of the module

void bind_objects(nb::module_& m);
void bind_types(nb::module_& m);
void bind_shared(nb::module_& m);
void bind_as_tensor(nb::module_& m);
void bind_index(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_function(nb::module_& m);
void bind_memory_reports(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_pickle(nb::module_& m);
void bind_settings(nb::module_& m);
void bind_io(nb::module_& m);
void bind_loaders(nb::module_& m);
void bind_training(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_sources(nb::module_& m);

// ---- index.cpp

/// self[key]. The result remembers both, so that set_subtensor can take it apart again.
nb::object get_item(nb::handle self, nb::handle key);
/// What an object of objects.cpp remembers: a tuple (base, key), or null.
PyObject* indexed_of(nb::handle h);
void set_indexed(nb::handle h, nb::object base_and_key);

}  // namespace snug::python

template <>
struct nanobind::detail::type_caster<snug::python::Tensor> {
  NB_TYPE_CASTER(snug::python::Tensor, const_name("snug._core.TensorVariable"))
  bool from_python(handle, std::uint32_t, cleanup_list*) noexcept { return false; }
  static handle from_cpp(const snug::python::Tensor& t, rv_policy, cleanup_list*) noexcept {
    return handle(t.object).inc_ref();
  }
};
