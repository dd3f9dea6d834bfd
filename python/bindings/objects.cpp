// Expressions as Python objects. The types are written against CPython itself: an object is one
// pointer to its node, the node's count is the object's count (RefCounted::tie), and the garbage
// collector sees through the parts of a graph that have no object of their own.
#include "node_object.h"

namespace snug::python {

PyTypeObject* variable_type = nullptr;
PyTypeObject* tensor_variable_type = nullptr;
PyTypeObject* tensor_constant_type = nullptr;
PyTypeObject* shared_variable_type = nullptr;
PyTypeObject* tensor_shared_variable_type = nullptr;
PyTypeObject* apply_type = nullptr;

namespace {

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
  if (auto* shared = dynamic_cast<SharedVariable*>(variable)) {
    if (shared->default_update) f(shared->default_update.get());
    if (shared->alias_of) f(shared->alias_of.get());
  }
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  NodeObject* object = node_object(self);
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
  Py_CLEAR(node_object(self)->dict);
  Py_CLEAR(node_object(self)->indexed);
  if (PyObject_TypeCheck(self, shared_variable_type)) shared_of(self)->default_update = Expr();
  return 0;
}

void node_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, node_dealloc) NodeObject* object = node_object(self);
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
  node_object(self)->node = node;
  node_object(self)->downcast = Downcast::FloatLiterals;
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

// ---- attributes

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
PyObject* get_dtype(PyObject* self, void*) {
  return str_of(name_of(variable_of(self)->type.dtype));
}
PyObject* get_ndim(PyObject* self, void*) {
  return PyLong_FromLong(variable_of(self)->type.ndim());
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
    {"origin", get_origin, nullptr, "Where it was built: (file, line, function), innermost first.",
     nullptr},
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

PyMethodDef variable_methods[] = {{"__reduce_ex__", reduce_variable, METH_O, nullptr},
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

PyObject* apply_op(PyObject* self, void*) {
  return guarded([&] {
    const Apply& a = *apply_of(self);
    const std::string_view device = device_mark(a.origin);
    if (!device.empty() && device != "cpu")
      return nb::cast(GpuOpView{{a.op, a.attrs}}).release().ptr();
    return nb::cast(OpView{a.op, a.attrs}).release().ptr();
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
PyObject* reduce_apply(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    nb::object get = nb::module_::import_("builtins").attr("getattr");
    return nb::make_tuple(get, nb::make_tuple(wrap(apply_of(self)->output(0)), "owner"))
        .release()
        .ptr();
  });
}
PyMethodDef apply_methods[] = {{"__reduce_ex__", reduce_apply, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};
PyMemberDef apply_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NodeObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

// ---- making the types

constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
                            Py_TPFLAGS_DISALLOW_INSTANTIATION;

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

void make_types(nb::module_& m) {
  std::vector<PyType_Slot> base = {
      slot(Py_tp_dealloc, node_dealloc),     slot(Py_tp_traverse, node_traverse),
      slot(Py_tp_clear, node_clear),         slot(Py_tp_repr, variable_str),
      slot(Py_tp_str, variable_str),         slot(Py_tp_hash, node_hash),
      slot(Py_tp_getset, variable_getset),   slot(Py_tp_members, variable_members),
      slot(Py_tp_methods, variable_methods),
  };
  for (const PyType_Slot& s : operator_slots()) base.push_back(s);
  variable_type = make_type(m, "Variable", base, nullptr,
                            "An expression. One expression is one object for its whole life: it "
                            "compares by identity, may be a key, and keeps attributes set on it.");
  nb::handle(reinterpret_cast<PyObject*>(variable_type)).attr("__array_ufunc__") = nb::none();
  nb::handle(reinterpret_cast<PyObject*>(variable_type)).attr("__array_priority__") = 1000;
  tensor_variable_type =
      make_type(m, "TensorVariable", {}, variable_type, "An input or a computed value.");
  tensor_constant_type = make_type(m, "TensorConstant", {}, variable_type, "A constant.");
  shared_variable_type =
      make_type(m, "SharedVariable", {}, variable_type, "A value that lives between calls.");
  tensor_shared_variable_type = make_type(m, "TensorSharedVariable", {}, shared_variable_type,
                                          "An array that lives between calls.");
  apply_type = make_type(
      m, "Apply",
      {slot(Py_tp_dealloc, node_dealloc), slot(Py_tp_traverse, node_traverse),
       slot(
           Py_tp_clear, +[](PyObject*) { return 0; }),
       slot(Py_tp_repr, apply_str), slot(Py_tp_hash, node_hash), slot(Py_tp_getset, apply_getset),
       slot(Py_tp_members, apply_members), slot(Py_tp_methods, apply_methods)},
      nullptr, "One application of an op.");
}

}  // namespace

nb::tuple tuple_of(const Dims& dims) {
  nb::list out;
  for (std::int64_t d : dims) out.append(d < 0 ? nb::none() : nb::object(nb::int_(d)));
  return nb::tuple(out);
}

PyObject* broadcastable_tuple(const TensorType& type) {
  PyObject* out = PyTuple_New(type.ndim());
  if (!out) return nullptr;
  for (int i = 0; i < type.ndim(); ++i)
    PyTuple_SET_ITEM(out, i, PyBool_FromLong(type.broadcastable(i)));
  return out;
}

PyObject* indexed_of(nb::handle h) { return node_object(h)->indexed; }
void set_indexed(nb::handle h, nb::object base_and_key) {
  Py_XSETREF(node_object(h)->indexed, base_and_key.release().ptr());
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
    fail(Fault::Type,
         fmt::format("{}: expected a variable, got {}", what, Py_TYPE(h.ptr())->tp_name));
  return Expr(Ref<Variable>(variable_of(h)));
}

std::vector<Expr> unwrap_all(nb::handle sequence, std::string_view what) {
  std::vector<Expr> out;
  for (nb::handle h : nb::iter(sequence)) out.push_back(unwrap(h, what));
  return out;
}

void bind_objects(nb::module_& m) {
  set_script_hooks(retain_object, release_object);
  make_types(m);
  m.def(
      "ancestors",
      [](nb::handle roots, nb::handle blockers) {
        std::vector<Expr> r = unwrap_all(roots, "ancestors"), b = unwrap_all(blockers, "ancestors");
        return wrap_all(topological(r, b));
      },
      nb::arg("roots"), nb::arg("blockers") = nb::make_tuple(),
      "Every variable that `roots` depend on and the roots, inputs before users.");
}

}  // namespace snug::python
