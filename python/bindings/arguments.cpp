#include "arguments.h"

#include "numpy_api.h"

namespace snug::python {

using nb::handle;

std::string doc_of(std::string_view name) {
  for (const OpDef* op : all_ops())
    if (op->name == name) return std::string(op->doc);
  return {};
}

std::optional<DType> dtype_or_none(handle h) {
  if (h.is_none()) return {};
  return as_dtype(h);
}

Sizes sizes_of(handle h, std::string_view what) {
  if (nb::isinstance<nb::list>(h) || nb::isinstance<nb::tuple>(h) || PyRange_Check(h.ptr())) {
    std::vector<Expr> sizes;
    for (handle s : nb::iter(h)) sizes.push_back(as_tensor(s, what));
    return Sizes(sizes);
  }
  Expr e = as_tensor(h, what);
  if (e.ndim() == 0) return Sizes(std::vector<Expr>{e});
  return Sizes(e);
}

namespace {

[[noreturn]] void wrong_kind(handle h, std::string_view what, std::string_view expected) {
  fail(Fault::Type, fmt::format("{}: expected {}, got {} ({})", what, expected, nb::repr(h).c_str(),
                                Py_TYPE(h.ptr())->tp_name));
}

/// The items of a list, a tuple, a range and the like. Texts, sets and dicts are none.
nb::iterator items_of(handle h, std::string_view expected, std::string_view what) {
  const bool text = PyUnicode_Check(h.ptr()) || PyBytes_Check(h.ptr());
  PyObject* items = text || PyDict_Check(h.ptr()) ? nullptr : PyObject_GetIter(h.ptr());
  if (!items) {
    PyErr_Clear();
    wrong_kind(h, what, fmt::format("a list of {}", expected));
  }
  return nb::steal<nb::iterator>(items);
}

}  // namespace

Axes axes_of(handle h) {
  if (h.is_none()) return {};
  if (is_variable(h)) {
    std::vector<std::int64_t> list;
    Expr e = unwrap(h, "axis");
    const Array* value = constant_value(e);
    if (!value) fail(Fault::Type, "axis: must be known while building, got an expression");
    for (std::int64_t i = 0; i < value->size(); ++i) list.push_back(value->at_int(i));
    return Axes(list);
  }
  const bool one =
      PyArray_Check(h.ptr())
          ? PyArray_NDIM(reinterpret_cast<PyArrayObject*>(h.ptr())) == 0
          : PyIndex_Check(h.ptr()) || !PySequence_Check(h.ptr()) || PyUnicode_Check(h.ptr());
  return one ? Axes(integer_of(h, "axis")) : Axes(ints_of(h, "axis"));
}

bool flag_of(handle h, std::string_view what) {
  if (h.is(Py_True) || h.is(Py_False)) return h.is(Py_True);
  if (!is_variable(h) && (PyIndex_Check(h.ptr()) || PyArray_IsScalar(h.ptr(), Bool)))
    if (int truth = PyObject_IsTrue(h.ptr()); truth >= 0) return truth != 0;
  PyErr_Clear();
  wrong_kind(h, what, "True or False");
}

double number_of(handle h, std::string_view what) {
  const bool number =
      PyFloat_Check(h.ptr()) || PyIndex_Check(h.ptr()) || PyArray_IsScalar(h.ptr(), Floating);
  const double value = number && !is_variable(h) ? PyFloat_AsDouble(h.ptr()) : -1.0;
  if (!number || is_variable(h) || PyErr_Occurred()) {
    PyErr_Clear();
    wrong_kind(h, what, "a number");
  }
  return value;
}

std::string text_of(handle h, std::string_view what) {
  if (!PyUnicode_Check(h.ptr())) wrong_kind(h, what, "a text");
  return nb::cast<std::string>(h);
}

std::vector<Expr> tensors_of(handle h, std::string_view what) {
  std::vector<Expr> out;
  for (nb::iterator it = items_of(h, "tensors", what); it != nb::iterator::sentinel(); ++it)
    out.push_back(as_tensor(*it, what));
  return out;
}

std::vector<std::int64_t> ints_of(handle h, std::string_view what) {
  std::vector<std::int64_t> out;
  for (nb::iterator it = items_of(h, "integers", what); it != nb::iterator::sentinel(); ++it)
    out.push_back(integer_of(*it, what));
  return out;
}

}  // namespace snug::python
