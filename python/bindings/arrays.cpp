#include <nanobind/ndarray.h>

#include "bindings.h"
#include "numpy_api.h"

namespace snug::python {
namespace {

int bfloat16_number = -1;

PyArrayObject* array_of(nb::handle h) { return reinterpret_cast<PyArrayObject*>(h.ptr()); }

/// Frees its argument from any thread, also when the interpreter is gone.
void drop(PyObject* o) {
  if (nb::detail::cleanup_guard guard{}) Py_DECREF(o);
}

nb::object descr_of(DType dtype) {
  int number = numpy_type(dtype);
  return nb::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(number)));
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(name_of(static_cast<DType>(i)));
  return names;
}

std::string short_repr(nb::handle h) {
  PyObject* text = PyObject_Str(h.ptr());
  if (!text) {
    PyErr_Clear();
    return "(no text)";
  }
  std::string s = nb::cast<std::string>(nb::steal(text));
  return s.size() > 80 ? s.substr(0, 75) + "(...)" : s;
}

/// numpy.asarray(h, dtype); a null object with the Python error cleared if it cannot.
nb::object convert(nb::handle h, DType dtype) {
  auto* descr = reinterpret_cast<PyArray_Descr*>(descr_of(dtype).release().ptr());
  PyObject* out = PyArray_FromAny(
      h.ptr(), descr, 0, 0,
      NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED | NPY_ARRAY_FORCECAST | NPY_ARRAY_ENSUREARRAY,
      nullptr);
  if (!out && PyErr_ExceptionMatches(PyExc_OverflowError)) {
    PyErr_Clear();
    return {};
  }
  if (!out) throw nb::python_error();
  return nb::steal(out);
}

/// What a value became; with more digits if it reads as the value does: 0.1 in float32 is
/// 0.10000000149011612.
std::string stored_as(const nb::object& converted, nb::handle value) {
  std::string text = short_repr(converted);
  if (text != short_repr(value)) return text;
  nb::object wide = convert(converted, DType::F64);
  return wide.is_valid() ? short_repr(wide) : text;
}

/// True if no value changed on the way from `a` to `b`; NaN equals NaN.
bool same_values(const nb::object& a, const nb::object& b) {
  nb::object numpy = nb::module_::import_("numpy");
  if (nb::cast<bool>(numpy.attr("array_equal")(a, b))) return true;
  int kind = PyArray_DESCR(array_of(a))->kind;
  return (kind == 'f' || kind == 'c') &&
         nb::cast<bool>(numpy.attr("array_equal")(a, b, nb::arg("equal_nan") = true));
}

std::optional<DType> dtype_of_dlpack(const nb::dlpack::dtype& t) {
  using Code = nb::dlpack::dtype_code;
  if (t.lanes != 1) return {};
  auto pick = [&](DType b8, DType b16, DType b32, DType b64) -> std::optional<DType> {
    switch (t.bits) {
      case 8: return b8;
      case 16: return b16;
      case 32: return b32;
      case 64: return b64;
    }
    return {};
  };
  switch (static_cast<Code>(t.code)) {
    case Code::Int: return pick(DType::I8, DType::I16, DType::I32, DType::I64);
    case Code::UInt: return pick(DType::U8, DType::U16, DType::U32, DType::U64);
    case Code::Float:
      if (t.bits == 8) return {};
      return pick(DType::F16, DType::F16, DType::F32, DType::F64);
    case Code::Bfloat: return t.bits == 16 ? std::optional(DType::BF16) : std::nullopt;
    case Code::Complex:
      return t.bits == 64    ? std::optional(DType::C64)
             : t.bits == 128 ? std::optional(DType::C128)
                             : std::nullopt;
    case Code::Bool: return t.bits == 8 ? std::optional(DType::Bool) : std::nullopt;
    default: return {};
  }
}

using Foreign = nb::ndarray<nb::ro, nb::device::cpu>;

