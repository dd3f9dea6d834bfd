// The classes TensorType, Op and Recipe.
#include <nanobind/stl/tuple.h>

#include <set>

#include "node_object.h"
#include "numpy_api.h"

namespace snug::python {
namespace {

nb::object value_of(const Attrs::Value& value) {
  return std::visit(
      [](const auto& v) -> nb::object {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, DType>)
          return nb::str(name_of(v).data(), name_of(v).size());
        else if constexpr (std::is_same_v<V, std::shared_ptr<const Array>>)
          return v ? export_array(v->contiguous_copy()) : nb::none();
        else if constexpr (std::is_same_v<V, std::shared_ptr<const Lambda>>) {
          if (!v) return nb::none();
          return nb::make_tuple(wrap_all(v->params), wrap_all(v->results));
        } else if constexpr (std::is_same_v<V, std::shared_ptr<const HostCall>>)
          return nb::none();  // known to the op alone
        else
          return nb::cast(v);
      },
      value);
}

/// Names of attributes are views; those of unpickled ops last as long as the program.
std::string_view lasting_name(const std::string& name) {
  static std::set<std::string> names;
  return *names.insert(name).first;
}

/// An op as plain values: its name, and of each attribute the name, the kind and the value.
nb::tuple parts_of(const OpView& o) {
  nb::list attrs;
  for (const Attrs::Item& item : o.attrs.items()) {
    if (std::holds_alternative<std::shared_ptr<const Lambda>>(item.value) ||
        std::holds_alternative<std::shared_ptr<const HostCall>>(item.value))
      fail(Fault::Unsupported, fmt::format("pickle: the op {} holds functions", o.def->name),
           "pickle the expression, or the function that was compiled of it");
    attrs.append(nb::make_tuple(nb::str(item.name.data(), item.name.size()), item.value.index(),
                                value_of(item.value)));
  }
  return nb::make_tuple(std::string(o.def->name), attrs);
}

Attrs::Value value_from(std::size_t kind, nb::handle h) {
  static_assert(std::is_same_v<std::variant_alternative_t<4, Attrs::Value>, DType>);
  switch (kind) {
    case 0: return nb::cast<bool>(h);
    case 1: return nb::cast<std::int64_t>(h);
    case 2: return nb::cast<double>(h);
    case 3: return nb::cast<std::string>(h);
    case 4: return as_dtype(h);
    case 5: return nb::cast<Attrs::Ints>(h);
    case 6:
      if (h.is_none()) return std::shared_ptr<const Array>();
      return std::make_shared<const Array>(array_from(h).contiguous_copy());
    default: fail(Fault::Value, fmt::format("pickle: an op has no attribute of kind {}", kind));
  }
}

OpView op_from(const std::string& name, nb::list attrs) {
  OpView op{nullptr, {}};
  for (const OpDef* def : all_ops())
    if (def->name == name) op.def = def;
  if (!op.def) fail(Fault::Value, fmt::format("pickle: there is no op {}", name));
  for (nb::handle h : attrs) {
    auto [key, kind, value] = nb::cast<std::tuple<std::string, std::size_t, nb::object>>(h);
    op.attrs.set(lasting_name(key), value_from(kind, value));
  }
  return op;
}

const char* shape_name(const TensorType& t) {
  switch (t.ndim()) {
    case 0: return "scalar";
    case 1: return t.broadcast == 0 ? "vector" : nullptr;
    case 2:
      return t.broadcast == 0   ? "matrix"
             : t.broadcast == 1 ? "row"
             : t.broadcast == 2 ? "col"
                                : nullptr;
    case 3: return t.broadcast == 0 ? "3D" : nullptr;
    case 4: return t.broadcast == 0 ? "4D" : nullptr;
    case 5: return t.broadcast == 0 ? "5D" : nullptr;
    default: return nullptr;
  }
}

/// The entries of a sequence; a type error that names `what` if it is none.
std::vector<nb::object> entries_of(nb::handle h, const char* what) {
  nb::object list;
  if (!PyUnicode_Check(h.ptr())) list = nb::steal(PySequence_List(h.ptr()));
  if (!list.is_valid()) {
    PyErr_Clear();
    fail(Fault::Type, fmt::format("TensorType: {} must be a list with one entry per dimension, "
                                  "got {}",
                                  what, nb::repr(h).c_str()));
  }
  if (nb::len(list) > 8)
    fail(Fault::Type,
         fmt::format("TensorType: a tensor has at most 8 dimensions, not {}", nb::len(list)));
  std::vector<nb::object> out;
  for (nb::handle item : nb::iter(list)) out.push_back(nb::borrow(item));
  return out;
}

bool is_bool(nb::handle h) { return PyBool_Check(h.ptr()) || PyArray_IsScalar(h.ptr(), Bool); }

/// True if the entries say which axes stretch, as Theano's do; else they are sizes, as Aesara's
/// are: None where unknown.
bool are_flags(const std::vector<nb::object>& entries) {
  for (const nb::object& e : entries) {
    if (is_bool(e)) continue;
    const long value = PyLong_Check(e.ptr()) ? PyLong_AsLong(e.ptr()) : -1;
    if (value != 0 && value != 1) return PyErr_Clear(), false;
  }
  return true;
}

/// -1: not known. A bool in place of a size says whether the axis stretches.
std::int64_t size_of_entry(nb::handle h) {
  if (h.is_none()) return -1;
  if (is_bool(h)) return nb::cast<bool>(nb::bool_(h)) ? 1 : -1;
  const std::int64_t size = integer_of(h, "TensorType: a size");
  if (size < 0)
    fail(Fault::Value, fmt::format("TensorType: a size is {}, it must not be negative", size),
         "None stands for a size that is not known");
  return size;
}

/// `broadcastable`: per axis whether it stretches, or its size. `shape`: its size, None where it is
/// not known. An axis of size 1 stretches, unless flags say otherwise.
TensorType make_tensor_type(nb::handle dtype, nb::handle broadcastable, nb::handle shape) {
  TensorType type;
  type.dtype = as_dtype(dtype);
  std::vector<nb::object> flags, sizes;
  if (broadcastable.is_none() && shape.is_none())
    fail(Fault::Type, "TensorType: neither broadcastable nor shape is given",
         "shape=(None, 3): the sizes that are known, None for the others");
  if (!broadcastable.is_none()) flags = entries_of(broadcastable, "broadcastable");
  if (!shape.is_none()) sizes = entries_of(shape, "shape");
  const bool flagged = !broadcastable.is_none() && are_flags(flags);
  if (shape.is_none() && !flagged) sizes.swap(flags);
  if (flagged && !shape.is_none() && sizes.size() != flags.size())
    fail(Fault::Value, fmt::format("TensorType: shape has {} entries for {} dimensions",
                                   sizes.size(), flags.size()));
  for (std::size_t i = 0; i < std::max(flags.size(), sizes.size()); ++i) {
    std::int64_t size = i < sizes.size() ? size_of_entry(sizes[i]) : -1;
    const bool stretches = flagged ? nb::cast<bool>(nb::bool_(flags[i])) : size == 1;
    if (stretches && size >= 0 && size != 1)
      fail(Fault::Value,
           fmt::format("TensorType: axis {} is broadcastable, so its size is 1, not {}", i, size));
    if (stretches) type.broadcast |= static_cast<std::uint8_t>(1u << i);
    type.shape.push_back(stretches ? 1 : size);
  }
  return type;
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

Expr new_variable(const TensorType& type, nb::handle name) {
  if (!name.is_none() && !PyUnicode_Check(name.ptr()))
    fail(Fault::Type, fmt::format("a variable's name is a string, not {} ({})",
                                  nb::repr(name).c_str(), Py_TYPE(name.ptr())->tp_name));
  return input(type, name.is_none() ? std::string() : nb::cast<std::string>(name));
}

/// The type with sizes that a caller adds.
TensorType with_sizes(const TensorType& t, nb::handle shape) {
  if (shape.is_none()) return t;
  const nb::object dtype = nb::str(name_of(t.dtype).data(), name_of(t.dtype).size());
  TensorType out = make_tensor_type(dtype, nb::none(), shape);
  if (out.ndim() != t.ndim())
    fail(Fault::Value, fmt::format("{}: shape has {} entries for {} dimensions", describe_type(t),
                                   out.ndim(), t.ndim()));
  for (std::size_t i = 0; i < out.shape.size(); ++i) {
    if (t.shape[i] < 0) continue;
    if (out.shape[i] >= 0 && out.shape[i] != t.shape[i])
      fail(Fault::Value, fmt::format("{}: axis {} has size {}, not {}", describe_type(t), i,
                                     t.shape[i], out.shape[i]));
    out.shape[i] = t.shape[i];
  }
  out.broadcast |= t.broadcast;
  return out;
}

std::string op_text(const OpView& o) {
  return o.attrs.empty() ? std::string(o.def->name)
                         : fmt::format("{}{{{}}}", o.def->name, o.attrs.describe());
}

bool same_type(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.broadcast == b.broadcast && a.ndim() == b.ndim();
}

void bind_tensor_type(nb::module_& m) {
  nb::class_<TensorType>(m, "TensorType",
                         "The type of a tensor: its dtype and which dimensions stretch.")
      .def(
          "__init__",
          [](TensorType* self, nb::handle dtype, nb::handle broadcastable, nb::handle, bool,
             nb::handle shape) {
            new (self) TensorType(make_tensor_type(dtype, broadcastable, shape));
          },
          nb::arg("dtype"), nb::arg("broadcastable") = nb::none(), nb::arg("name") = nb::none(),
          nb::arg("sparse_grad") = false, nb::arg("shape") = nb::none())
      .def_prop_ro("dtype", [](const TensorType& t) { return std::string(name_of(t.dtype)); })
      .def_prop_ro("ndim", &TensorType::ndim)
      .def_prop_ro("name", [](const TensorType&) { return nb::none(); })
      .def_prop_ro("broadcastable",
                   [](const TensorType& t) { return nb::steal(broadcastable_tuple(t)); })
      .def_prop_ro("shape", [](const TensorType& t) { return tuple_of(t.shape); })
      .def_prop_ro("numpy_dtype", [](const TensorType& t) { return numpy_dtype(t.dtype); })
      .def(
          "__call__",
          [](const TensorType& t, nb::handle name, nb::handle shape) {
            return tensor_of(new_variable(with_sizes(t, shape), name));
          },
          nb::arg("name") = nb::none(), nb::arg("shape") = nb::none(),
          "A new variable of this type; `shape` gives sizes that are known, None for the others.")
      .def(
          "make_variable",
          [](const TensorType& t, nb::handle name, nb::handle shape) {
            return tensor_of(new_variable(with_sizes(t, shape), name));
          },
          nb::arg("name") = nb::none(), nb::arg("shape") = nb::none())
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
          [](const TensorType& t, nb::handle dtype, nb::handle broadcastable, nb::handle shape) {
            TensorType out = t;
            if (!dtype.is_none()) out.dtype = as_dtype(dtype);
            if (broadcastable.is_none() && shape.is_none()) return out;
            const nb::object name = nb::str(name_of(out.dtype).data(), name_of(out.dtype).size());
            return make_tensor_type(name, broadcastable, shape);
          },
          nb::arg("dtype") = nb::none(), nb::arg("broadcastable") = nb::none(),
          nb::arg("shape") = nb::none())
      .def("__eq__",
           [](const TensorType& a, nb::handle b) {
             return nb::isinstance<TensorType>(b) && same_type(a, nb::cast<const TensorType&>(b));
           })
      .def("__hash__",
           [](const TensorType& t) {
             return (static_cast<int>(t.dtype) * 256 + t.broadcast) * 16 + t.ndim();
           })
      .def("__reduce__",
           [](nb::handle self) {
             const TensorType& t = nb::cast<const TensorType&>(self);
             return nb::make_tuple(
                 self.type(),
                 nb::make_tuple(std::string(name_of(t.dtype)), nb::steal(broadcastable_tuple(t)),
                                nb::none(), false, tuple_of(t.shape)));
           })
      .def("__str__", describe_type)
      .def("__repr__", describe_type);
}

}  // namespace

