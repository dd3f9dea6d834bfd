#include "bindings.h"
#include "numpy_api.h"
#include "ops/functions.h"

namespace snug::python {
namespace {

bool holds_slice(nb::handle list) {
  for (nb::handle item : nb::iter(list))
    if (PySlice_Check(item.ptr())) return true;
  return false;
}

Expr bound(nb::handle h) { return h.is_none() ? Expr() : as_tensor(h, "index"); }

IndexItem item_of(nb::handle h) {
  PyObject* o = h.ptr();
  if (h.is_none()) return IndexItem::newaxis();
  if (o == Py_Ellipsis) return IndexItem::ellipsis();
  if (PySlice_Check(o)) {
    nb::object start = h.attr("start"), stop = h.attr("stop"), step = h.attr("step");
    return IndexItem::range(bound(start), bound(stop), bound(step));
  }
  if (PyBool_Check(o) || PyArray_IsScalar(o, Bool)) {
    Array mask = Array::zeros(DType::Bool, {});
    mask.set_int(0, PyObject_IsTrue(o));
    return IndexItem(Expr(mask));
  }
  if (PyFloat_Check(o)) fail(Fault::Index, "index: a float is no index", "cast it to an integer");
  if (PyUnicode_Check(o)) fail(Fault::Index, "index: a string is no index");
  if ((PyList_Check(o) || PyTuple_Check(o)) && PyObject_Length(o) == 0)
    return IndexItem(Expr(Array::zeros(DType::I64, {0})));
  return IndexItem(as_tensor(h, "index"));
}

/// The items of an index as Python writes it. A list that holds a slice stands for a tuple, as
/// programs written for old NumPy use it.
std::vector<IndexItem> items_of(nb::handle key) {
  std::vector<IndexItem> items;
  if (PyTuple_Check(key.ptr()) || (PyList_Check(key.ptr()) && holds_slice(key))) {
    for (nb::handle item : nb::iter(key)) items.push_back(item_of(item));
  } else {
    items.push_back(item_of(key));
  }
  return items;
}

/// `f(base, items, y)` for the x[key] that `x` is.
template <class F>
Tensor assign(nb::handle x, nb::handle y, const char* name, F f) {
  UserLine line;
  if (!is_variable(x) || !indexed_of(x))
    fail(Fault::Type,
         fmt::format("{}: the first argument is not the result of indexing a variable", name),
         fmt::format("write {}(x[index], y)", name));
  nb::tuple parts = nb::borrow<nb::tuple>(indexed_of(x));
  return tensor_of(f(unwrap(parts[0], name), items_of(parts[1]), as_tensor(y, name)));
}

}  // namespace

nb::object get_item(nb::handle self, nb::handle key) {
  UserLine line;
  Expr base = unwrap(self, "index");
  Expr out = subtensor(base, items_of(key));
  if (same(out, base)) out = identity(base);  // x[...] is an expression of its own
  nb::object result = wrap(out);
  set_indexed(result, nb::make_tuple(nb::borrow(self), nb::borrow(key)));
  return result;
}

void bind_index(nb::module_& m) {
  m.def(
      "set_subtensor",
      [](nb::handle x, nb::handle y) {
        return assign(x, y, "set_subtensor",
                      [](const Expr& base, const auto& items, const Expr& v) {
                        return set_subtensor(base, items, v);
                      });
      },
      tensor_arg("x"), tensor_arg("y"),
      "The tensor that x is a part of, with that part replaced by y: set_subtensor(a[i], y).");
  m.def(
      "inc_subtensor",
      [](nb::handle x, nb::handle y) {
        return assign(x, y, "inc_subtensor",
                      [](const Expr& base, const auto& items, const Expr& v) {
                        return inc_subtensor(base, items, v);
                      });
      },
      tensor_arg("x"), tensor_arg("y"),
      "The tensor that x is a part of, with y added to that part; repeated indices add up.");
}

}  // namespace snug::python
