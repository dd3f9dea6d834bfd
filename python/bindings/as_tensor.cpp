// What can stand for a tensor, and the settings that decide what it becomes.
#include "api/op_info.h"
#include "node_object.h"
#include "numpy_api.h"
#include "ops/functions.h"

namespace snug::python {
namespace {

bool holds_variable(nb::handle h) {
  if (is_variable(h)) return true;
  if (!PyList_Check(h.ptr()) && !PyTuple_Check(h.ptr())) return false;
  for (nb::handle item : nb::iter(h))
    if (holds_variable(item)) return true;
  return false;
}
}  // namespace

Downcast downcast_of(nb::handle h) {
  if (h.is_none()) return Downcast::FloatLiterals;
  return nb::cast<bool>(nb::bool_(h)) ? Downcast::Always : Downcast::Never;
}

std::int64_t integer_of(nb::handle h, std::string_view what) {
  PyObject* index = PyIndex_Check(h.ptr()) ? PyNumber_Index(h.ptr()) : nullptr;
  if (!index) {
    PyErr_Clear();
    fail(Fault::Type, fmt::format("{}: expected an integer, got {} ({})", what, nb::repr(h).c_str(),
                                  Py_TYPE(h.ptr())->tp_name));
  }
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  if (overflow)
    fail(Fault::Value, fmt::format("{}: {} does not fit in an int64", what, nb::repr(h).c_str()));
  return value;
}

int small_integer(nb::handle h, std::string_view what) {
  const std::int64_t value = integer_of(h, what);
  if (value != static_cast<int>(value))
    fail(Fault::Value, fmt::format("{} is {}", what, value), "that many are beyond any machine");
  return static_cast<int>(value);
}

Dims dims_of(nb::handle shape) {
  Dims dims;
  if (PyLong_Check(shape.ptr())) {
    dims.push_back(integer_of(shape, "shape"));
    return dims;
  }
  for (nb::handle d : nb::iter(shape)) dims.push_back(d.is_none() ? -1 : integer_of(d, "shape"));
  return dims;
}

bool is_tensor_like(nb::handle h) {
  PyObject* o = h.ptr();
  return is_variable(h) || PyFloat_Check(o) || PyComplex_Check(o) || PyLong_Check(o) ||
         PyArray_Check(o) || PyArray_CheckScalar(o) || PyList_Check(o) || PyTuple_Check(o) ||
         PyObject_HasAttrString(o, "__dlpack__") || PyObject_HasAttrString(o, "__array__");
}

Expr as_tensor(nb::handle h, std::string_view what) {
  PyObject* o = h.ptr();
  if (is_variable(h)) return Expr(Ref<Variable>(variable_of(o)));
  if (PyBool_Check(o))
    fail(Fault::Type, fmt::format("{}: {} is no tensor", what, o == Py_True ? "True" : "False"),
         "use numpy.array(True) for a constant; to compare two variables use T.eq(x, y)");
  if (PyLong_Check(o)) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return Expr(static_cast<std::int64_t>(value));
    if (overflow > 0) {
      unsigned long long big = PyLong_AsUnsignedLongLong(o);
      if (!PyErr_Occurred()) return Expr(Array::scalar(static_cast<std::uint64_t>(big)));
      PyErr_Clear();
    }
    fail(Fault::Value, fmt::format("{}: the integer does not fit 64 bits", what));
  }
  if (PyFloat_CheckExact(o)) return Expr(PyFloat_AS_DOUBLE(o));
  if (PyComplex_CheckExact(o))
    return Expr(std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
  if (PyList_Check(o) || PyTuple_Check(o)) {
    if (holds_variable(h)) {
      std::vector<Expr> items;
      for (nb::handle item : nb::iter(h)) items.push_back(as_tensor(item, what));
      return stack(items);
    }
    if (PyObject_Length(o) == 0) return Expr(Array::zeros(default_float(), {0}));
  } else if (!is_tensor_like(h)) {
    fail(Fault::Type, fmt::format("{}: cannot make a tensor of {} ({})", what, nb::repr(h).c_str(),
                                  Py_TYPE(o)->tp_name));
  }
  nb::object array;
  try {
    array = as_ndarray(h);
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_ValueError) && !e.matches(PyExc_TypeError)) throw;
    fail(Fault::Value, fmt::format("{}: NumPy makes no array of {}: {}", what, nb::repr(h).c_str(),
                                   nb::str(e.value()).c_str()));
  }
  if (!dtype_of_descr(reinterpret_cast<PyObject*>(
          PyArray_DESCR(reinterpret_cast<PyArrayObject*>(array.ptr())))))
    fail(Fault::Type, fmt::format("{}: an array of dtype {} is not supported", what,
                                  nb::str(nb::object(array.attr("dtype"))).c_str()));
  return Expr(array_from(array));
}