/// A NumPy array over the memory of an object with __dlpack__; null if it has none on the host.
nb::object from_dlpack(nb::handle h) {
  if (!nb::hasattr(h, "__dlpack__")) return {};
  Foreign foreign;
  if (!nb::try_cast(h, foreign)) return {};
  std::optional<DType> dtype = dtype_of_dlpack(foreign.dtype());
  if (!dtype) return {};
  npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  for (std::size_t i = 0; i < foreign.ndim(); ++i) {
    shape[i] = static_cast<npy_intp>(foreign.shape(i));
    strides[i] = static_cast<npy_intp>(foreign.stride(i) * size_of(*dtype));
  }
  PyObject* out = PyArray_NewFromDescr(
      &PyArray_Type, reinterpret_cast<PyArray_Descr*>(descr_of(*dtype).release().ptr()),
      static_cast<int>(foreign.ndim()), shape, strides, const_cast<void*>(foreign.data()), 0,
      nullptr);
  if (!out) throw nb::python_error();
  nb::object result = nb::steal(out);
  nb::capsule owner(new Foreign(foreign),
                    [](void* p) noexcept { delete static_cast<Foreign*>(p); });
  if (PyArray_SetBaseObject(array_of(result), owner.release().ptr()) < 0) throw nb::python_error();
  return result;
}

}  // namespace

void init_arrays() {
  // bfloat16 needs ml_dtypes; without it the other types still work.
  PyObject* module = PyImport_ImportModule("ml_dtypes");
  if (!module) {
    PyErr_Clear();
    return;
  }
  nb::object ml = nb::steal(module);
  PyArray_Descr* descr = nullptr;
  nb::object type = ml.attr("bfloat16");
  if (PyArray_DescrConverter(type.ptr(), &descr)) {
    bfloat16_number = descr->type_num;
    Py_DECREF(descr);
  } else {
    PyErr_Clear();
  }
}

int numpy_type(DType dtype) {
  switch (dtype) {
    case DType::Bool: return NPY_BOOL;
    case DType::I8: return NPY_INT8;
    case DType::I16: return NPY_INT16;
    case DType::I32: return NPY_INT32;
    case DType::I64: return NPY_INT64;
    case DType::U8: return NPY_UINT8;
    case DType::U16: return NPY_UINT16;
    case DType::U32: return NPY_UINT32;
    case DType::U64: return NPY_UINT64;
    case DType::F16: return NPY_FLOAT16;
    case DType::F32: return NPY_FLOAT32;
    case DType::F64: return NPY_FLOAT64;
    case DType::C64: return NPY_COMPLEX64;
    case DType::C128: return NPY_COMPLEX128;
    case DType::BF16:
      if (bfloat16_number < 0)
        fail(Fault::Unsupported, "bfloat16: NumPy does not know this type",
             "install the package ml_dtypes");
      return bfloat16_number;
  }
  return NPY_FLOAT32;
}

std::optional<DType> dtype_of_descr(PyObject* object) {
  auto* descr = reinterpret_cast<PyArray_Descr*>(object);
  switch (descr->type_num) {
    case NPY_BOOL: return DType::Bool;
    case NPY_INT8: return DType::I8;
    case NPY_INT16: return DType::I16;
    case NPY_INT32: return DType::I32;
    case NPY_INT64: return DType::I64;
    case NPY_UINT8: return DType::U8;
    case NPY_UINT16: return DType::U16;
    case NPY_UINT32: return DType::U32;
    case NPY_UINT64: return DType::U64;
    case NPY_FLOAT16: return DType::F16;
    case NPY_FLOAT32: return DType::F32;
    case NPY_FLOAT64: return DType::F64;
    case NPY_COMPLEX64: return DType::C64;
    case NPY_COMPLEX128: return DType::C128;
    default: break;
  }
  if (descr->type_num == bfloat16_number && bfloat16_number >= 0) return DType::BF16;
  if (descr->type_num == NPY_LONGLONG) return DType::I64;  // the other 8-byte C integer
  if (descr->type_num == NPY_ULONGLONG) return DType::U64;
  return {};
}

