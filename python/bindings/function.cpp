// Compiled functions as Python callables. A call reads the ndarray structs directly: no generic
// conversion happens for an argument that already has the right dtype and number of dimensions.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bindings.h"
#include "numpy_api.h"

namespace snug::python {
namespace {

struct InputSpec {
  TensorType type;
  PyArray_Descr* descr = nullptr;  // owned; the singleton of the dtype
  PyObject* name = nullptr;        // interned, or null
  PyObject* variable = nullptr;
  PyObject* value = nullptr;  // default: an array of the type, or null
  bool strict = false;
  Downcast downcast = Downcast::FloatLiterals;
  int broadcast = 0;
};

enum class Result : std::uint8_t { Single, List, Dict };

struct State {
  Function function;
  std::vector<InputSpec> inputs;
  Result result = Result::List;
  std::vector<PyObject*> keys;  // of a dict
  std::vector<PyArray_Descr*> output_descrs;
  std::vector<Dims> expected;  // shapes of the outputs of the last call
  bool expects = false;
  bool slow = true;  // a call may take long enough for a Ctrl-C
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc call;
  State* state;
  PyObject* dict;
  PyObject* weakrefs;
  char trust_input;  // accepted for programs that set it
};

/// Calls that run without the GIL now. They may hold locks and want the GIL back meanwhile, so
/// whoever holds the GIL must not wait for such a lock while there are any.
std::atomic<int> calls_in_flight{0};

/// Runs `f`, which takes locks; gives up the GIL for it only if that is needed, since expressions
/// count their references under the GIL.
template <class F>
auto while_others_run(F&& f) {
  if (calls_in_flight == 0) return f();
  nb::gil_scoped_release no_gil;
  return f();
}

PyTypeObject* function_type = nullptr;
FunctionObject* cast(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }
State& state_of(nb::handle h) { return *cast(h.ptr())->state; }

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

std::string name_of_input(const State& s, std::size_t i) {
  const InputSpec& spec = s.inputs[i];
  std::string where = s.function.name().empty() ? "function" : s.function.name();
  if (spec.name) return fmt::format("{}: argument {} ({})", where, i, PyUnicode_AsUTF8(spec.name));
  return fmt::format("{}: argument {}", where, i);
}

std::string function_name(const State& s) {
  return s.function.name().empty() ? std::string("function") : s.function.name();
}

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

std::size_t index_of_keyword(State& s, PyObject* key) {
  for (std::size_t i = 0; i < s.inputs.size(); ++i)
    if (s.inputs[i].name == key) return i;
  for (std::size_t i = 0; i < s.inputs.size(); ++i)
    if (s.inputs[i].name && PyUnicode_Compare(s.inputs[i].name, key) == 0) return i;
  std::vector<std::string> known;
  for (const InputSpec& spec : s.inputs)
    if (spec.name) known.emplace_back(PyUnicode_AsUTF8(spec.name));
  std::string name = PyUnicode_AsUTF8(key), near = nearest(name, known);
  fail(Fault::Type, fmt::format("{}: there is no input named '{}'", function_name(s), name),
       near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

[[noreturn]] void fail_missing(State& s, std::span<PyObject* const> values) {
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

/// An array over memory from `aligned_alloc`, which it frees.
PyObject* adopt_output(PyArray_Descr* descr, const Dims& shape, void* data) {
  Py_INCREF(descr);
  npy_intp dims[8];
  for (std::size_t i = 0; i < shape.size(); ++i) dims[i] = shape[i];
  PyObject* out = PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), dims,
                                       nullptr, data, NPY_ARRAY_CARRAY, nullptr);
  PyObject* owner =
      out ? PyCapsule_New(data, nullptr,
                          [](PyObject* c) { std::free(PyCapsule_GetPointer(c, nullptr)); })
          : nullptr;
  if (!owner) {
    Py_XDECREF(out);
    std::free(data);
    return nullptr;
  }
  PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(out), owner);
  return out;
}

std::byte* allocate(std::int64_t bytes) {
  std::size_t rounded = (static_cast<std::size_t>(bytes) + 63) / 64 * 64;
  void* p = std::aligned_alloc(64, rounded ? rounded : 64);
  if (!p) throw std::bad_alloc();
  return static_cast<std::byte*>(p);
}

/// The outputs of one call. Where the shapes of the last call are right again the arrays exist
/// before the GIL is released; otherwise memory is taken without it, since locks of shared
/// variables are held by then and nobody who holds those waits for the GIL.
class Outputs {
 public:
  explicit Outputs(State& s)
      : state_(s),
        count_(s.function.output_count()),
        arrays_(count_),
        memory_(count_),
        pointers_(count_),
        shapes_(count_) {
    if (!s.expects) return;
    for (std::size_t i = 0; i < count_; ++i) {
      arrays_[i] = new_output(s.output_descrs[i], s.expected[i]);
      if (!arrays_[i]) throw nb::python_error();
      shapes_[i] = s.expected[i];
    }
  }
  ~Outputs() {
    for (std::size_t i = 0; i < count_; ++i) {
      Py_XDECREF(arrays_[i]);
      std::free(memory_[i]);
    }
  }

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
        pointers_[i] = memory_[i] = allocate(product(shape) * size_of(call.output_dtype(i)));
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
        arrays_[i] =
            adopt_output(state_.output_descrs[i], shapes_[i], std::exchange(memory_[i], nullptr));
        if (!arrays_[i]) return nullptr;
      }
      if (shrunk_ && actual_[i].size() == shapes_[i].size() && !(actual_[i] == shapes_[i]) &&
          shapes_[i].size() > 0 && !shrink(i))
        return nullptr;
    }
    switch (state_.result) {
      case Result::Single: return take(0);
      case Result::List: {
        PyObject* list = PyList_New(static_cast<Py_ssize_t>(count_));
        if (!list) return nullptr;
        for (std::size_t i = 0; i < count_; ++i)
          PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), take(i));
        return list;
      }
      case Result::Dict: {
        PyObject* dict = PyDict_New();
        for (std::size_t i = 0; dict && i < count_; ++i)
          if (PyDict_SetItem(dict, state_.keys[i], arrays_[i]) < 0) Py_CLEAR(dict);
        return dict;
      }
    }
    return nullptr;
  }

 private:
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

  State& state_;
  std::size_t count_;
  Scratch<PyObject*, 8> arrays_;
  Scratch<std::byte*, 8> memory_;
  Scratch<std::byte*, 8> pointers_;
  Scratch<Dims, 8> shapes_;
  std::vector<Dims> actual_;
  bool as_expected_ = true, shrunk_ = false;
};