void bind_as_tensor(nb::module_& m) {
  using nb::arg;
  m.def(
      "as_tensor",
      [](nb::handle h, const std::string& what) { return tensor_of(as_tensor(h, what)); },
      tensor_arg("value"), arg("what") = "as_tensor_variable");
  m.def(
      "constant",
      [](nb::handle value, std::string name, nb::handle dtype) {
        Expr e;
        if (!dtype.is_none()) {
          TensorType type;
          type.dtype = as_dtype(dtype);
          nb::object array = as_ndarray(value).attr("astype")(numpy_dtype(type.dtype));
          e = constant(array_from(array), name);
        } else if (PyBool_Check(value.ptr())) {
          e = constant(Array::scalar(value.ptr() == Py_True), name);
        } else {
          e = as_tensor(value, "constant");
          if (!name.empty() && constant_value(e)) e.named(name);
        }
        return wrap(e);
      },
      tensor_arg("value"), arg("name") = "", arg("dtype") = nb::none());
  m.def("default_float", [] { return std::string(name_of(default_float())); });
  m.def("set_default_float", [](const std::string& name) {
    std::optional<DType> t = dtype_from_name(name);
    if (!t) fail(Fault::Value, fmt::format("floatX: there is no dtype '{}'", name));
    set_default_float(*t);
  });
  m.def(
      "upcast",
      [](nb::args dtypes) {
        std::optional<DType> out;
        for (nb::handle h : dtypes) {
          DType t = as_dtype(h);
          out = out ? upcast(*out, t) : t;
        }
        return std::string(name_of(out.value_or(DType::Bool)));
      },
      "The dtype that holds values of all the given ones.");
  m.def("dtype_name", [](nb::handle h) { return std::string(name_of(as_dtype(h))); });
  m.def("nearest", [](const std::string& name, std::vector<std::string> known) {
    return nearest(name, known);
  });
  m.def("live_storage_bytes", [] { return live_storage_bytes(); });
  m.def(
      "op_docs",
      [] {
        nb::dict out;
        for (const OpDef* op : all_ops())
          out[nb::str(op->name.data(), op->name.size())] = nb::str(op->doc.data(), op->doc.size());
        return out;
      },
      "The name and the doc of every op.");
  m.def(
      "op_rows",
      [] {
        nb::dict out;
        for (const OpDef* op : all_ops()) {
          nb::dict row;
          row["doc"] = op->doc;
          row["inputs"] = op->arity;  // -1: any number
          row["outputs"] = op->outputs;
          row["traits"] = trait_names(*op);
          row["gradient"] = op->grad != nullptr;
          row["no_grad"] = op->no_grad;
          row["runs_as"] = ways_to_run(*op);
          row["floats"] = std::pair(op->samples.low, op->samples.high);
          row["ints"] = std::pair(op->samples.int_low, op->samples.int_high);
          row["integers"] = op->samples.integers;
          row["numpy"] = op->samples.numpy ? op->samples.numpy : "";
          out[nb::str(op->name.data(), op->name.size())] = row;
        }
        return out;
      },
      "All that people want to know of every op, by its name.");
}

}  // namespace snug::python
