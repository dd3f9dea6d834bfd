// The operators of variables.
#include "node_object.h"
#include "ops/functions.h"

namespace snug::python {
namespace {

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

#define SNUG_BINARY(slot, text, expression)                                                     \
  PyObject* slot(PyObject* a, PyObject* b) {                                                    \
    return binary(a, b, text, [](const Expr& x, const Expr& y) -> Expr { return expression; }); \
  }
#define SNUG_UNARY(slot, text, expression)                                   \
  PyObject* slot(PyObject* a) {                                              \
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

/// Sets a type error at the user's line; gives -1.
int refuse(const char* message, const char* hint) {
  try {
    fail(Fault::Type, message, hint);
  } catch (...) {
    set_python_error();
  }
  return -1;
}

int slot_bool(PyObject* self) {
  Variable* v = variable_of(self);
  if (v->owner) {
    std::string_view op = v->owner->op->name;
    if (op == "lt" || op == "le" || op == "gt" || op == "ge")
      return refuse(
          "Variables do not support boolean operations: the value of this comparison is "
          "not known yet",
          "write T.switch(a < b, ...) for `if a < b`, T.and_(a < b, b < c) for "
          "`a < b < c`");
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

int assign(PyObject*, PyObject*, PyObject*) {
  return refuse("index: a variable stands for a value and cannot be changed",
                "y = T.set_subtensor(x[index], value) is x with a part replaced");
}

PyObject* iterate(PyObject* self) {
  const TensorType& type = variable_of(self)->type;
  if (type.ndim() != 1 || type.shape[0] < 0) {
    refuse("a tensor whose length is not known while building does not support iteration",
           "write T.sum(x) for sum(x), T.max(x) for max(x), x[i] for one element; snug.map runs a "
           "function for each");
    return nullptr;
  }
  return guarded([&] {
    nb::list items;
    for (std::int64_t i = 0; i < type.shape[0]; ++i) items.append(get_item(self, nb::int_(i)));
    return PyObject_GetIter(items.ptr());
  });
}

}  // namespace

std::vector<PyType_Slot> operator_slots() {
  return {
      slot(Py_tp_richcompare, compare),
      slot(Py_tp_iter, iterate),
      slot(Py_mp_subscript, subscript),
      slot(Py_mp_ass_subscript, assign),
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
}

}  // namespace snug::python
