// Expressions as Python objects. The types are written against CPython itself: an object is one
// pointer to its node, the node's count is the object's count (RefCounted::tie), and the garbage
// collector sees through the parts of a graph that have no object of their own.
#include "bindings.h"

#include <nanobind/ndarray.h>
#include <structmember.h>

#include "numpy_api.h"
#include "ops/functions.h"

namespace snug::python {
namespace {

struct NodeObject {
  PyObject_HEAD
  RefCounted* node;    // a Variable or an Apply; owned: dies with this object
  PyObject* dict;      // attributes the user set
  PyObject* weakrefs;
  PyObject* indexed;   // of x[key]: the tuple (x, key)
  bool strict;         // shared variables: what set_value may convert
  Downcast downcast;
};

PyTypeObject* variable_type = nullptr;
PyTypeObject* tensor_variable_type = nullptr;
PyTypeObject* tensor_constant_type = nullptr;
PyTypeObject* shared_variable_type = nullptr;
PyTypeObject* tensor_shared_variable_type = nullptr;
PyTypeObject* apply_type = nullptr;

NodeObject* cast(PyObject* o) { return reinterpret_cast<NodeObject*>(o); }
Variable* variable_of(PyObject* o) { return static_cast<Variable*>(cast(o)->node); }
Apply* apply_of(PyObject* o) { return static_cast<Apply*>(cast(o)->node); }
SharedVariable* shared_of(PyObject* o) { return static_cast<SharedVariable*>(cast(o)->node); }

// ---- counts

void retain_object(void* p) noexcept {
  if (PyGILState_Check()) {
    Py_INCREF(static_cast<PyObject*>(p));
  } else if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_INCREF(static_cast<PyObject*>(p));
    PyGILState_Release(state);
  }
}

/// An object that dies releases the nodes below it, whose objects die in turn. Those wait in a
/// queue, so that chains of any length need no stack.
void release_with_gil(PyObject* o) noexcept {
  static std::vector<PyObject*> queue;  // guarded by the GIL
  static PyThreadState* draining = nullptr;
  if (draining == PyThreadState_Get()) {
    queue.push_back(o);
    return;
  }
  if (draining) {  // another thread is in the middle of a destructor that gave up the GIL
    Py_DECREF(o);
    return;
  }
  draining = PyThreadState_Get();
  Py_DECREF(o);
  while (!queue.empty()) {
    PyObject* next = queue.back();
    queue.pop_back();
    Py_DECREF(next);
  }
  draining = nullptr;
}

void release_object(void* p) noexcept {
  if (PyGILState_Check()) {
    release_with_gil(static_cast<PyObject*>(p));
  } else if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    release_with_gil(static_cast<PyObject*>(p));
    PyGILState_Release(state);
  }
}

// ---- garbage collection

/// Calls `f` with every counted node that `node` holds, once per reference.
template <class F>
void for_each_held(RefCounted* node, F&& f) {
  if (auto* apply = dynamic_cast<Apply*>(node)) {
    for (const Expr& x : apply->inputs) f(x.get());
    for (const Attrs::Item& item : apply->attrs.items())
      if (auto* lambda = std::get_if<std::shared_ptr<const Lambda>>(&item.value))
        if (*lambda && lambda->use_count() == 1) {
          for (const Expr& x : (*lambda)->params) f(x.get());
          for (const Expr& x : (*lambda)->results) f(x.get());
        }
    return;
  }
  auto* variable = static_cast<Variable*>(node);
  if (variable->owner) f(variable->owner.get());
  if (auto* shared = dynamic_cast<SharedVariable*>(variable))
    if (shared->default_update) f(shared->default_update.get());
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  NodeObject* object = cast(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object->dict);
  Py_VISIT(object->indexed);
  if (!object->node) return 0;
  // Nodes without an object that only this object holds, directly or through such nodes, are part
  // of it: their references are its references. `wrap` gives every other node an object.
  int result = 0;
  std::vector<RefCounted*> stack{object->node};
  while (!stack.empty() && result == 0) {
    RefCounted* node = stack.back();
    stack.pop_back();
    for_each_held(node, [&](RefCounted* held) {
      if (result != 0 || !held) return;
      if (void* o = held->script_object())
        result = visit(static_cast<PyObject*>(o), arg);
      else if (held->held_once_from_cpp())
        stack.push_back(held);
    });
  }
  return result;
}

int node_clear(PyObject* self) {
  // Expressions form no cycles by themselves: each goes through an attribute or a default update.
  Py_CLEAR(cast(self)->dict);
  Py_CLEAR(cast(self)->indexed);
  if (PyObject_TypeCheck(self, shared_variable_type)) shared_of(self)->default_update = Expr();
  return 0;
}

void node_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, node_dealloc)
  NodeObject* object = cast(self);
  if (object->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->dict);
  Py_CLEAR(object->indexed);
  delete object->node;
  object->node = nullptr;
  type->tp_free(self);
  Py_DECREF(type);
  Py_TRASHCAN_END
}