DType as_dtype(nb::handle h) {
  if (nb::isinstance<nb::str>(h)) {
    std::string name = nb::cast<std::string>(h);
    if (name == "floatX") return default_float();
    if (std::optional<DType> t = dtype_from_name(name)) return *t;
    std::string near = nearest(name, dtype_names());
    // NumPy also knows "f4", "int" and the like.
    PyArray_Descr* descr = nullptr;
    if (PyArray_DescrConverter(h.ptr(), &descr)) {
      std::optional<DType> t = dtype_of_descr(reinterpret_cast<PyObject*>(descr));
      Py_DECREF(descr);
      if (t) return *t;
    } else {
      PyErr_Clear();
    }
    fail(Fault::Type, fmt::format("dtype: '{}' is not a supported dtype", name),
         near.empty() ? fmt::format("the dtypes are {}", fmt::join(dtype_names(), ", "))
                      : fmt::format("did you mean '{}'?", near));
  }
  PyArray_Descr* descr = nullptr;
  if (h.is_none() || !PyArray_DescrConverter(h.ptr(), &descr)) {
    PyErr_Clear();
    fail(Fault::Type, fmt::format("dtype: {} is not a dtype", short_repr(h)));
  }
  std::optional<DType> t = dtype_of_descr(reinterpret_cast<PyObject*>(descr));
  Py_DECREF(descr);
  if (!t) fail(Fault::Type, fmt::format("dtype: {} is not supported", short_repr(h)));
  return *t;
}

nb::object numpy_dtype(DType dtype) { return descr_of(dtype); }

nb::object export_array(const Array& array) {
  npy_intp shape[8], strides[8];
  int ndim = static_cast<int>(array.shape.size());
  std::int64_t item = size_of(array.dtype);
  for (int i = 0; i < ndim; ++i) {
    shape[i] = array.shape[i];
    strides[i] = array.strides[i] * item;
  }
  PyObject* out = PyArray_NewFromDescr(
      &PyArray_Type, reinterpret_cast<PyArray_Descr*>(descr_of(array.dtype).release().ptr()), ndim,
      shape, strides, array.data, NPY_ARRAY_WRITEABLE, nullptr);
  if (!out) throw nb::python_error();
  nb::object result = nb::steal(out);
  auto* keep = new std::shared_ptr<Storage>(array.storage);
  nb::capsule owner(keep,
                    [](void* p) noexcept { delete static_cast<std::shared_ptr<Storage>*>(p); });
  if (PyArray_SetBaseObject(array_of(result), owner.release().ptr()) < 0) throw nb::python_error();
  return result;
}

Array array_from(nb::handle ndarray) {
  nb::object held = nb::borrow(ndarray);
  PyArrayObject* a = array_of(held);
  std::optional<DType> dtype = dtype_of_descr(reinterpret_cast<PyObject*>(PyArray_DESCR(a)));
  if (!dtype)
    fail(Fault::Type,
         fmt::format("an array of dtype {} is not supported",
                     short_repr(nb::handle(reinterpret_cast<PyObject*>(PyArray_DESCR(a))))));
  if (PyArray_NDIM(a) > 8)
    fail(Fault::Unsupported,
         fmt::format("an array of {} dimensions: at most 8 are supported", PyArray_NDIM(a)));
  std::int64_t item = size_of(*dtype);
  bool fits = PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a);
  for (int i = 0; i < PyArray_NDIM(a); ++i) fits &= PyArray_STRIDE(a, i) % item == 0;
  if (!fits) {
    held = convert(held, *dtype);
    held = nb::steal(PyArray_NewCopy(array_of(held), NPY_CORDER));
    if (!held.is_valid()) throw nb::python_error();
    a = array_of(held);
  }
  Array out;
  out.dtype = *dtype;
  for (int i = 0; i < PyArray_NDIM(a); ++i) {
    out.shape.push_back(PyArray_DIM(a, i));
    out.strides.push_back(PyArray_STRIDE(a, i) / item);
  }
  out.data = static_cast<std::byte*>(PyArray_DATA(a));
  std::shared_ptr<void> keep(held.release().ptr(),
                             [](void* p) { drop(static_cast<PyObject*>(p)); });
  out.storage = Storage::wrap(out.data, out.bytes(), std::move(keep));
  return out;
}

nb::object as_ndarray(nb::handle h) {
  if (PyArray_Check(h.ptr())) return nb::borrow(h);
  if (nb::object array = from_dlpack(h); array.is_valid()) return array;
  PyObject* out = PyArray_FROM_O(h.ptr());
  if (!out) throw nb::python_error();
  return nb::steal(out);
}

