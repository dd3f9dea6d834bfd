// The call of a compiled function. It reads the ndarray structs directly: no generic conversion
// happens for an argument that already has the right dtype and number of dimensions.

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "function_object.h"

namespace snug::python {
namespace {

/// Room for the usual number of items on the stack, on the heap beyond it.
template <class T, std::size_t N>
class Scratch {
 public:
  explicit Scratch(std::size_t n) : size_(n) {
    if (n > N) heap_ = std::make_unique<T[]>(n);
  }
  T& operator[](std::size_t i) { return heap_ ? heap_[i] : items_[i]; }
  std::span<T> span() { return {heap_ ? heap_.get() : items_.data(), size_}; }

 private:
  std::size_t size_;
  std::array<T, N> items_{};
  std::unique_ptr<T[]> heap_;
};

/// True if the array can be read as it is.
bool fits(PyObject* o, const InputSpec& spec) {
  if (!PyArray_CheckExact(o)) return false;
  auto* a = reinterpret_cast<PyArrayObject*>(o);
  if (PyArray_DESCR(a) != spec.descr || PyArray_NDIM(a) != spec.type.ndim() ||
      !PyArray_ISALIGNED(a))
    return false;
  for (int i = 0; i < spec.type.ndim(); ++i)
    if ((spec.broadcast >> i & 1) && PyArray_DIM(a, i) != 1) return false;
  return true;
}

/// False if a stride is no multiple of the item.
bool describe_array(PyArrayObject* a, const InputSpec& spec, ArgView& view) {
  std::int64_t item = size_of(spec.type.dtype);
  int shift = __builtin_ctzll(static_cast<unsigned long long>(item));
  int ndim = spec.type.ndim();
  view.data = static_cast<const std::byte*>(PyArray_DATA(a));
  view.dtype = spec.type.dtype;
  view.shape.clear();
  view.strides.clear();
  const npy_intp* dims = PyArray_DIMS(a);
  const npy_intp* strides = PyArray_STRIDES(a);
  for (int i = 0; i < ndim; ++i) {
    if (strides[i] & (item - 1)) return false;
    view.shape.push_back(dims[i]);
    view.strides.push_back(strides[i] >> shift);
  }
  return true;
}

[[noreturn]] void fail_missing(const FunctionState& s, std::span<PyObject* const> values) {
  std::string names;
  int count = 0;
  for (std::size_t i = 0; i < s.inputs.size(); ++i)
    if (!values[i] && !s.inputs[i].value) {
      names += names.empty() ? "" : ", ";
      names += s.inputs[i].name ? PyUnicode_AsUTF8(s.inputs[i].name) : fmt::format("number {}", i);
      ++count;
    }
  fail(Fault::Type, fmt::format("{}: missing {} of {} arguments: {}", function_name(s), count,
                                s.inputs.size(), names));
}

PyObject* new_output(PyArray_Descr* descr, const Dims& shape) {
  Py_INCREF(descr);
  npy_intp dims[8];
  for (std::size_t i = 0; i < shape.size(); ++i) dims[i] = shape[i];
  return PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), dims, nullptr,
                              nullptr, 0, nullptr);
}

using Memory = std::shared_ptr<Storage>;

/// An array over memory that it keeps alive.
PyObject* adopt_output(PyArray_Descr* descr, const Dims& shape, Memory memory) {
  Py_INCREF(descr);
  npy_intp dims[8];
  for (std::size_t i = 0; i < shape.size(); ++i) dims[i] = shape[i];
  PyObject* out = PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), dims,
                                       nullptr, memory->data(), NPY_ARRAY_CARRAY, nullptr);
  if (!out) return nullptr;
  auto keep = std::make_unique<Memory>(std::move(memory));
  PyObject* owner = PyCapsule_New(keep.get(), nullptr, [](PyObject* c) {
    delete static_cast<Memory*>(PyCapsule_GetPointer(c, nullptr));
  });
  if (!owner) {
    Py_DECREF(out);
    return nullptr;
  }
  keep.release();  // NOLINT(bugprone-unused-return-value): the capsule has it
  PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(out), owner);
  return out;
}

Memory allocate(const Dims& shape, DType dtype) {
  const std::int64_t bytes = product(shape) * size_of(dtype);
  try {
    return Storage::allocate(bytes);
  } catch (const Error& e) {
    if (e.fault() != Fault::Memory) throw;
    fail(Fault::Memory,
         fmt::format("there is no memory for an output of shape {}, {}", describe_shape(shape),
                     describe_bytes(static_cast<std::uint64_t>(bytes))));
  }
}

