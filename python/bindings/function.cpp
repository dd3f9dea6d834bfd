// Compiled functions as Python objects.
#include <memory>

#include "function_object.h"

namespace snug::python {

std::string name_of_input(const FunctionState& s, std::size_t i) {
  const InputSpec& spec = s.inputs[i];
  std::string where = s.function.name().empty() ? "function" : s.function.name();
  if (spec.name) return fmt::format("{}: argument {} ({})", where, i, PyUnicode_AsUTF8(spec.name));
  return fmt::format("{}: argument {}", where, i);
}

std::string function_name(const FunctionState& s) {
  return s.function.name().empty() ? std::string("function") : s.function.name();
}

std::size_t index_of_keyword(const FunctionState& s, PyObject* key) {
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

namespace {

/// Runs `f`, which takes locks and may take long; gives up the GIL for it only if that is needed,
/// since expressions count their references under the GIL. Ctrl-C stops it.
template <class F>
auto while_others_run(F&& f) {
  InterruptGuard interrupt(true);
  if (calls_in_flight == 0) return f();
  nb::gil_scoped_release no_gil;
  return f();
}

PyTypeObject* function_type = nullptr;
FunctionObject* cast(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }
FunctionState& state_of(nb::handle h) { return *cast(h.ptr())->state; }

// ---- the type

int function_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->dict);
  Py_VISIT(cast(self)->source);
  if (FunctionState* s = cast(self)->state) {
    for (InputSpec& spec : s->inputs) {
      Py_VISIT(spec.variable);
      Py_VISIT(spec.value);
    }
    for (PyObject* key : s->keys) Py_VISIT(key);
    int result = 0;
    s->function.visit_shared([&](SharedVariable& v) {
      if (result == 0 && v.script_object())
        result = visit(static_cast<PyObject*>(v.script_object()), arg);
    });
    return result;
  }
  return 0;
}

int function_clear(PyObject* self) {
  Py_CLEAR(cast(self)->dict);
  Py_CLEAR(cast(self)->source);
  if (FunctionState* s = cast(self)->state)
    for (InputSpec& spec : s->inputs) Py_CLEAR(spec.variable);
  return 0;
}

void function_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (cast(self)->weakrefs) PyObject_ClearWeakRefs(self);
  function_clear(self);
  if (FunctionState* s = std::exchange(cast(self)->state, nullptr)) {
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

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weakrefs), READONLY, nullptr},
    {"trust_input", T_BOOL, offsetof(FunctionObject, trust_input), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
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
  if (name == "guard") return Mode::Guard;
  std::string near = nearest(name, {"fast", "check", "reference"});
  fail(Fault::Value, fmt::format("function: there is no mode '{}'", name),
       near.empty() ? "modes are 'fast', 'check' and 'reference'"
                    : fmt::format("did you mean '{}'?", near));
}

// An option as Python gives it; numbers and names were checked there.
void read_option(nb::handle value, const char*, bool& to) { to = nb::cast<bool>(value); }
void read_option(nb::handle value, const char*, std::string& to) {
  to = nb::cast<std::string>(value);
}
void read_option(nb::handle value, const char*, std::vector<std::string>& to) {
  to = nb::cast<std::vector<std::string>>(value);
}
void read_option(nb::handle value, const char* name, int& to) { to = small_integer(value, name); }
void read_option(nb::handle value, const char* name, std::int64_t& to) {
  to = integer_of(value, name);
}
void read_option(nb::handle value, const char*, DType& to) {
  to = dtype_from_name(nb::cast<std::string>(value)).value_or(DType::Bool);
}
void read_option(nb::handle value, const char*, Mode& to) {
  to = mode_of(nb::cast<std::string>(value));
}
void read_option(nb::handle value, const char*, OnUnusedInput& to) {
  to = nb::cast<std::string>(value) == "ignore" ? OnUnusedInput::Ignore : OnUnusedInput::Raise;
}
void read_option(nb::handle value, const char*, Guarded& to) {
  nb::object parts = nb::borrow(value);
  to = {nb::cast<bool>(parts[0]), nb::cast<bool>(parts[1]), nb::cast<bool>(parts[2])};
}