PyTypeObject* type_for(RefCounted* node) {
  if (dynamic_cast<Apply*>(node)) return apply_type;
  if (dynamic_cast<Constant*>(node)) return tensor_constant_type;
  if (dynamic_cast<SharedVariable*>(node)) return tensor_shared_variable_type;
  return tensor_variable_type;
}

/// A new reference to the object of a node, which gets one if it has none.
PyObject* object_of(RefCounted* node) {
  if (void* o = node->script_object()) {
    Py_INCREF(static_cast<PyObject*>(o));
    return static_cast<PyObject*>(o);
  }
  PyTypeObject* type = type_for(node);
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) throw nb::python_error();
  cast(self)->node = node;
  cast(self)->downcast = Downcast::FloatLiterals;
  node->tie(self);
  return self;
}

bool is_leaf(RefCounted* node) {
  bool leaf = true;
  for_each_held(node, [&](RefCounted*) { leaf = false; });
  return leaf;
}

/// The object of a node. Nodes below it that several others hold get objects as well, so that the
/// collector can tell who holds them; the rest of the part below is a tree that this object owns.
PyObject* object_with_parts(RefCounted* node) {
  if (node->script_object()) return object_of(node);
  PyObject* result = object_of(node);
  std::vector<RefCounted*> stack{node};
  while (!stack.empty()) {
    RefCounted* top = stack.back();
    stack.pop_back();
    for_each_held(top, [&](RefCounted* held) {
      if (!held || held->script_object() || is_leaf(held)) return;
      if (!held->held_once_from_cpp()) Py_DECREF(object_of(held));
      stack.push_back(held);
    });
  }
  return result;
}

template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// ---- attributes

PyObject* str_of(std::string_view s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}

nb::tuple tuple_of(const Dims& dims) {
  nb::list out;
  for (std::int64_t d : dims) out.append(d < 0 ? nb::none() : nb::object(nb::int_(d)));
  return nb::tuple(out);
}

PyObject* get_name(PyObject* self, void*) {
  const std::string& name = variable_of(self)->name;
  if (name.empty()) Py_RETURN_NONE;
  return str_of(name);
}
int set_name(PyObject* self, PyObject* value, void*) {
  if (!value || value == Py_None) {
    variable_of(self)->name.clear();
    return 0;
  }
  if (!PyUnicode_Check(value)) {
    PyErr_Format(PyExc_TypeError, "name: expected a string or None, got %s",
                 Py_TYPE(value)->tp_name);
    return -1;
  }
  const char* text = PyUnicode_AsUTF8(value);
  if (!text) return -1;
  variable_of(self)->name = text;
  return 0;
}
PyObject* get_type(PyObject* self, void*) {
  return guarded([&] { return nb::cast(variable_of(self)->type).release().ptr(); });
}
PyObject* get_dtype(PyObject* self, void*) { return str_of(name_of(variable_of(self)->type.dtype)); }
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(variable_of(self)->type.ndim()); }

PyObject* broadcastable_tuple(const TensorType& type) {
  PyObject* out = PyTuple_New(type.ndim());
  if (!out) return nullptr;
  for (int i = 0; i < type.ndim(); ++i)
    PyTuple_SET_ITEM(out, i, PyBool_FromLong(type.broadcastable(i)));
  return out;
}
PyObject* get_broadcastable(PyObject* self, void*) {
  return broadcastable_tuple(variable_of(self)->type);
}
PyObject* get_owner(PyObject* self, void*) {
  return guarded([&] { return wrap(variable_of(self)->owner).release().ptr(); });
}
PyObject* get_index(PyObject* self, void*) {
  if (!variable_of(self)->owner) Py_RETURN_NONE;
  return PyLong_FromUnsignedLong(variable_of(self)->index);
}
PyObject* get_origin(PyObject* self, void*) {
  return guarded([&] {
    nb::list out;
    for (const Frame& f : frames_of(variable_of(self)->origin))
      out.append(nb::make_tuple(f.file, f.line, f.function));
    return out.release().ptr();
  });
}
PyObject* get_static_shape(PyObject* self, void*) {
  return guarded([&] { return tuple_of(variable_of(self)->type.shape).release().ptr(); });
}

PyGetSetDef variable_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"name", get_name, set_name, "The name, or None.", nullptr},
    {"type", get_type, nullptr, "The TensorType.", nullptr},
    {"dtype", get_dtype, nullptr, "The name of the dtype.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of dimensions.", nullptr},
    {"broadcastable", get_broadcastable, nullptr, "Which dimensions stretch.", nullptr},
    {"owner", get_owner, nullptr, "The Apply that computes it, or None.", nullptr},
    {"index", get_index, nullptr, "Which output of the owner it is.", nullptr},
    {"origin", get_origin, nullptr,
     "Where it was built: (file, line, function), innermost first.", nullptr},
    {"static_shape", get_static_shape, nullptr, "The sizes known by now; None where unknown.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef variable_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(NodeObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NodeObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyObject* variable_str(PyObject* self) {
  return guarded([&] { return str_of(label(Expr(Ref<Variable>(variable_of(self))))); });
}
Py_hash_t node_hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(self) >> 4);
}

// ---- operators

using Binary = Expr (*)(const Expr&, const Expr&);
using Unary = Expr (*)(const Expr&);