PyObject* call_checked(State& s, PyObject* const* args, std::size_t nargs, PyObject* kwnames) {
  std::size_t n = s.inputs.size();
  if (nargs > n)
    fail(Fault::Type, fmt::format("{}: takes {} argument{}, got {}", function_name(s), n,
                                  n == 1 ? "" : "s", nargs));
  Scratch<PyObject*, 8> values(n);
  for (std::size_t i = 0; i < nargs; ++i) values[i] = args[i];
  if (kwnames)
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
      std::size_t i = index_of_keyword(s, PyTuple_GET_ITEM(kwnames, k));
      if (values[i])
        fail(Fault::Type, fmt::format("{}: argument '{}' is given twice", function_name(s),
                                      PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k))));
      values[i] = args[nargs + static_cast<std::size_t>(k)];
    }

  Scratch<ArgView, 8> views(n);
  std::vector<nb::object> held;  // conversions, alive until the call is over
  for (std::size_t i = 0; i < n; ++i) {
    const InputSpec& spec = s.inputs[i];
    PyObject* value = values[i];
    if (!value) value = spec.value;
    if (!value) fail_missing(s, values.span());
    if (!fits(value, spec)) {
      held.push_back(filter(value, spec.type, spec.strict, spec.downcast, name_of_input(s, i)));
      value = held.back().ptr();
    }
    if (!describe_array(reinterpret_cast<PyArrayObject*>(value), spec, views[i])) {
      held.push_back(
          nb::steal(PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(value), NPY_CORDER)));
      describe_array(reinterpret_cast<PyArrayObject*>(held.back().ptr()), spec, views[i]);
    }
  }

  Outputs outputs(s);
  std::exception_ptr error;
  {
    InterruptGuard interrupt(s.slow);
    auto start = std::chrono::steady_clock::now();
    ++calls_in_flight;
    PyThreadState* thread = PyEval_SaveThread();
    try {
      outputs.run(views.span());
    } catch (...) {
      error = std::current_exception();
    }
    PyEval_RestoreThread(thread);
    --calls_in_flight;
    s.slow = std::chrono::steady_clock::now() - start > std::chrono::milliseconds(1);
  }
  if (error) std::rethrow_exception(error);
  return outputs.finish();
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  Py_INCREF(self);  // the call may run code that drops the last reference
  PyObject* result = nullptr;
  try {
    result = call_checked(*cast(self)->state, args,
                          static_cast<std::size_t>(PyVectorcall_NARGS(nargsf)), kwnames);
  } catch (...) {
    set_python_error();
  }
  Py_DECREF(self);
  return result;
}