FunctionOptions options_of(const nb::dict& options) {
  FunctionOptions o;
  std::size_t known = 0;
  const auto given = [&](const char* name) {
    const bool found = options.contains(name);
    known += found;
    return found;
  };
  if (given("updates")) o.updates = pairs_of(options["updates"], "updates");
  if (given("givens")) o.givens = pairs_of(options["givens"], "givens");
  if (given("shapes"))
    for (nb::handle p : nb::iter(options["shapes"])) {
      nb::object pair = nb::borrow(p);
      o.shapes.emplace_back(unwrap(nb::object(pair[0]), "shapes"), dims_of(nb::object(pair[1])));
    }
  given("renewed");  // of the call, not of the function
  each_option([&](const char* name, auto member) {
    if (given(name)) read_option(options[name], name, o.*member);
  });
  SNUG_CHECK(known == nb::len(options), "function: {} of {} options are known", known,
             nb::len(options));
  return o;
}

nb::object compile(nb::handle inputs, nb::handle outputs, nb::handle result, nb::dict options) {
  UserLine line;
  auto state = std::make_unique<FunctionState>();
  std::vector<Expr> in;
  PyObject* self = function_type->tp_alloc(function_type, 0);
  if (!self) throw nb::python_error();
  nb::object out = nb::steal(self);
  FunctionState& s = *(cast(self)->state = state.release());
  cast(self)->call = call_function;
  for (nb::handle item : nb::iter(inputs)) {
    s.inputs.push_back(input_spec(item));
    in.push_back(unwrap(s.inputs.back().variable, "function"));
  }
  std::vector<Expr> results = unwrap_all(outputs, "function");

  FunctionOptions o = options_of(options);
  s.function = while_others_run([&] { return function(in, results, o); });

  for (std::size_t i = 0; i < s.function.output_count(); ++i)
    s.output_descrs.push_back(PyArray_DescrFromType(numpy_type(s.function.output_type(i).dtype)));
  s.expected.resize(s.function.output_count());
  s.renewed = nb::cast<std::vector<std::size_t>>(options["renewed"]);
  cast(self)->source = nb::make_tuple(inputs, outputs, result, options).release().ptr();
  if (result.is_none()) {
    s.result = ResultKind::Single;
  } else if (nb::isinstance<nb::tuple>(result)) {
    s.result = ResultKind::Dict;
    for (nb::handle key : nb::iter(result)) s.keys.push_back(nb::borrow(key).release().ptr());
  }
  return out;
}

// ---- methods

std::size_t input_by(const FunctionState& s, nb::handle key) {
  if (is_variable(key)) {
    for (std::size_t i = 0; i < s.inputs.size(); ++i)
      if (s.inputs[i].variable == key.ptr()) return i;
  } else if (PyUnicode_Check(key.ptr())) {
    return index_of_keyword(s, key.ptr());
  } else if (PyLong_Check(key.ptr())) {
    std::size_t i = nb::cast<std::size_t>(key);
    if (i < s.inputs.size()) return i;
  }
  fail(Fault::Value, fmt::format("{}: {} is no input", function_name(s), nb::str(key).c_str()));
}

/// Shapes of the inputs, and values of integers that sizes depend on.
struct Sizes {
  std::vector<Dims> shapes;
  Function::Values values;
  std::vector<bool> copied;  // by a call
};