/// The outputs of one call. Where the shapes of the last call are right again the arrays exist
/// before the GIL is released; otherwise memory is taken without it, since locks of shared
/// variables are held by then and nobody who holds those waits for the GIL.
class Outputs {
 public:
  explicit Outputs(FunctionState& s)
      : state_(s),
        count_(s.function.output_count()),
        arrays_(count_),
        memory_(count_),
        pointers_(count_),
        shapes_(count_) {
    if (!s.expects) return;
    // Large arrays wait until the call has been planned: it may be one that needs little.
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < count_; ++i)
      bytes += product(s.expected[i]) * size_of(s.function.output_type(i).dtype);
    if (bytes > kEarlyBytes) return;
    for (std::size_t i = 0; i < count_; ++i) {
      arrays_[i] = new_output(s.output_descrs[i], s.expected[i]);
      if (!arrays_[i]) {
        release();
        throw nb::python_error();
      }
      shapes_[i] = s.expected[i];
    }
  }
  ~Outputs() { release(); }

  /// Without the GIL.
  void run(std::span<const ArgView> arguments) {
    Function::Call call = state_.function.prepare(arguments);
    for (std::size_t i = 0; i < count_; ++i) {
      const Dims& shape = call.output_shape(i);
      if (arrays_[i] && shapes_[i] == shape) {
        pointers_[i] =
            static_cast<std::byte*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(arrays_[i])));
      } else {
        shapes_[i] = shape;
        memory_[i] = allocate(shape, call.output_dtype(i));
        pointers_[i] = memory_[i]->data();
        as_expected_ = false;
      }
    }
    call.run(pointers_.span());
    for (std::size_t i = 0; i < count_; ++i) {
      const Dims& actual = call.output_shape(i);
      if (actual == shapes_[i]) continue;
      shrunk_ = true;
      actual_.resize(count_);
      actual_[i] = actual;
    }
  }

  /// With the GIL: a new reference to the result of the call.
  PyObject* finish() {
    if (!state_.expects || !as_expected_) {
      for (std::size_t i = 0; i < count_; ++i) state_.expected[i] = shapes_[i];
      state_.expects = true;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      if (memory_[i]) {
        Py_XDECREF(arrays_[i]);
        arrays_[i] = adopt_output(state_.output_descrs[i], shapes_[i], std::move(memory_[i]));
        if (!arrays_[i]) return nullptr;
      }
      if (shrunk_ && actual_[i].size() == shapes_[i].size() && !(actual_[i] == shapes_[i]) &&
          shapes_[i].size() > 0 && !shrink(i))
        return nullptr;
    }
    const std::size_t results = count_ - state_.renewed.size();
    for (std::size_t k = 0; k < state_.renewed.size(); ++k)
      Py_XSETREF(state_.inputs[state_.renewed[k]].value, take(results + k));
    switch (state_.result) {
      case ResultKind::Single: return take(0);
      case ResultKind::List: {
        PyObject* list = PyList_New(static_cast<Py_ssize_t>(results));
        if (!list) return nullptr;
        for (std::size_t i = 0; i < results; ++i)
          PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), take(i));
        return list;
      }
      case ResultKind::Dict: {
        PyObject* dict = PyDict_New();
        for (std::size_t i = 0; dict && i < results; ++i)
          if (PyDict_SetItem(dict, state_.keys[i], arrays_[i]) < 0) Py_CLEAR(dict);
        return dict;
      }
    }
    return nullptr;
  }

 private:
  static constexpr std::int64_t kEarlyBytes = 1 << 20;

  void release() {
    for (std::size_t i = 0; i < count_; ++i) Py_XDECREF(arrays_[i]);
  }

  PyObject* take(std::size_t i) { return std::exchange(arrays_[i], nullptr); }

  /// The size became known only while running: a copy of the part that was written.
  bool shrink(std::size_t i) {
    PyObject* out = new_output(state_.output_descrs[i], actual_[i]);
    if (!out) return false;
    auto* to = reinterpret_cast<PyArrayObject*>(out);
    std::memcpy(PyArray_DATA(to), PyArray_DATA(reinterpret_cast<PyArrayObject*>(arrays_[i])),
                static_cast<std::size_t>(PyArray_NBYTES(to)));
    Py_SETREF(arrays_[i], out);
    return true;
  }

  FunctionState& state_;
  std::size_t count_;
  Scratch<PyObject*, 8> arrays_;
  Scratch<Memory, 8> memory_;
  Scratch<std::byte*, 8> pointers_;
  Scratch<Dims, 8> shapes_;
  std::vector<Dims> actual_;
  bool as_expected_ = true, shrunk_ = false;
};