// ---- the type

int function_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->dict);
  if (State* s = cast(self)->state) {
    for (InputSpec& spec : s->inputs) {
      Py_VISIT(spec.variable);
      Py_VISIT(spec.value);
    }
    for (PyObject* key : s->keys) Py_VISIT(key);
  }
  return 0;
}

int function_clear(PyObject* self) {
  Py_CLEAR(cast(self)->dict);
  if (State* s = cast(self)->state)
    for (InputSpec& spec : s->inputs) Py_CLEAR(spec.variable);
  return 0;
}

void function_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (cast(self)->weakrefs) PyObject_ClearWeakRefs(self);
  function_clear(self);
  if (State* s = std::exchange(cast(self)->state, nullptr)) {
    for (InputSpec& spec : s->inputs) {
      Py_XDECREF(spec.descr);
      Py_XDECREF(spec.name);
      Py_XDECREF(spec.value);
    }
    for (PyObject* key : s->keys) Py_XDECREF(key);
    for (PyArray_Descr* d : s->output_descrs) Py_XDECREF(d);
    delete s;
  }
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* function_repr(PyObject* self) {
  std::string text = fmt::format("<snug function {}>", function_name(*cast(self)->state));
  return PyUnicode_FromString(text.c_str());
}

PyObject* no_pickle(PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "cannot copy or pickle a compiled function: functions are not serialised yet. "
                  "Build it again from its expressions.");
  return nullptr;
}

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weakrefs), READONLY, nullptr},
    {"trust_input", T_BOOL, offsetof(FunctionObject, trust_input), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef function_methods[] = {{"__reduce_ex__", no_pickle, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyGetSetDef function_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

void make_type(nb::module_& m) {
  PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(function_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(function_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(function_clear)},
      {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
      {Py_tp_members, function_members},
      {Py_tp_methods, function_methods},
      {Py_tp_getset, function_getset},
      {Py_tp_doc, const_cast<char*>("A compiled function: call it with values.")},
      {0, nullptr}};
  PyType_Spec spec{"snug._core.Function", sizeof(FunctionObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                       Py_TPFLAGS_DISALLOW_INSTANTIATION,
                   slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw nb::python_error();
  function_type = reinterpret_cast<PyTypeObject*>(type);
  m.attr("Function") = nb::borrow(type);
}

// ---- compiling

std::vector<std::pair<Expr, Expr>> pairs_of(nb::handle list, std::string_view what) {
  std::vector<std::pair<Expr, Expr>> out;
  for (nb::handle p : nb::iter(list)) {
    nb::object pair = nb::borrow(p);
    nb::object key = pair[0], value = pair[1];
    out.emplace_back(unwrap(key, what), as_tensor(value, what));
  }
  return out;
}

/// One dict per input: variable, name, value, strict, allow_downcast.
InputSpec input_spec(nb::handle item) {
  nb::dict d = nb::borrow<nb::dict>(item);
  InputSpec spec;
  nb::object variable = d["variable"], name = d["name"], value = d["value"];
  spec.type = unwrap(variable, "function")->type;
  spec.broadcast = spec.type.broadcast;
  spec.descr = PyArray_DescrFromType(numpy_type(spec.type.dtype));
  spec.strict = nb::cast<bool>(d["strict"]);
  spec.downcast = downcast_of(nb::object(d["allow_downcast"]));
  if (!name.is_none()) {
    spec.name = name.release().ptr();
    PyUnicode_InternInPlace(&spec.name);
  }
  if (!value.is_none())
    spec.value = filter(value, spec.type, spec.strict, spec.downcast, "function: a default value")
                     .release()
                     .ptr();
  spec.variable = variable.release().ptr();
  return spec;
}

Mode mode_of(const std::string& name) {
  if (name == "fast") return Mode::Fast;
  if (name == "check") return Mode::Check;
  if (name == "reference") return Mode::Reference;
  std::string near = nearest(name, {"fast", "check", "reference"});
  fail(Fault::Value, fmt::format("function: there is no mode '{}'", name),
       near.empty() ? "modes are 'fast', 'check' and 'reference'"
                    : fmt::format("did you mean '{}'?", near));
}

nb::object compile(nb::handle inputs, nb::handle outputs, nb::handle result, nb::dict options) {
  UserLine line;
  auto state = std::make_unique<State>();
  std::vector<Expr> in;
  PyObject* self = function_type->tp_alloc(function_type, 0);
  if (!self) throw nb::python_error();
  nb::object out = nb::steal(self);
  State& s = *(cast(self)->state = state.release());
  cast(self)->call = vectorcall;
  for (nb::handle item : nb::iter(inputs)) {
    s.inputs.push_back(input_spec(item));
    in.push_back(unwrap(s.inputs.back().variable, "function"));
  }
  std::vector<Expr> results = unwrap_all(outputs, "function");

  FunctionOptions o;
  o.updates = pairs_of(options["updates"], "updates");
  o.givens = pairs_of(options["givens"], "givens");
  for (nb::handle p : nb::iter(options["shapes"])) {
    nb::object pair = nb::borrow(p);
    o.shapes.emplace_back(unwrap(nb::object(pair[0]), "shapes"), dims_of(nb::object(pair[1])));
  }
  o.name = nb::cast<std::string>(options["name"]);
  o.memory = nb::cast<std::string>(options["memory"]);
  o.micro_batches = nb::cast<std::int64_t>(options["micro_batches"]);
  o.mode = mode_of(nb::cast<std::string>(options["mode"]));
  o.no_default_updates = nb::cast<bool>(options["no_default_updates"]);
  o.strict_math = nb::cast<bool>(options["strict_math"]);
  o.on_unused_input =
      nb::cast<bool>(options["ignore_unused"]) ? OnUnusedInput::Ignore : OnUnusedInput::Raise;
  o.threads = nb::cast<int>(options["threads"]);
  o.contexts = nb::cast<int>(options["contexts"]);
  o.disabled_passes = nb::cast<std::vector<std::string>>(options["disabled_passes"]);
  s.function = while_others_run([&] { return function(in, results, o); });

  for (std::size_t i = 0; i < s.function.output_count(); ++i)
    s.output_descrs.push_back(PyArray_DescrFromType(numpy_type(s.function.output_type(i).dtype)));
  s.expected.resize(s.function.output_count());
  if (result.is_none()) {
    s.result = Result::Single;
  } else if (nb::isinstance<nb::tuple>(result)) {
    s.result = Result::Dict;
    for (nb::handle key : nb::iter(result)) s.keys.push_back(nb::borrow(key).release().ptr());
  }
  return out;
}

// ---- methods

std::size_t input_by(const State& s, nb::handle key) {
  if (is_variable(key)) {
    for (std::size_t i = 0; i < s.inputs.size(); ++i)
      if (s.inputs[i].variable == key.ptr()) return i;
  } else if (PyUnicode_Check(key.ptr())) {
    return index_of_keyword(const_cast<State&>(s), key.ptr());
  } else if (PyLong_Check(key.ptr())) {
    std::size_t i = nb::cast<std::size_t>(key);
    if (i < s.inputs.size()) return i;
  }
  fail(Fault::Value, fmt::format("{}: {} is no input", function_name(s), nb::str(key).c_str()));
}

MemoryReport memory(nb::handle self, nb::args args, nb::kwargs kwargs) {
  State& s = state_of(self);
  std::vector<std::optional<Dims>> given(s.inputs.size());
  auto set = [&](std::size_t i, nb::handle value) {
    Dims dims;
    if (PyArray_Check(value.ptr()))
      for (int k = 0; k < PyArray_NDIM(reinterpret_cast<PyArrayObject*>(value.ptr())); ++k)
        dims.push_back(PyArray_DIM(reinterpret_cast<PyArrayObject*>(value.ptr()), k));
    else
      dims = dims_of(value);
    const TensorType& type = s.inputs[i].type;
    if (static_cast<int>(dims.size()) != type.ndim())
      fail(Fault::Type, fmt::format("{}: {} dimensions expected, got the shape {}",
                                    name_of_input(s, i), type.ndim(), describe_shape(dims)));
    given[i] = dims;
  };
  if (args.size() > s.inputs.size())
    fail(Fault::Type, fmt::format("memory: takes {} shapes, got {}", s.inputs.size(), args.size()));
  for (std::size_t i = 0; i < args.size(); ++i) set(i, args[i]);
  for (auto [key, value] : kwargs) set(input_by(s, key), value);
  std::vector<Dims> shapes;
  std::string missing;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const InputSpec& spec = s.inputs[i];
    bool known = true;
    for (std::int64_t d : spec.type.shape) known &= d >= 0;
    if (!given[i] && spec.value) set(i, spec.value);
    if (!given[i] && known) given[i] = spec.type.shape;
    if (!given[i])
      missing +=
          (missing.empty() ? "" : ", ") +
          (spec.name ? std::string(PyUnicode_AsUTF8(spec.name)) : fmt::format("number {}", i));
    else
      shapes.push_back(*given[i]);
  }
  if (!missing.empty())
    fail(Fault::Type, fmt::format("memory: the shapes of these inputs are missing: {}", missing),
         "give them by name or by position: f.memory(x=(64, 784))");
  return while_others_run([&] { return s.function.memory(shapes); });
}

template <class F, class... Extra>
void method(const char* name, F&& f, const Extra&... extra) {
  nb::cpp_function_def(std::forward<F>(f), nb::scope(reinterpret_cast<PyObject*>(function_type)),
                       nb::name(name), nb::is_method(), extra...);
}

template <class F>
void property(const char* name, F&& getter, const char* doc) {
  nb::object get = nb::cpp_function(std::forward<F>(getter));
  nb::handle(reinterpret_cast<PyObject*>(function_type)).attr(name) =
      nb::handle(reinterpret_cast<PyObject*>(&PyProperty_Type))(get, nb::none(), nb::none(), doc);
}

}  // namespace

void bind_function(nb::module_& m) {
  nb::class_<MemoryReport>(m, "MemoryReport", "What a function needs for given sizes, in bytes.")
      .def_ro("inputs", &MemoryReport::inputs)
      .def_ro("outputs", &MemoryReport::outputs)
      .def_ro("parameters", &MemoryReport::parameters)
      .def_ro("constants", &MemoryReport::constants)
      .def_ro("arena", &MemoryReport::arena)
      .def_ro("temporaries", &MemoryReport::temporaries)
      .def_ro("workspace", &MemoryReport::workspace)
      .def_ro("peak", &MemoryReport::peak)
      .def_ro("peak_step", &MemoryReport::peak_step)
      .def_ro("recomputed", &MemoryReport::recomputed)
      .def_ro("note", &MemoryReport::note)
      .def("__str__", &MemoryReport::describe)
      .def("__repr__", &MemoryReport::describe);

  make_type(m);
  m.def("compile", compile, nb::arg("inputs"), nb::arg("outputs"), nb::arg("result").none(),
        nb::arg("options"));
  method("memory", memory,
         "Plans for given shapes of the inputs without running or allocating: "
         "f.memory(x=(64, 784)), by name or by position.");
  method(
      "explain",
      [](nb::handle self) {
        return while_others_run([&] { return state_of(self).function.explain(); });
      },
      "The graph after each stage, the rules that fired, times and kernels.");
  method(
      "counter",
      [](nb::handle self, const std::string& name) {
        return state_of(self).function.counter(name);
      },
      nb::arg("name"),
      "A counter: programs, plans, instances, kernels, calls, kernels_from_cache.");
  method(
      "__getitem__",
      [](nb::handle self, nb::handle key) -> nb::object {
        const State& s = state_of(self);
        PyObject* value = s.inputs[input_by(s, key)].value;
        return value ? nb::borrow(value) : nb::none();
      },
      nb::arg("key"), "The default value of an input.");
  method(
      "__setitem__",
      [](nb::handle self, nb::handle key, nb::handle value) {
        State& s = state_of(self);
        InputSpec& spec = s.inputs[input_by(s, key)];
        PyObject* filtered =
            filter(value, spec.type, spec.strict, spec.downcast, "a default value").release().ptr();
        Py_XSETREF(spec.value, filtered);
      },
      nb::arg("key"), nb::arg("value"));
  method(
      "free", [](nb::handle) {}, "Does nothing: memory is kept between calls by plan.");
  property(
      "name",
      [](nb::handle self) -> nb::object {
        const std::string& name = state_of(self).function.name();
        return name.empty() ? nb::none() : nb::object(nb::str(name.c_str()));
      },
      "The name, or None.");
  property(
      "inputs",
      [](nb::handle self) {
        nb::list out;
        for (const InputSpec& spec : state_of(self).inputs)
          out.append(spec.variable ? nb::borrow(spec.variable) : nb::none());
        return out;
      },
      "The input variables.");
  property(
      "output_types",
      [](nb::handle self) {
        nb::list out;
        const Function& f = state_of(self).function;
        for (std::size_t i = 0; i < f.output_count(); ++i) out.append(nb::cast(f.output_type(i)));
        return out;
      },
      "The types of the outputs.");
}

}  // namespace snug::python