Sizes sizes_of(const char* where, FunctionState& s, const nb::args& args,
               const nb::kwargs& kwargs) {
  std::vector<std::optional<Dims>> given(s.inputs.size());
  Function::Values values(s.inputs.size());
  std::vector<bool> copied(s.inputs.size(), false);
  auto set = [&](std::size_t i, nb::handle value) {
    Dims dims;
    const TensorType& declared = s.inputs[i].type;
    if (declared.ndim() == 0 && is_discrete(declared.dtype) && PyIndex_Check(value.ptr()) &&
        !PyTuple_Check(value.ptr())) {
      values[i] = nb::cast<std::int64_t>(nb::int_(value));
      given[i] = dims;
      return;
    }
    if (PyArray_Check(value.ptr())) {
      auto* const array = reinterpret_cast<PyArrayObject*>(value.ptr());
      for (int k = 0; k < PyArray_NDIM(array); ++k) dims.push_back(PyArray_DIM(array, k));
      // Of another dtype it is converted before the call, into memory of its own.
      copied[i] = PyArray_TYPE(array) == numpy_type(declared.dtype) && !PyArray_ISCARRAY_RO(array);
    } else {
      dims = dims_of(value);
    }
    const TensorType& type = s.inputs[i].type;
    if (static_cast<int>(dims.size()) != type.ndim())
      fail(Fault::Type, fmt::format("{}: {} dimensions expected, got the shape {}",
                                    name_of_input(s, i), type.ndim(), describe_shape(dims)));
    for (std::int64_t n : dims)
      if (n < 0) fail(Fault::Value, fmt::format("{}: {} is no size", name_of_input(s, i), n));
    given[i] = dims;
  };
  if (args.size() > s.inputs.size())
    fail(Fault::Type,
         fmt::format("{}: takes {} shapes, got {}", where, s.inputs.size(), args.size()));
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
    fail(Fault::Type, fmt::format("{}: the shapes of these inputs are missing: {}", where, missing),
         fmt::format("give them by name or by position: f.{}(x=(64, 784))", where));
  return {std::move(shapes), std::move(values), std::move(copied)};
}

MemoryReport memory(nb::handle self, nb::args args, nb::kwargs kwargs) {
  FunctionState& s = state_of(self);
  const Sizes sizes = sizes_of("memory", s, args, kwargs);
  return while_others_run(
      [&] { return s.function.memory(sizes.shapes, sizes.values, sizes.copied); });
}

