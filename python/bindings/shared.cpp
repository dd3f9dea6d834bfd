// Constants and shared variables: their values go out and come in.
#include <nanobind/ndarray.h>

#include "node_object.h"
#include "numpy_api.h"

namespace snug::python {
namespace {

Array read_value(SharedVariable* shared, bool borrow) {
  nb::gil_scoped_release no_gil;  // a running call may hold the lock for long
  return shared->get_value(borrow);
}

nb::object get_value(nb::handle self, bool borrow, bool) {
  return export_array(read_value(shared_of(self), borrow));
}

void set_value(nb::handle self, nb::handle value, bool) {
  SharedVariable* shared = shared_of(self);
  NodeObject* object = node_object(self);
  std::string what = fmt::format("set_value of {}", label(Expr(Ref<Variable>(shared))));
  nb::object data = filter(value, shared->type, object->strict, object->downcast, what,
                           "give shared() allow_downcast=True");
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
  node_object(out)->strict = strict;
  node_object(out)->downcast = downcast_of(allow_downcast);
  return out;
}

nb::object dlpack(nb::handle self, nb::kwargs kwargs) {
  // The counted storage itself leaves; updates go to new storage while it lives.
  Array array = read_value(shared_of(self), true);
  using Code = nb::dlpack::dtype_code;
  auto code = array.dtype == DType::Bool     ? Code::Bool
              : array.dtype == DType::BF16   ? Code::Bfloat
              : is_float(array.dtype)        ? Code::Float
              : is_complex(array.dtype)      ? Code::Complex
              : is_unsigned_int(array.dtype) ? Code::UInt
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
  nb::capsule owner(keep,
                    [](void* p) noexcept { delete static_cast<std::shared_ptr<Storage>*>(p); });
  nb::ndarray<nb::array_api> out(array.data, array.shape.size(), shape, owner, strides, dtype);
  nb::object view = nb::cast(out);
  return view.attr("__dlpack__")(**kwargs);
}
}  // namespace

void bind_shared(nb::module_& m) {
  using nb::arg;
  method(
      tensor_shared_variable_type, "restore", [](nb::handle self) { shared_of(self)->restore(); },
      "After a device has failed: the value is the copy of FunctionOptions::snapshot again.");
  method(tensor_shared_variable_type, "get_value", get_value, arg("borrow") = false,
         arg("return_internal_type") = false,
         "The value as a NumPy array: a copy, or with borrow=True the storage itself (updates then "
         "go to new storage).");
  method(tensor_shared_variable_type, "set_value", set_value, arg("new_value").none(),
         arg("borrow") = false, "Replaces the value; the shape may change, the type may not.");
  method(tensor_shared_variable_type, "__dlpack__", dlpack);
  method(tensor_shared_variable_type, "__dlpack_device__",
         [](nb::handle) { return nb::make_tuple(1, 0); });
  property(
      tensor_shared_variable_type, "default_update",
      [](nb::handle self) { return wrap(shared_of(self)->find_default_update()); },
      nb::cpp_function(
          [](nb::handle self, nb::handle value) {
            shared_of(self)->default_update_rule = nullptr;
            shared_of(self)->default_update =
                value.is_none() ? Expr() : as_tensor(value, "default_update");
          },
          nb::arg("self"), nb::arg("value").none()),
      "The new value that functions give it unless told otherwise.");
  property(
      tensor_shared_variable_type, "current_shape",
      [](nb::handle self) {
        SharedVariable* shared = shared_of(self);
        Dims dims;
        {
          nb::gil_scoped_release no_gil;
          dims = shared->shape();
        }
        return tuple_of(dims);
      },
      nb::none(), "The shape of the value held now.");
  property(
      tensor_shared_variable_type, "materialised",
      [](nb::handle self) { return shared_of(self)->materialised(); }, nb::none(),
      "False while the value is still a recipe.");
  property(
      tensor_constant_type, "data",
      [](nb::handle self) {
        nb::object out = export_array(*static_cast<Constant*>(node_object(self)->node)->value);
        PyArray_CLEARFLAGS(reinterpret_cast<PyArrayObject*>(out.ptr()), NPY_ARRAY_WRITEABLE);
        return out;
      },
      nb::none(), "The value, read-only.");

  method(
      tensor_shared_variable_type, "_alias",
      [](nb::handle self) {
        Ref<SharedVariable> alias(new SharedVariable(Ref<SharedVariable>(shared_of(self))));
        alias->origin = current_origin();
        nb::object out = wrap(Expr(Ref<Variable>(alias)));
        node_object(out)->strict = node_object(self)->strict;
        node_object(out)->downcast = node_object(self)->downcast;
        return out;
      },
      "Another variable of the same value: what is written to one is read from both.");
  m.def("make_shared", make_shared, arg("value"), arg("name"), arg("strict"),
        arg("allow_downcast").none(), arg("broadcastable").none());
}

}  // namespace snug::python