PyObject* binary(PyObject* a, PyObject* b, const char* name, Binary f) noexcept {
  if (!is_tensor_like(a) || !is_tensor_like(b)) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] {
    UserLine line;
    Expr x = as_tensor(a, name), y = as_tensor(b, name);
    return wrap(f(x, y)).release().ptr();
  });
}
PyObject* unary(PyObject* a, const char* name, Unary f) noexcept {
  return guarded([&] {
    UserLine line;
    return wrap(f(unwrap(a, name))).release().ptr();
  });
}

#define SNUG_BINARY(slot, text, expression)                                 \
  PyObject* slot(PyObject* a, PyObject* b) {                                \
    return binary(a, b, text, [](const Expr& x, const Expr& y) -> Expr { return expression; }); \
  }
#define SNUG_UNARY(slot, text, expression)                                  \
  PyObject* slot(PyObject* a) {                                             \
    return unary(a, text, [](const Expr& x) -> Expr { return expression; }); \
  }
SNUG_BINARY(slot_add, "add", snug::add(x, y))
SNUG_BINARY(slot_sub, "sub", snug::sub(x, y))
SNUG_BINARY(slot_mul, "mul", snug::mul(x, y))
SNUG_BINARY(slot_div, "div", snug::div(x, y))
SNUG_BINARY(slot_floor_div, "floor_div", snug::floor_div(x, y))
SNUG_BINARY(slot_mod, "mod", snug::mod(x, y))
SNUG_BINARY(slot_and, "bit_and", snug::bit_and(x, y))
SNUG_BINARY(slot_or, "bit_or", snug::bit_or(x, y))
SNUG_BINARY(slot_xor, "bit_xor", snug::bit_xor(x, y))
SNUG_BINARY(slot_lshift, "shl", snug::shl(x, y))
SNUG_BINARY(slot_rshift, "shr", snug::shr(x, y))
SNUG_BINARY(slot_matmul, "dot", snug::dot(x, y))
SNUG_BINARY(op_lt, "lt", snug::lt(x, y))
SNUG_BINARY(op_le, "le", snug::le(x, y))
SNUG_BINARY(op_gt, "gt", snug::gt(x, y))
SNUG_BINARY(op_ge, "ge", snug::ge(x, y))
SNUG_BINARY(pow_two, "pow", snug::pow(x, y))
SNUG_UNARY(slot_negative, "neg", snug::neg(x))
SNUG_UNARY(slot_absolute, "abs", snug::abs(x))
SNUG_UNARY(slot_invert, "invert", snug::invert(x))

PyObject* slot_power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return pow_two(a, b);
}
PyObject* slot_positive(PyObject* a) {
  Py_INCREF(a);
  return a;
}
PyObject* slot_divmod(PyObject* a, PyObject* b) {
  PyObject* q = slot_floor_div(a, b);
  if (!q || q == Py_NotImplemented) return q;
  PyObject* r = slot_mod(a, b);
  PyObject* out = r ? PyTuple_Pack(2, q, r) : nullptr;
  Py_DECREF(q);
  Py_XDECREF(r);
  return out;
}

int slot_bool(PyObject* self) {
  Variable* v = variable_of(self);
  if (v->owner) {
    std::string_view op = v->owner->op->name;
    if (op == "lt" || op == "le" || op == "gt" || op == "ge") {
      PyErr_SetString(PyExc_TypeError,
                      "Variables do not support boolean operations: this is the comparison of two "
                      "expressions, whose value is not known yet. Use T.switch, or T.and_ instead "
                      "of `a < b < c`.");
      return -1;
    }
  }
  return 1;
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_LT: return op_lt(a, b);
    case Py_LE: return op_le(a, b);
    case Py_GT: return op_gt(a, b);
    case Py_GE: return op_ge(a, b);
    case Py_EQ: return PyBool_FromLong(a == b);
    default: return PyBool_FromLong(a != b);
  }
}

PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&] { return get_item(self, key).release().ptr(); });
}

PyObject* iterate(PyObject* self) {
  const TensorType& type = variable_of(self)->type;
  if (type.ndim() != 1 || type.shape[0] < 0) {
    PyErr_SetString(PyExc_TypeError,
                    "a tensor whose length is not known while building does not support "
                    "iteration. Did you mean T.sum instead of sum?");
    return nullptr;
  }
  return guarded([&] {
    nb::list items;
    for (std::int64_t i = 0; i < type.shape[0]; ++i) items.append(get_item(self, nb::int_(i)));
    return PyObject_GetIter(items.ptr());
  });
}

PyObject* no_pickle(PyObject* self, PyObject*) {
  PyErr_Format(PyExc_TypeError,
               "cannot copy or pickle a %s: expressions are not serialised yet. Save the values of "
               "shared variables (get_value) instead.",
               Py_TYPE(self)->tp_name);
  return nullptr;
}