MaxBatch max_batch(nb::handle self, const std::string& memory, int axis, nb::args args,
                   nb::kwargs kwargs) {
  FunctionState& s = state_of(self);
  const Sizes sizes = sizes_of("max_batch", s, args, kwargs);
  return while_others_run(
      [&] { return s.function.max_batch(sizes.shapes, memory, axis, sizes.values); });
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

void bind_results(nb::module_& m) {
  nb::class_<ProfileReport::StepTime>(m, "StepTime")
      .def_ro("name", &ProfileReport::StepTime::name)
      .def_ro("result", &ProfileReport::StepTime::result)
      .def_ro("where", &ProfileReport::StepTime::where)
      .def_ro("count", &ProfileReport::StepTime::count)
      .def_ro("seconds", &ProfileReport::StepTime::seconds)
      .def_ro("predicted", &ProfileReport::StepTime::predicted);
  nb::class_<ProfileReport>(m, "ProfileReport")
      .def_ro("calls", &ProfileReport::calls)
      .def_ro("seconds", &ProfileReport::seconds)
      .def_ro("steps", &ProfileReport::steps)
      .def("describe", &ProfileReport::describe, nb::arg("most") = 20);
  nb::class_<BatchWay>(m, "BatchWay")
      .def_ro("name", &BatchWay::name)
      .def_ro("rows", &BatchWay::rows)
      .def_ro("plan", &BatchWay::plan)
      .def_ro("how", &BatchWay::how)
      .def_prop_ro("seconds", [](const BatchWay& w) { return w.plan.seconds; })
      .def_prop_ro("seconds_per_row", &BatchWay::seconds_per_row)
      .def("__repr__", [](const BatchWay& w) {
        return fmt::format("BatchWay(name='{}', rows={}, how='{}')", w.name, w.rows, w.how);
      });
  nb::class_<MaxBatch>(m, "MaxBatch")
      .def_ro("rows", &MaxBatch::rows)
      .def_ro("plan", &MaxBatch::plan)
      .def_ro("ways", &MaxBatch::ways)
      .def_ro("advised", &MaxBatch::advised)
      .def_ro("why", &MaxBatch::why)
      .def("describe", &MaxBatch::describe);
}

void bind_planning() {
  method("memory", memory,
         "Plans for given shapes of the inputs without running or allocating: "
         "f.memory(x=(64, 784)), by name or by position; an array also shows whether a call "
         "copies it. Of a 0-d integer that sizes depend on, "
         "give the value: f.memory(x=(64, 784), n=10).");
  method("_max_batch", max_batch, "The largest batches that fit.");
}

/// What it says of itself, and what it keeps.
void bind_insight() {
  method(
      "explain",
      [](nb::handle self) {
        return while_others_run([&] { return state_of(self).function.explain(); });
      },
      "The graph after each stage, the rules that fired, times and kernels.");
  method(
      "_profile", [](nb::handle self) { return state_of(self).function.profile(); },
      "Where the time of its calls went.");
  method(
      "counter",
      [](nb::handle self, const std::string& name) {
        return state_of(self).function.counter(name);
      },
      nb::arg("name"),
      "A counter: programs, plans, instances, kernels, calls, kernels_from_cache; arena_bytes: "
      "what "
      "is kept for the next call.");
  method(
      "free",
      [](nb::handle self) { while_others_run([&] { return state_of(self).function.free(); }); },
      "Gives back the memory that is kept between calls. The next call plans and allocates anew.");
  method(
      "_view",
      [](nb::handle self) {
        Function::View view = state_of(self).function.view();
        nb::list updates;
        for (const auto& [target, value] : view.updates)
          updates.append(nb::make_tuple(wrap(target), wrap(value)));
        return nb::make_tuple(wrap_all(view.inputs), wrap_all(view.outputs), updates);
      },
      "The graph that runs: inputs, outputs, updates.");
}

void bind_defaults() {
  method(
      "_get_default",
      [](nb::handle self, nb::handle key) -> nb::object {
        const FunctionState& s = state_of(self);
        PyObject* value = s.inputs[input_by(s, key)].value;
        return value ? nb::borrow(value) : nb::none();
      },
      nb::arg("key"), "The default value of an input.");
  method(
      "_set_default",
      [](nb::handle self, nb::handle key, nb::handle value) {
        FunctionState& s = state_of(self);
        InputSpec& spec = s.inputs[input_by(s, key)];
        PyObject* filtered =
            filter(value, spec.type, spec.strict, spec.downcast, "a default value").release().ptr();
        Py_XSETREF(spec.value, filtered);
      },
      nb::arg("key"), nb::arg("value").none(), "Sets the default value of an input.");
  property(
      "_defaults",
      [](nb::handle self) {
        nb::list out;
        for (const InputSpec& spec : state_of(self).inputs)
          out.append(spec.value ? nb::borrow(spec.value) : nb::none());
        return out;
      },
      "The default values of the inputs as they are now.");
}

/// What it was made of.
void bind_signature() {
  property(
      "_source",
      [](nb::handle self) {
        PyObject* source = cast(self.ptr())->source;
        return source ? nb::borrow(source) : nb::none();
      },
      "The arguments it was made of.");
  method(
      "_forget_source", [](nb::handle self) { Py_CLEAR(cast(self.ptr())->source); },
      "For functions that nobody sees: they do not hold their expressions.");
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

}  // namespace

void bind_function(nb::module_& m) {
  bind_memory_reports(m);
  bind_results(m);
  make_type(m);
  m.def("compile", compile, nb::arg("inputs"), nb::arg("outputs"), nb::arg("result").none(),
        nb::arg("options"));
  bind_planning();
  bind_insight();
  bind_defaults();
  bind_signature();
}

}  // namespace snug::python