void bind_types(nb::module_& m) {
  bind_tensor_type(m);

  nb::class_<OpView>(m, "Op", "An op with its constants.")
      .def_prop_ro("name", [](const OpView& o) { return std::string(o.def->name); })
      .def_prop_ro("elementwise", [](const OpView& o) { return has(*o.def, kElementwise); })
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
      .def("__reduce__",
           [](const OpView& o) {
             return nb::make_tuple(nb::module_::import_("snug._pickle").attr("op"), parts_of(o));
           })
      .def("__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); })
      .def("__repr__", op_text);
  nb::class_<GpuOpView, OpView>(m, "GpuOp", "An op of a node that is on a device.");
  m.def("_op", op_from);
  m.def("op_text", op_text, nb::arg("op"), "The name of an op with its constants.");

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
      .def("__reduce__",
           [](nb::handle self) {
             const Recipe& r = nb::cast<const Recipe&>(self);
             static const char* const kinds[] = {"zeros", "constant", "uniform", "normal"};
             return nb::make_tuple(
                 self.type(), nb::make_tuple(tuple_of(r.shape), std::string(name_of(r.dtype)),
                                             kinds[static_cast<int>(r.kind)], r.a, r.b, r.seed));
           })
      .def_prop_ro("dtype", [](const Recipe& r) { return std::string(name_of(r.dtype)); })
      .def_prop_ro("shape", [](const Recipe& r) { return tuple_of(r.shape); });
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

}  // namespace snug::python