PyMethodDef variable_methods[] = {
    {"__reduce_ex__", no_pickle, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

// ---- Apply

PyObject* apply_inputs(PyObject* self, void*) {
  return guarded([&] { return wrap_all(apply_of(self)->inputs).release().ptr(); });
}
PyObject* apply_outputs(PyObject* self, void*) {
  return guarded([&] {
    nb::list out;
    for (std::size_t i = 0; i < apply_of(self)->types.size(); ++i)
      out.append(wrap(apply_of(self)->output(i)));
    return out.release().ptr();
  });
}

/// What `x.owner.op` shows: an op with its constants.
struct OpView {
  const OpDef* def;
  Attrs attrs;
};

nb::object value_of(const Attrs::Value& value) {
  return std::visit(
      [](const auto& v) -> nb::object {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, DType>) return nb::str(name_of(v).data(), name_of(v).size());
        else if constexpr (std::is_same_v<V, std::shared_ptr<const Array>>)
          return v ? export_array(v->contiguous_copy()) : nb::none();
        else if constexpr (std::is_same_v<V, std::shared_ptr<const Lambda>>) {
          if (!v) return nb::none();
          return nb::make_tuple(wrap_all(v->params), wrap_all(v->results));
        } else return nb::cast(v);
      },
      value);
}

PyObject* apply_op(PyObject* self, void*) {
  return guarded([&] {
    return nb::cast(OpView{apply_of(self)->op, apply_of(self)->attrs}).release().ptr();
  });
}
PyObject* apply_str(PyObject* self) {
  return guarded([&] {
    std::string text(apply_of(self)->op->name);
    text += "(";
    for (std::size_t i = 0; i < apply_of(self)->inputs.size(); ++i)
      text += (i ? ", " : "") + label(apply_of(self)->inputs[i]);
    return str_of(text + ")");
  });
}
PyGetSetDef apply_getset[] = {
    {"op", apply_op, nullptr, "The op with its constants.", nullptr},
    {"inputs", apply_inputs, nullptr, "The variables it reads.", nullptr},
    {"outputs", apply_outputs, nullptr, "The variables it computes.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef apply_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NodeObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

// ---- making the types

constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
                            Py_TPFLAGS_DISALLOW_INSTANTIATION;

template <class F>
PyType_Slot slot(int id, F* f) {
  return {id, reinterpret_cast<void*>(f)};
}

PyTypeObject* make_type(nb::module_& m, const char* name, std::vector<PyType_Slot> slots,
                        PyTypeObject* base, const char* doc) {
  std::string* full = new std::string(std::string("snug._core.") + name);  // the type points at it
  if (base) {
    slots.push_back(slot(Py_tp_dealloc, node_dealloc));
    slots.push_back(slot(Py_tp_traverse, node_traverse));
    slots.push_back(slot(Py_tp_clear, node_clear));
  }
  slots.push_back({Py_tp_doc, const_cast<char*>(doc)});
  slots.push_back({0, nullptr});
  PyType_Spec spec{full->c_str(), base ? 0 : static_cast<int>(sizeof(NodeObject)), 0, kFlags,
                   slots.data()};
  PyObject* bases = base ? PyTuple_Pack(1, base) : nullptr;
  PyObject* type = PyType_FromSpecWithBases(&spec, bases);
  Py_XDECREF(bases);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return reinterpret_cast<PyTypeObject*>(type);
}

template <class F, class... Extra>
void method(PyTypeObject* type, const char* name, F&& f, const Extra&... extra) {
  nb::cpp_function_def(std::forward<F>(f), nb::scope(reinterpret_cast<PyObject*>(type)),
                       nb::name(name), nb::is_method(), extra...);
}

template <class F>
void property(PyTypeObject* type, const char* name, F&& getter, nb::object setter = nb::none(),
              const char* doc = "") {
  nb::object get = nb::cpp_function(std::forward<F>(getter));
  nb::object property = nb::handle(reinterpret_cast<PyObject*>(&PyProperty_Type))(
      get, setter, nb::none(), doc);
  nb::handle(reinterpret_cast<PyObject*>(type)).attr(name) = property;
}

void make_types(nb::module_& m) {
  std::vector<PyType_Slot> base = {
      slot(Py_tp_dealloc, node_dealloc),
      slot(Py_tp_traverse, node_traverse),
      slot(Py_tp_clear, node_clear),
      slot(Py_tp_repr, variable_str),
      slot(Py_tp_str, variable_str),
      slot(Py_tp_hash, node_hash),
      slot(Py_tp_richcompare, compare),
      slot(Py_tp_iter, iterate),
      slot(Py_tp_getset, variable_getset),
      slot(Py_tp_members, variable_members),
      slot(Py_tp_methods, variable_methods),
      slot(Py_mp_subscript, subscript),
      slot(Py_nb_add, slot_add),
      slot(Py_nb_subtract, slot_sub),
      slot(Py_nb_multiply, slot_mul),
      slot(Py_nb_true_divide, slot_div),
      slot(Py_nb_floor_divide, slot_floor_div),
      slot(Py_nb_remainder, slot_mod),
      slot(Py_nb_divmod, slot_divmod),
      slot(Py_nb_power, slot_power),
      slot(Py_nb_matrix_multiply, slot_matmul),
      slot(Py_nb_and, slot_and),
      slot(Py_nb_or, slot_or),
      slot(Py_nb_xor, slot_xor),
      slot(Py_nb_lshift, slot_lshift),
      slot(Py_nb_rshift, slot_rshift),
      slot(Py_nb_negative, slot_negative),
      slot(Py_nb_positive, slot_positive),
      slot(Py_nb_absolute, slot_absolute),
      slot(Py_nb_invert, slot_invert),
      slot(Py_nb_bool, slot_bool),
  };
  variable_type = make_type(m, "Variable", base, nullptr,
                            "An expression. One expression is one object for its whole life: it "
                            "compares by identity, may be a key, and keeps attributes set on it.");
  nb::handle(reinterpret_cast<PyObject*>(variable_type)).attr("__array_ufunc__") = nb::none();
  nb::handle(reinterpret_cast<PyObject*>(variable_type)).attr("__array_priority__") = 1000;
  tensor_variable_type = make_type(m, "TensorVariable", {}, variable_type,
                                   "An input or a computed value.");
  tensor_constant_type = make_type(m, "TensorConstant", {}, variable_type, "A constant.");
  shared_variable_type = make_type(m, "SharedVariable", {}, variable_type,
                                   "A value that lives between calls.");
  tensor_shared_variable_type = make_type(m, "TensorSharedVariable", {}, shared_variable_type,
                                          "An array that lives between calls.");
  apply_type = make_type(m, "Apply",
                         {slot(Py_tp_dealloc, node_dealloc), slot(Py_tp_traverse, node_traverse),
                          slot(Py_tp_clear, +[](PyObject*) { return 0; }),
                          slot(Py_tp_repr, apply_str), slot(Py_tp_hash, node_hash),
                          slot(Py_tp_getset, apply_getset), slot(Py_tp_members, apply_members)},
                         nullptr, "One application of an op.");
}

// ---- constants and shared variables

Array read_value(SharedVariable* shared, bool borrow) {
  nb::gil_scoped_release no_gil;  // a running call may hold the lock for long
  return shared->get_value(borrow);
}

nb::object get_value(nb::handle self, bool borrow, bool) {
  return export_array(read_value(shared_of(self.ptr()), borrow));
}

void set_value(nb::handle self, nb::handle value, bool) {
  SharedVariable* shared = shared_of(self.ptr());
  NodeObject* object = cast(self.ptr());
  std::string what = fmt::format("set_value of {}", label(Expr(Ref<Variable>(shared))));
  nb::object data = filter(value, shared->type, object->strict, object->downcast, what);
  Array array = array_from(data);
  nb::gil_scoped_release no_gil;
  shared->set_value(array);
  array = {};
}

std::uint8_t mask_of(nb::handle broadcastable, std::size_t ndim, std::string_view what) {
  if (broadcastable.is_none()) return 0;
  std::uint8_t mask = 0;
  std::size_t i = 0;
  for (nb::handle b : nb::iter(broadcastable)) {
    if (i >= 8) break;
    if (nb::cast<bool>(nb::bool_(b))) mask |= static_cast<std::uint8_t>(1u << i);
    ++i;
  }
  if (i != ndim)
    fail(Fault::Value,
         fmt::format("{}: broadcastable has {} entries for {} dimensions", what, i, ndim));
  return mask;
}

nb::object make_shared(nb::handle value, std::string name, bool strict, nb::handle allow_downcast,
                       nb::handle broadcastable) {
  Ref<SharedVariable> shared;
  if (nb::isinstance<Recipe>(value)) {
    const Recipe& recipe = nb::cast<const Recipe&>(value);
    shared = Ref<SharedVariable>(new SharedVariable(
        recipe, std::move(name), mask_of(broadcastable, recipe.shape.size(), "shared")));
  } else {
    Array array = array_from(as_ndarray(value));
    shared = Ref<SharedVariable>(new SharedVariable(
        array, std::move(name), mask_of(broadcastable, array.shape.size(), "shared")));
  }
  shared->origin = current_origin();
  nb::object out = wrap(Expr(Ref<Variable>(shared)));
  cast(out.ptr())->strict = strict;
  cast(out.ptr())->downcast = downcast_of(allow_downcast);
  return out;
}

Recipe make_recipe(nb::handle shape, nb::handle dtype, const std::string& kind, double a, double b,
                   std::uint64_t seed) {
  Recipe r;
  r.dtype = as_dtype(dtype);
  r.shape = dims_of(shape);
  static const std::vector<std::string> kinds = {"zeros", "constant", "uniform", "normal"};
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == kind) {
      r.kind = static_cast<Recipe::Kind>(i);
      r.a = a;
      r.b = b;
      r.seed = seed;
      return r;
    }
  std::string near = nearest(kind, kinds);
  fail(Fault::Value, fmt::format("Recipe: there is no kind '{}'", kind),
       near.empty() ? "kinds are zeros, constant, uniform, normal"
                    : fmt::format("did you mean '{}'?", near));
}

nb::object dlpack(nb::handle self, nb::kwargs kwargs) {
  // The counted storage itself leaves; updates go to new storage while it lives.
  Array array = read_value(shared_of(self.ptr()), true);
  using Code = nb::dlpack::dtype_code;
  auto code = array.dtype == DType::Bool         ? Code::Bool
              : array.dtype == DType::BF16       ? Code::Bfloat
              : is_float(array.dtype)            ? Code::Float
              : is_unsigned_int(array.dtype)     ? Code::UInt
                                                 : Code::Int;
  nb::dlpack::dtype dtype{static_cast<std::uint8_t>(code),
                          static_cast<std::uint8_t>(size_of(array.dtype) * 8), 1};
  std::size_t shape[8];
  std::int64_t strides[8];
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    shape[i] = static_cast<std::size_t>(array.shape[i]);
    strides[i] = array.strides[i];
  }
  auto* keep = new std::shared_ptr<Storage>(array.storage);
  nb::capsule owner(keep, [](void* p) noexcept { delete static_cast<std::shared_ptr<Storage>*>(p); });
  nb::ndarray<> out(array.data, array.shape.size(), shape, owner, strides, dtype);
  nb::object view = nb::cast(out);
  return view.attr("__dlpack__")(**kwargs);
}

// ---- TensorType

const char* shape_name(const TensorType& t) {
  switch (t.ndim()) {
    case 0: return "scalar";
    case 1: return t.broadcast == 0 ? "vector" : nullptr;
    case 2: return t.broadcast == 0 ? "matrix" : t.broadcast == 1 ? "row"
                 : t.broadcast == 2 ? "col" : nullptr;
    case 3: return t.broadcast == 0 ? "3D" : nullptr;
    case 4: return t.broadcast == 0 ? "4D" : nullptr;
    case 5: return t.broadcast == 0 ? "5D" : nullptr;
    default: return nullptr;
  }
}

TensorType make_tensor_type(nb::handle dtype, nb::handle broadcastable, nb::handle shape) {
  TensorType type;
  type.dtype = as_dtype(dtype);
  for (nb::handle b : nb::iter(broadcastable)) {
    bool stretches = nb::cast<bool>(nb::bool_(b));
    if (stretches) type.broadcast |= static_cast<std::uint8_t>(1u << type.shape.size());
    type.shape.push_back(stretches ? 1 : -1);
  }
  if (!shape.is_none()) {
    Dims dims = dims_of(shape);
    if (dims.size() != type.shape.size())
      fail(Fault::Value, fmt::format("TensorType: shape has {} entries for {} dimensions",
                                     dims.size(), type.shape.size()));
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (dims[i] >= 0) type.shape[i] = dims[i];
  }
  return type;
}

bool same_type(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.broadcast == b.broadcast && a.ndim() == b.ndim();
}

void bind_types(nb::module_& m) {
  nb::class_<TensorType>(m, "TensorType",
                         "The type of a tensor: its dtype and which dimensions stretch.")
      .def(
          "__init__",
          [](TensorType* self, nb::handle dtype, nb::handle broadcastable, nb::handle, bool,
             nb::handle shape) {
            new (self) TensorType(make_tensor_type(dtype, broadcastable, shape));
          },
          nb::arg("dtype"), nb::arg("broadcastable"), nb::arg("name") = nb::none(),
          nb::arg("sparse_grad") = false, nb::arg("shape") = nb::none())
      .def_prop_ro("dtype", [](const TensorType& t) { return std::string(name_of(t.dtype)); })
      .def_prop_ro("ndim", &TensorType::ndim)
      .def_prop_ro("broadcastable",
                   [](const TensorType& t) { return nb::steal(broadcastable_tuple(t)); })
      .def_prop_ro("shape", [](const TensorType& t) { return tuple_of(t.shape); })
      .def_prop_ro("numpy_dtype", [](const TensorType& t) { return numpy_dtype(t.dtype); })
      .def(
          "__call__",
          [](const TensorType& t, std::optional<std::string> name) {
            return wrap(input(t, name.value_or("")));
          },
          nb::arg("name") = nb::none(), "A new variable of this type.")
      .def(
          "make_variable",
          [](const TensorType& t, std::optional<std::string> name) {
            return wrap(input(t, name.value_or("")));
          },
          nb::arg("name") = nb::none())
      .def(
          "filter",
          [](const TensorType& t, nb::handle data, bool strict, nb::handle allow_downcast) {
            return filter(data, t, strict, downcast_of(allow_downcast), "filter");
          },
          nb::arg("data"), nb::arg("strict") = false, nb::arg("allow_downcast") = nb::none(),
          "The value as an array of this type, or a TypeError.")
      .def(
          "is_valid_value",
          [](const TensorType& t, nb::handle data) {
            try {
              filter(data, t, true, Downcast::Never, "is_valid_value");
              return true;
            } catch (const Error&) {
              return false;
            }
          },
          nb::arg("data"))
      .def(
          "clone",
          [](const TensorType& t, nb::handle dtype, nb::handle broadcastable) {
            nb::object old = nb::steal(broadcastable_tuple(t));
            return make_tensor_type(
                dtype.is_none() ? nb::object(nb::str(name_of(t.dtype).data(), name_of(t.dtype).size()))
                                : nb::borrow(dtype),
                broadcastable.is_none() ? old : nb::borrow(broadcastable), nb::none());
          },
          nb::arg("dtype") = nb::none(), nb::arg("broadcastable") = nb::none())
      .def("__eq__",
           [](const TensorType& a, nb::handle b) {
             return nb::isinstance<TensorType>(b) && same_type(a, nb::cast<const TensorType&>(b));
           })
      .def("__hash__",
           [](const TensorType& t) {
             return (static_cast<int>(t.dtype) * 256 + t.broadcast) * 16 + t.ndim();
           })
      .def("__str__", describe_type)
      .def("__repr__", describe_type);

  nb::class_<OpView>(m, "Op", "An op with its constants.")
      .def_prop_ro("name", [](const OpView& o) { return std::string(o.def->name); })
      .def_prop_ro("doc", [](const OpView& o) { return std::string(o.def->doc); })
      .def_prop_ro("attrs",
                   [](const OpView& o) {
                     nb::dict out;
                     for (const Attrs::Item& item : o.attrs.items())
                       out[nb::str(item.name.data(), item.name.size())] = value_of(item.value);
                     return out;
                   })
      .def("__eq__",
           [](const OpView& a, nb::handle b) {
             if (!nb::isinstance<OpView>(b)) return false;
             const OpView& o = nb::cast<const OpView&>(b);
             return a.def == o.def && a.attrs == o.attrs;
           })
      .def("__hash__",
           [](const OpView& o) {
             return static_cast<Py_hash_t>((reinterpret_cast<std::uintptr_t>(o.def) >> 4) ^
                                           (o.attrs.hash() >> 1));
           })
      .def("__repr__", [](const OpView& o) {
        return o.attrs.empty() ? std::string(o.def->name)
                               : fmt::format("{}{{{}}}", o.def->name, o.attrs.describe());
      });

  nb::class_<Recipe>(m, "Recipe",
                     "How to make the value of a shared variable when it is first needed. kind is "
                     "'zeros', 'constant' (a), 'uniform' (from a to b) or 'normal' (mean a, "
                     "deviation b).")
      .def(
          "__init__",
          [](Recipe* self, nb::handle shape, nb::handle dtype, const std::string& kind, double a,
             double b, std::uint64_t seed) {
            new (self) Recipe(make_recipe(shape, dtype, kind, a, b, seed));
          },
          nb::arg("shape"), nb::arg("dtype") = "floatX", nb::arg("kind") = "zeros",
          nb::arg("a") = 0.0, nb::arg("b") = 1.0, nb::arg("seed") = 0)
      .def_prop_ro("dtype", [](const Recipe& r) { return std::string(name_of(r.dtype)); })
      .def_prop_ro("shape", [](const Recipe& r) { return tuple_of(r.shape); });
}

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

Dims dims_of(nb::handle shape) {
  Dims dims;
  if (PyLong_Check(shape.ptr())) {
    dims.push_back(nb::cast<std::int64_t>(shape));
    return dims;
  }
  for (nb::handle d : nb::iter(shape))
    dims.push_back(d.is_none() ? -1 : nb::cast<std::int64_t>(nb::int_(d)));
  return dims;
}

PyObject* indexed_of(nb::handle h) { return cast(h.ptr())->indexed; }
void set_indexed(nb::handle h, nb::object base_and_key) {
  Py_XSETREF(cast(h.ptr())->indexed, base_and_key.release().ptr());
}

std::string describe_type(const TensorType& type) {
  const char* name = shape_name(type);
  if (name) return fmt::format("TensorType({}, {})", name_of(type.dtype), name);
  std::string flags;
  for (int i = 0; i < type.ndim(); ++i)
    flags += std::string(i ? ", " : "") + (type.broadcastable(i) ? "True" : "False");
  if (type.ndim() == 1) flags += ",";
  return fmt::format("TensorType({}, ({}))", name_of(type.dtype), flags);
}

nb::object wrap(const Expr& e) {
  if (!e) return nb::none();
  return nb::steal(object_with_parts(e.get()));
}
nb::object wrap(const Ref<Apply>& apply) {
  if (!apply) return nb::none();
  return nb::steal(object_with_parts(apply.get()));
}
nb::list wrap_all(const std::vector<Expr>& items) {
  nb::list out;
  for (const Expr& e : items) out.append(wrap(e));
  return out;
}

bool is_variable(nb::handle h) { return PyObject_TypeCheck(h.ptr(), variable_type); }

Expr unwrap(nb::handle h, std::string_view what) {
  if (!is_variable(h))
    fail(Fault::Type, fmt::format("{}: expected a variable, got {}", what,
                                  Py_TYPE(h.ptr())->tp_name));
  return Expr(Ref<Variable>(variable_of(h.ptr())));
}

std::vector<Expr> unwrap_all(nb::handle sequence, std::string_view what) {
  std::vector<Expr> out;
  for (nb::handle h : nb::iter(sequence)) out.push_back(unwrap(h, what));
  return out;
}

bool is_tensor_like(nb::handle h) {
  PyObject* o = h.ptr();
  return is_variable(h) || PyFloat_Check(o) || PyLong_Check(o) || PyArray_Check(o) ||
         PyArray_CheckScalar(o) || PyList_Check(o) || PyTuple_Check(o) ||
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
  if (PyList_Check(o) || PyTuple_Check(o)) {
    if (holds_variable(h)) {
      std::vector<Expr> items;
      for (nb::handle item : nb::iter(h)) items.push_back(as_tensor(item, what));
      return stack(items);
    }
    if (PyObject_Length(o) == 0) return Expr(Array::zeros(default_float(), {0}));
  } else if (!is_tensor_like(h)) {
    fail(Fault::Type, fmt::format("{}: cannot make a tensor of {} ({})", what,
                                  nb::cast<std::string>(nb::str(h)), Py_TYPE(o)->tp_name));
  }
  nb::object array = as_ndarray(h);
  if (!dtype_of_descr(reinterpret_cast<PyObject*>(
          PyArray_DESCR(reinterpret_cast<PyArrayObject*>(array.ptr())))))
    fail(Fault::Type,
         fmt::format("{}: an array of dtype {} is not supported", what,
                     nb::cast<std::string>(nb::str(array.attr("dtype")))));
  return Expr(array_from(array));
}

void bind_objects(nb::module_& m) {
  set_script_hooks(retain_object, release_object);
  make_types(m);
  bind_types(m);

  using nb::arg;
  method(tensor_shared_variable_type, "get_value", get_value, arg("borrow") = false,
         arg("return_internal_type") = false,
         "The value as a NumPy array: a copy, or with borrow=True the storage itself (updates then "
         "go to new storage).");
  method(tensor_shared_variable_type, "set_value", set_value, arg("new_value"),
         arg("borrow") = false, "Replaces the value; the shape may change, the type may not.");
  method(tensor_shared_variable_type, "__dlpack__", dlpack);
  method(tensor_shared_variable_type, "__dlpack_device__",
         [](nb::handle) { return nb::make_tuple(1, 0); });
  property(
      tensor_shared_variable_type, "default_update",
      [](nb::handle self) { return wrap(shared_of(self.ptr())->default_update); },
      nb::cpp_function([](nb::handle self, nb::handle value) {
        shared_of(self.ptr())->default_update =
            value.is_none() ? Expr() : as_tensor(value, "default_update");
      }, nb::arg("self"), nb::arg("value").none()),
      "The new value that functions give it unless told otherwise.");
  property(tensor_shared_variable_type, "current_shape", [](nb::handle self) {
    SharedVariable* shared = shared_of(self.ptr());
    Dims dims;
    {
      nb::gil_scoped_release no_gil;
      dims = shared->shape();
    }
    return tuple_of(dims);
  }, nb::none(), "The shape of the value held now.");
  property(tensor_shared_variable_type, "materialised",
           [](nb::handle self) { return shared_of(self.ptr())->materialised(); }, nb::none(),
           "False while the value is still a recipe.");
  property(tensor_constant_type, "data", [](nb::handle self) {
    nb::object out = export_array(*static_cast<Constant*>(cast(self.ptr())->node)->value);
    PyArray_CLEARFLAGS(reinterpret_cast<PyArrayObject*>(out.ptr()), NPY_ARRAY_WRITEABLE);
    return out;
  }, nb::none(), "The value, read-only.");

  m.def("make_shared", make_shared, arg("value"), arg("name"), arg("strict"),
        arg("allow_downcast").none(), arg("broadcastable").none());
  m.def("as_tensor", [](nb::handle h, const std::string& what) { return wrap(as_tensor(h, what)); },
        arg("value"), arg("what") = "as_tensor_variable");
  m.def("constant", [](nb::handle value, std::string name, nb::handle dtype) {
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
  }, arg("value"), arg("name") = "", arg("dtype") = nb::none());
  m.def("ancestors", [](nb::handle roots, nb::handle blockers) {
    std::vector<Expr> r = unwrap_all(roots, "ancestors"), b = unwrap_all(blockers, "ancestors");
    return wrap_all(topological(r, b));
  }, arg("roots"), arg("blockers") = nb::make_tuple(),
        "Every variable that `roots` depend on and the roots, inputs before users.");
  m.def("default_float", [] { return std::string(name_of(default_float())); });
  m.def("set_default_float", [](const std::string& name) {
    std::optional<DType> t = dtype_from_name(name);
    if (!t) fail(Fault::Value, fmt::format("floatX: there is no dtype '{}'", name));
    set_default_float(*t);
  });
  m.def("upcast", [](nb::args dtypes) {
    std::optional<DType> out;
    for (nb::handle h : dtypes) {
      DType t = as_dtype(h);
      out = out ? upcast(*out, t) : t;
    }
    return std::string(name_of(out.value_or(DType::Bool)));
  }, "The dtype that holds values of all the given ones.");
  m.def("dtype_name", [](nb::handle h) { return std::string(name_of(as_dtype(h))); });
  m.def("nearest", [](const std::string& name, std::vector<std::string> known) {
    return nearest(name, known);
  });
  m.def("live_storage_bytes", [] { return live_storage_bytes(); });
  m.def("op_docs", [] {
    nb::dict out;
    for (const OpDef* op : all_ops())
      out[nb::str(op->name.data(), op->name.size())] = nb::str(op->doc.data(), op->doc.size());
    return out;
  }, "The name and the doc of every op.");
}

}  // namespace snug::python
