// Update rules and schedules (src/optim).
#include "optim.h"

#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

struct PythonSchedule {
  optim::Schedule rate_at;
};

/// A Python function as a schedule.
optim::Schedule schedule_of(nb::object f) {
  return [f = std::move(f)](const Expr& step) { return as_tensor(f(wrap(step)), "schedule"); };
}

optim::Rate rate_of(handle h) {
  if (h.is_none()) return {};
  PythonSchedule* schedule = nullptr;
  if (nb::try_cast(h, schedule) && schedule) return schedule->rate_at;
  if (!is_variable(h) && PyCallable_Check(h.ptr())) return schedule_of(nb::borrow(h));
  if (PyFloat_Check(h.ptr()) || PyLong_Check(h.ptr())) return nb::cast<double>(h);
  return as_tensor(h, "rate");
}

nb::tuple updates(const std::string& rule, handle cost, handle parameters, nb::dict options) {
  UserLine line;
  optim::Cost of =
      is_variable(cost) ? optim::Cost(unwrap(cost, rule)) : optim::Cost(unwrap_all(cost, rule));
  optim::Updates made =
      optim::updates_by(rule, of, unwrap_all(parameters, rule), optim_options(options));
  nb::list pairs;
  for (const auto& [variable, value] : made.pairs)
    pairs.append(nb::make_tuple(wrap(variable), wrap(value)));
  return nb::make_tuple(pairs, wrap_all(made.states), wrap_all(made.averages));
}

template <class... P, class... Extra>
void define_schedule(nb::module_& m, const char* name, optim::Schedule (*make)(P...),
                     const Extra&... extra) {
  m.def(
      name, [make](P... values) { return PythonSchedule{make(values...)}; }, extra...);
}

}  // namespace

optim::Options optim_options(nb::dict options) {
  optim::Options out;
  for (auto [key, value] : options) {
    std::string name = nb::cast<std::string>(key);
    if (name == "rate") {
      out.rate = rate_of(value);
    } else if (!value.is_none()) {
      double number = PyFloat_AsDouble(value.ptr());
      if (PyErr_Occurred()) throw nb::python_error();
      optim::set_option(out, name, number);
    }
  }
  return out;
}

void bind_optim(nb::module_& core) {
  nb::module_ m = core.def_submodule("optim", "Update rules and schedules.");
  nb::class_<PythonSchedule>(m, "Schedule", "A learning rate that depends on the step.")
      .def(
          "__call__",
          [](const PythonSchedule& self, handle step) {
            UserLine line;
            return tensor_of(self.rate_at(cast(as_tensor(step, "schedule"), DType::F64)));
          },
          arg("step"), "The rate of a step, which counts from 0.");
  m.def("updates", updates, arg("rule"), arg("loss_or_grads"), arg("params"), arg("options"),
        "The pairs of updates of a rule, its state variables, and those that average.");
  m.def("default_rate", optim::default_rate, arg("rule"));
  m.def("rule_names", optim::rule_names);
  define_schedule(m, "constant", optim::constant_rate, arg("rate"), "Always the same rate.");
  define_schedule(m, "step_decay", optim::step_decay, arg("rate"), arg("every"),
                  arg("factor") = 0.1, "rate * factor^floor(step / every)");
  define_schedule(m, "exponential_decay", optim::exponential_decay, arg("rate"), arg("factor"),
                  "rate * factor^step");
  define_schedule(m, "cosine", optim::cosine, arg("rate"), arg("steps"), arg("last") = 0.0,
                  "Half a cosine from rate down to last at steps, and last from there on.");
  define_schedule(
      m, "one_cycle", optim::one_cycle, arg("peak"), arg("steps"), arg("rising") = 0.3,
      arg("divide") = 25.0, arg("divide_last") = 1e4,
      "PyTorch's OneCycleLR: up from peak / divide in the first part of the steps, then "
      "down to\npeak / divide / divide_last, both as cosines.");
  m.def(
      "warm_up",
      [](std::int64_t steps, handle then) {
        optim::Rate rate = rate_of(then);
        Expr value = rate.value;
        if (!rate.schedule) rate.schedule = [value](const Expr&) { return value; };
        return PythonSchedule{optim::warm_up(steps, rate.schedule)};
      },
      arg("steps"), arg("then"),
      "A straight line from then(0) / steps up to then(0) in the first steps, then(step - steps) "
      "from there on.\n`then` is a schedule, a function or a rate.");
  const auto clip = [&m](const char* name, auto f, const char* doc) {
    m.def(
        name,
        [f, name](handle grads, double limit) {
          UserLine line;
          return wrap_all(f(unwrap_all(grads, name), limit, std::source_location::current()));
        },
        arg("grads"), arg("limit"), doc);
  };
  clip("clip_by_value", optim::clip_by_value, "Elements outside [-limit, limit] set to the bound.");
  clip("clip_by_norm", optim::clip_by_norm,
       "Each gradient scaled to the L2 norm `limit` if its own is larger.");
  clip(
      "clip_by_global_norm", optim::clip_by_global_norm,
      "All gradients scaled by one factor so that the L2 norm of all together is at most `limit`.");
}

}  // namespace snug::python
