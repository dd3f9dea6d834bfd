#pragma once
// How an expression lies in a Python object: one pointer to its node.
#include <vector>

#include "bindings.h"

namespace snug::python {

struct NodeObject {
  PyObject_HEAD RefCounted* node;  // a Variable or an Apply; owned: dies with this object
  PyObject* dict;                  // attributes the user set
  PyObject* weakrefs;
  PyObject* indexed;  // of x[key]: the tuple (x, key)
  bool strict;        // shared variables: what set_value may convert
  Downcast downcast;
};

extern PyTypeObject* variable_type;
extern PyTypeObject* tensor_variable_type;
extern PyTypeObject* tensor_constant_type;
extern PyTypeObject* shared_variable_type;
extern PyTypeObject* tensor_shared_variable_type;
extern PyTypeObject* apply_type;

inline NodeObject* node_object(nb::handle h) { return reinterpret_cast<NodeObject*>(h.ptr()); }
inline Variable* variable_of(nb::handle h) { return static_cast<Variable*>(node_object(h)->node); }
inline Apply* apply_of(nb::handle h) { return static_cast<Apply*>(node_object(h)->node); }
inline SharedVariable* shared_of(nb::handle h) {
  return static_cast<SharedVariable*>(node_object(h)->node);
}

/// operators.cpp: arithmetic, comparison, truth, indexing and iteration of variables.
std::vector<PyType_Slot> operator_slots();

/// pickle.cpp: Variable.__reduce_ex__.
PyObject* reduce_variable(PyObject* self, PyObject* protocol);

/// What `x.owner.op` shows: an op with its constants.
struct OpView {
  const OpDef* def;
  Attrs attrs;
};

/// That of a node that is on a device: programs of Theano look for "Gpu" in the name of its class.
struct GpuOpView : OpView {};

nb::tuple tuple_of(const Dims& dims);  // None where a size is not known
PyObject* broadcastable_tuple(const TensorType& type);
inline PyObject* str_of(std::string_view s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}

/// The body of a slot: exceptions become Python errors.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}
template <class F>
PyType_Slot slot(int id, F* f) {
  return {id, reinterpret_cast<void*>(f)};
}

/// Adds a method or a property to a type that is not nanobind's own.
template <class F, class... Extra>
void method(PyTypeObject* type, const char* name, F&& f, const Extra&... extra) {
  nb::cpp_function_def(std::forward<F>(f), nb::scope(reinterpret_cast<PyObject*>(type)),
                       nb::name(name), nb::is_method(), extra...);
}

template <class F>
void property(PyTypeObject* type, const char* name, F&& getter, nb::object setter = nb::none(),
              const char* doc = "") {
  nb::object get = nb::cpp_function(std::forward<F>(getter));
  nb::object property =
      nb::handle(reinterpret_cast<PyObject*>(&PyProperty_Type))(get, setter, nb::none(), doc);
  nb::handle(reinterpret_cast<PyObject*>(type)).attr(name) = property;
}

}  // namespace snug::python