nb::object filter(nb::handle h, const TensorType& type, bool strict, Downcast downcast,
                  std::string_view what, std::string_view allow) {
  if (is_variable(h))
    fail(Fault::Type,
         fmt::format("{}: expected an array, got the variable {}", what, label(unwrap(h, what))),
         "call functions with values; variables belong in `inputs`, `givens` and `updates`");
  if (h.is_none())
    fail(Fault::Type, fmt::format("{}: expected {}, got None", what, describe_type(type)));
  nb::object data = nb::borrow(h);
  if (!PyArray_Check(data.ptr()) && !PyArray_CheckAnyScalar(data.ptr()))
    if (nb::object array = from_dlpack(data); array.is_valid()) data = array;

  if (PyArray_Check(data.ptr())) {
    PyArrayObject* a = array_of(data);
    std::optional<DType> dtype = dtype_of_descr(reinterpret_cast<PyObject*>(PyArray_DESCR(a)));
    bool exact = dtype == type.dtype && PyArray_DESCR(a)->type_num == numpy_type(type.dtype) &&
                 PyArray_ISNOTSWAPPED(a) && PyArray_ISALIGNED(a);
    if (!exact) {
      if (strict && dtype != type.dtype)
        fail(Fault::Type,
             fmt::format("{}: {} expected an ndarray of dtype {}, got {}", what,
                         describe_type(type), name_of(type.dtype),
                         short_repr(nb::handle(reinterpret_cast<PyObject*>(PyArray_DESCR(a))))));
      if (dtype && is_complex(*dtype) && !is_complex(type.dtype))
        fail(Fault::Type,
             fmt::format("{}: {} cannot store complex numbers", what, describe_type(type)),
             "take their real part, imaginary part or absolute value");
      if (downcast != Downcast::Always && (!dtype || upcast(type.dtype, *dtype) != type.dtype))
        fail(
            Fault::Type,
            fmt::format("{}: {} cannot store a value of dtype {} without risking loss of precision",
                        what, describe_type(type),
                        short_repr(nb::handle(reinterpret_cast<PyObject*>(PyArray_DESCR(a))))),
            fmt::format("cast it with .astype('{}'), or {}", name_of(type.dtype), allow));
      data = convert(data, type.dtype);
      if (!data.is_valid()) fail(Fault::Type, fmt::format("{}: the values do not fit", what));
    }
  } else {
    if (strict)
      fail(Fault::Type, fmt::format("{}: {} expected an ndarray, got {}", what, describe_type(type),
                                    Py_TYPE(h.ptr())->tp_name));
    nb::object converted;
    try {
      converted = convert(data, type.dtype);
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_ValueError) && !e.matches(PyExc_TypeError)) throw;
      fail(Fault::Value, fmt::format("{}: NumPy makes no array of {}: {}", what, short_repr(data),
                                     nb::str(e.value()).c_str()));
    }
    bool literal = downcast == Downcast::FloatLiterals && PyFloat_CheckExact(data.ptr()) &&
                   type.dtype == default_float();
    if (!converted.is_valid() ||
        (downcast != Downcast::Always && !literal && !same_values(as_ndarray(data), converted)))
      fail(Fault::Type,
           fmt::format("{}: {} cannot store accurately {}{}", what, describe_type(type),
                       short_repr(data),
                       converted.is_valid()
                           ? fmt::format("; it would become {}", stored_as(converted, data))
                           : std::string()),
           fmt::format("make it a numpy array of dtype {}, or {}", name_of(type.dtype), allow));
    data = converted;
  }

  PyArrayObject* a = array_of(data);
  Dims shape;
  if (PyArray_NDIM(a) <= 8)
    for (int i = 0; i < PyArray_NDIM(a); ++i) shape.push_back(PyArray_DIM(a, i));
  if (PyArray_NDIM(a) != type.ndim())
    fail(Fault::Type,
         fmt::format("{}: wrong number of dimensions: expected {}, got {} with shape {}", what,
                     type.ndim(), PyArray_NDIM(a), describe_shape(shape)));
  for (int i = 0; i < type.ndim(); ++i)
    if (type.broadcastable(i) && shape[i] != 1)
      fail(Fault::Type,
           fmt::format("{}: axis {} is broadcastable, so its size is 1, but the shape is {}", what,
                       i, describe_shape(shape)));
    else if (type.shape[i] >= 0 && shape[i] != type.shape[i])
      fail(Fault::Type, fmt::format("{}: has size {} on axis {}, whose type says {}", what,
                                    shape[i], i, type.shape[i]));
  return data;
}

}  // namespace snug::python