/// The arguments of one call, as views of arrays that it keeps alive.
class Arguments {
 public:
  Arguments(const FunctionState& s, PyObject* const* args, std::size_t nargs, PyObject* kwnames)
      : state_(s), values_(s.inputs.size()), views_(s.inputs.size()) {
    sort(args, nargs, kwnames);
    for (std::size_t i = 0; i < s.inputs.size(); ++i) read(i);
  }
  std::span<const ArgView> views() { return views_.span(); }
  PyObject* output_subset = nullptr;  // borrowed

 private:
  bool has_input(PyObject* name) const {
    for (const InputSpec& spec : state_.inputs)
      if (spec.name && PyUnicode_Compare(spec.name, name) == 0) return true;
    return false;
  }

  /// Puts positional and keyword arguments in their places. An `output_subset` that is no input is
  /// not one of them.
  void sort(PyObject* const* args, std::size_t nargs, PyObject* kwnames) {
    std::size_t n = state_.inputs.size();
    if (nargs > n)
      fail(Fault::Type, fmt::format("{}: takes {} argument{}, got {}", function_name(state_), n,
                                    n == 1 ? "" : "s", nargs));
    for (std::size_t i = 0; i < nargs; ++i) values_[i] = args[i];
    if (!kwnames) return;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
      PyObject* name = PyTuple_GET_ITEM(kwnames, k);
      if (PyUnicode_CompareWithASCIIString(name, "output_subset") == 0 && !has_input(name)) {
        output_subset = args[nargs + static_cast<std::size_t>(k)];
        continue;
      }
      std::size_t i = index_of_keyword(state_, name);
      if (values_[i])
        fail(Fault::Type, fmt::format("{}: argument '{}' is given twice", function_name(state_),
                                      PyUnicode_AsUTF8(name)));
      values_[i] = args[nargs + static_cast<std::size_t>(k)];
    }
  }

  void read(std::size_t i) {
    const InputSpec& spec = state_.inputs[i];
    PyObject* value = values_[i] ? values_[i] : spec.value;
    if (!value) fail_missing(state_, values_.span());
    if (!fits(value, spec)) {
      held_.push_back(
          filter(value, spec.type, spec.strict, spec.downcast, name_of_input(state_, i)));
      value = held_.back().ptr();
    }
    if (describe_array(reinterpret_cast<PyArrayObject*>(value), spec, views_[i])) return;
    held_.push_back(
        nb::steal(PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(value), NPY_CORDER)));
    describe_array(reinterpret_cast<PyArrayObject*>(held_.back().ptr()), spec, views_[i]);
  }

  const FunctionState& state_;
  Scratch<PyObject*, 8> values_;
  Scratch<ArgView, 8> views_;
  std::vector<nb::object> held_;  // conversions, alive until the call is over
};

/// The parts of a list or dict of results that `wanted` names, in its order. All were computed.
nb::object subset_of(const nb::object& results, nb::handle wanted) {
  if (PyDict_Check(results.ptr())) {
    nb::dict out;
    for (nb::handle key : nb::iter(wanted)) out[key] = results[key];
    return out;
  }
  nb::list out;
  for (nb::handle i : nb::iter(wanted)) out.append(results[i]);
  return out;
}

PyObject* call_checked(FunctionState& s, PyObject* const* args, std::size_t nargs,
                       PyObject* kwnames) {
  Arguments arguments(s, args, nargs, kwnames);
  Outputs outputs(s);
  std::exception_ptr error;
  {
    InterruptGuard interrupt(s.slow);
    auto start = std::chrono::steady_clock::now();
    ++calls_in_flight;
    PyThreadState* thread = PyEval_SaveThread();
    try {
      outputs.run(arguments.views());
    } catch (...) {
      error = std::current_exception();
    }
    PyEval_RestoreThread(thread);
    --calls_in_flight;
    s.slow = std::chrono::steady_clock::now() - start > std::chrono::milliseconds(1);
  }
  if (error) std::rethrow_exception(error);
  PyObject* result = outputs.finish();
  if (!result || !arguments.output_subset || arguments.output_subset == Py_None) return result;
  return subset_of(nb::steal(result), arguments.output_subset).release().ptr();
}

}  // namespace

PyObject* call_function(PyObject* self, PyObject* const* args, std::size_t nargsf,
                        PyObject* kwnames) {
  Py_INCREF(self);  // the call may run code that drops the last reference
  PyObject* result = nullptr;
  try {
    result = call_checked(*reinterpret_cast<FunctionObject*>(self)->state, args,
                          static_cast<std::size_t>(PyVectorcall_NARGS(nargsf)), kwnames);
  } catch (...) {
    set_python_error();
  }
  Py_DECREF(self);
  return result;
}

}  // namespace snug::python
