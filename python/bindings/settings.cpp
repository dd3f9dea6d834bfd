// Settings of the process that decide what expressions become, and test values.
#include "target/settings.h"

#include "api/devices.h"
#include "backend/opencl/find_devices.h"
#include "base/bytes.h"
#include "base/driver_work.h"
#include "base/file_error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "bindings.h"
#include "exec/frontier_cache.h"
#include "ops/rules.h"
#include "target/memory_budget.h"

namespace snug::python {
namespace {

PyObject* apply_hook = nullptr;  // called with the outputs of every op; guarded by the GIL
thread_local bool in_hook = false;

nb::list told(const std::vector<FoundDevice>& devices) {
  nb::list all;
  for (const FoundDevice& f : devices) {
    nb::dict d;
    d["name"] = f.name, d["model"] = f.model, d["driver"] = f.driver;
    d["kind"] = f.gpu ? "gpu" : "cpu";
    d["fp64"] = f.fp64, d["fp16"] = f.fp16, d["units"] = f.units;
    d["memory"] = f.memory, d["largest_allocation"] = f.largest_allocation;
    d["trouble"] = f.trouble, d["others"] = told(f.others);
    all.append(d);
  }
  return all;
}

void on_apply(const std::vector<Expr>& outputs) {
  if (!apply_hook || in_hook || !PyGILState_Check()) return;
  if (!ops::open_loops().empty()) return;  // what a body computes with has no value of its own
  in_hook = true;
  struct Leave {
    ~Leave() { in_hook = false; }
  } leave;
  nb::borrow(apply_hook)(wrap_all(outputs));
}

}  // namespace

void bind_settings(nb::module_& m) {
  m.def(
      "_set_apply_hook",
      [](nb::handle hook) {
        PyObject* next = hook.is_none() ? nullptr : hook.inc_ref().ptr();
        Py_XSETREF(apply_hook, next);
        set_apply_hook(next ? on_apply : nullptr);
      },
      nb::arg("hook").none(), "Calls hook(outputs) after every op that is applied; None: no more.");
  m.def(
      "amount_fault",
      [](const std::string& text) -> std::optional<std::pair<std::string, std::string>> {
        try {
          parse_budget_text(text, "");
        } catch (const Error& e) {
          return std::pair(e.message(), e.hint());
        }
        return std::nullopt;
      },
      nb::arg("text"), "What is wrong with a text like '4GiB', and the hint; None if nothing is.");
  // Errors name where a setting was read, not a line of Python.
  const auto as_list = [](auto&& read) {
    std::vector<SettingText> texts;
    try {
      texts = read();
    } catch (const FileError&) {
      throw;
    } catch (const Error& e) {
      const std::string hint = e.hint().empty() ? "" : "\n  hint  " + e.hint();
      throw nb::value_error((e.message() + hint).c_str());
    }
    nb::list out;
    const auto text = [](const std::string& s) {
      return nb::steal(
          PyUnicode_DecodeFSDefaultAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
    };
    for (const SettingText& t : texts)
      out.append(nb::make_tuple(text(t.name), text(t.value), text(t.place)));
    return out;
  };
  m.def(
      "_settings_of_flags",
      [as_list](const std::string& variable) {
        return as_list([&] { return settings_of_flags(variable); });
      },
      nb::arg("variable"),
      "(name, value, place) for each entry of a variable \"name=value,name=value\".");
  m.def(
      "_settings_of_files",
      [as_list](const std::string& variable, const std::string& otherwise) {
        return as_list([&] { return settings_of_files(variable, otherwise); });
      },
      nb::arg("variable"), nb::arg("otherwise"),
      "The same of the ini files that a variable lists, or of `otherwise`.");
  m.def(
      "_settings_of_environment", [as_list] { return as_list(settings_of_environment); },
      "The same of SNUGRC and SNUG_FLAGS; a ValueError if one is wrong.");
  m.def(
      "_with_interrupt_at",
      [](nb::callable f, std::int64_t check) {
        const InterruptProbe probe(check);
        try {
          f();
        } catch (nb::python_error& error) {
          if (!error.matches(PyExc_KeyboardInterrupt)) throw;
        }
        return nb::make_tuple(probe.checks(), probe.longest());
      },
      nb::arg("f"), nb::arg("check") = 0,
      "For tests: calls f and interrupts it at a check, 0: at none. The number of checks, and the "
      "longest time that a thread worked between two of them.");
  m.def("_end_driver_work", end_driver_work, nb::call_guard<nb::gil_scoped_release>());
  nb::module_::import_("atexit").attr("register")(m.attr("_end_driver_work"));
  m.def("_request_interrupt", request_interrupt, "For tests: as Ctrl-C in a call.");
  m.def("_clear_interrupt", clear_interrupt);
  m.def(
      "_forget_frontiers", [] { FrontierCache::of_process().clear(); },
      "For tests: plans within budgets are searched for again.");
  m.attr("most_threads") = kMostThreads;
  // snug._config has checked the names and amounts.
  m.def("devices", [] {
    FoundDevices found;
    {
      const nb::gil_scoped_release others_run;
      found = devices();
    }
    nb::dict out;
    out["devices"] = told(found.devices), out["unusable"] = told(found.unusable);
    out["names"] = found.names(), out["trouble"] = found.trouble, out["text"] = found.describe();
    return out;
  });
  m.def(
      "_set_current_device",
      [](const std::string& name) { return std::string(set_current_device_mark(name)); },
      nb::arg("name"),
      "What is built on this thread from now on is on a device; '' on none. The one before.");
  m.def(
      "_set_opencl_patience",
      [](double seconds) {
        set_opencl_patience(std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds)));
      },
      "For tests: how long drivers may take to answer.");
  m.def(
      "_why_no_opencl_devices",
      [](const std::string& folder) { return find_opencl_devices(folder).trouble; },
      "For tests: another folder in place of /dev.");
  m.def("set_memory_budget", [](const std::string& text) { set_memory_budget(text); });
  m.def("set_cast_policy", [](const std::string& name) {
    set_cast_policy(name == "custom" ? CastPolicy::Custom : CastPolicy::NumpyFloatX);
  });
  m.def("set_int_division", [](const std::string& name) {
    set_int_division(name == "int"     ? IntDivision::Floor
                     : name == "raise" ? IntDivision::Raise
                                       : IntDivision::DefaultFloat);
  });
}

}  // namespace snug::python
