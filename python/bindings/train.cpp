// The training loop (src/train).
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>

#include "arguments.h"
#include "optim.h"
#include "path.h"
#include "train/saved_model.h"
#include "train/trainer.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;
using nn::Epoch;
using nn::FitOptions;
using nn::History;
using nn::LayerPtr;
using nn::Objective;
using nn::Trainer;

/// The name of a loss or metric, or a function of predictions and targets.
Objective objective_of(handle h) {
  if (nb::isinstance<nb::str>(h)) return nb::cast<std::string>(h);
  if (!PyCallable_Check(h.ptr()))
    fail(Fault::Type, "fit: a loss or metric is a name, or a function of predictions and targets");
  handle named = nb::hasattr(h, "__name__") ? h : handle(h.type());
  std::string name = nb::cast<std::string>(named.attr("__name__"));
  return {name, [f = nb::borrow(h), name](const Expr& p, const Expr& y) {
            return as_tensor(f(wrap(p), wrap(y)), name);
          }};
}

nn::Progress progress_of(handle h) {
  if (h.is_none()) return nn::Progress::Auto;
  const std::string text = nb::cast<std::string>(h);
  const std::pair<const char*, nn::Progress> known[] = {{"auto", nn::Progress::Auto},
                                                        {"bar", nn::Progress::Bar},
                                                        {"lines", nn::Progress::Lines},
                                                        {"silent", nn::Progress::Silent}};
  for (const auto& [name, value] : known)
    if (text == name) return value;
  fail(Fault::Value, fmt::format("fit: progress is \"{}\"", text),
       "there are auto, bar, lines and silent");
}

/// None: the training goes on. Ctrl-C in the function is Ctrl-C in the training.
std::function<bool(const Epoch&)> callback_of(handle h) {
  if (h.is_none()) return nullptr;
  return [f = nb::borrow(h)](const Epoch& epoch) {
    nb::gil_scoped_acquire gil;
    try {
      nb::object answer = f(nb::cast(epoch));
      return answer.is_none() || nb::cast<bool>(nb::bool_(answer));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt) || !honours_interrupts()) throw;
      request_interrupt();
      return true;
    }
  };
}

/// The options of fit by name; Python checks that there are no others.
FitOptions options_of(nb::dict given) {
  FitOptions o;
  for (auto [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "loss") o.loss = objective_of(value);
    if (name == "metrics")
      for (handle metric : nb::iter(value)) o.metrics.push_back(objective_of(metric));
    if (name == "epochs") o.epochs = integer_of(value, "epochs");
    if (name == "optimizer") o.optimizer = nb::cast<std::string>(value);
    if (name == "optim") o.optim = optim_options(nb::cast<nb::dict>(value));
    if (name == "validation" && !value.is_none()) o.validation = nb::cast<data::Loader*>(value);
    if (name == "class_weight" && !value.is_none())
      o.class_weight = nb::cast<std::vector<double>>(value);
    if (name == "monitor" && !value.is_none()) o.monitor = nb::cast<std::string>(value);
    if (name == "patience") o.patience = integer_of(value, "patience");
    if (name == "restore_best") o.restore_best = nb::cast<bool>(value);
    if (name == "folder" && !value.is_none()) o.folder = path_of(value);
    if (name == "checkpoint_steps") o.checkpoint_steps = integer_of(value, "checkpoint_steps");
    if (name == "keep") o.keep = nb::cast<int>(value);
    if (name == "metadata") o.metadata = nb::cast<std::map<std::string, std::string>>(value);
    if (name == "resume") o.resume = nb::cast<bool>(value);
    if (name == "accept") o.accept = nb::cast<std::vector<std::string>>(value);
    if (name == "memory" && !value.is_none()) o.memory = nb::cast<std::string>(nb::str(value));
    if (name == "device" && !value.is_none()) o.device = nb::cast<std::string>(value);
    if (name == "micro_batches") o.micro_batches = integer_of(value, "micro_batches");
    if (name == "recompute") o.recompute = nb::cast<bool>(value);
    if (name == "offload" && !value.is_none()) o.offload = nb::cast<std::string>(value);
    if (name == "threads") o.threads = small_integer(value, "threads");
    if (name == "activations") o.activations = *dtype_from_name(nb::cast<std::string>(value));
    if (name == "precision") o.precision = *dtype_from_name(nb::cast<std::string>(value));
    if (name == "progress") o.progress = progress_of(value);
    if (name == "on_epoch") o.on_epoch = callback_of(value);
  }
  return o;
}

History fit(Trainer& trainer, data::Loader& data, nb::dict given) {
  UserLine line;
  const FitOptions options = options_of(given);
  History history;
  try {
    InterruptGuard guard(true);
    nb::gil_scoped_release no_gil;
    history = nn::fit(trainer, data, options);
  } catch (const nn::StepRefusal& e) {
    trainer.refuse(e);
  }
  // Ctrl-C was meant for the training, which has saved and returned.
  if (history.interrupted && PyErr_CheckSignals() < 0) PyErr_Clear();
  return history;
}

void bind_history(nb::module_& m) {
  nb::class_<Epoch>(m, "Epoch", "What one epoch gave; means over its rows.")
      .def_ro("number", &Epoch::number)
      .def_ro("step", &Epoch::step)
      .def_ro("loss", &Epoch::loss)
      .def_ro("metrics", &Epoch::metrics)
      .def_ro("validation_loss", &Epoch::validation_loss)
      .def_ro("validation_metrics", &Epoch::validation_metrics)
      .def_ro("best", &Epoch::best)
      .def_ro("seconds", &Epoch::seconds)
      .def_ro("rows_per_second", &Epoch::rows_per_second)
      .def("__repr__", &Epoch::describe);
  nb::class_<History>(m, "History", "What a training gave, epoch by epoch.")
      .def_ro("metrics", &History::metrics)
      .def_ro("epochs", &History::epochs)
      .def_ro("best_epoch", &History::best_epoch, "From 1; 0: none.")
      .def_ro("stopped_early", &History::stopped_early)
      .def_ro("interrupted", &History::interrupted)
      .def_ro("resumed_from", &History::resumed_from)
      .def_prop_ro(
          "planned",
          [](const History& h) {
            nb::dict planned;
            for (const auto& [device, bytes] : h.planned) planned[device.c_str()] = bytes;
            return planned;
          },
          "Bytes of a step as planned, by device; 'cpu' with what loaders have.")
      .def_ro("skipped", &History::skipped, "Damaged and foreign checkpoints, and why.")
      .def("__getitem__", &History::values, arg("name"),
           "One number per epoch: history['loss'], history['validation_accuracy'].")
      .def("__repr__", &History::describe);
  nb::class_<nn::LoadReport>(m, "LoadReport", "What `load` did, by the names of parameters.")
      .def_ro("loaded", &nn::LoadReport::loaded)
      .def_ro("missing", &nn::LoadReport::missing, "In the model alone.")
      .def_ro("different", &nn::LoadReport::different, "Of another shape or dtype, and which.")
      .def_ro("left_over", &nn::LoadReport::left_over, "In the file alone.")
      .def_prop_ro("complete", &nn::LoadReport::complete, "Model and file have the same.")
      .def("__repr__", [](const nn::LoadReport& r) {
        return fmt::format("<snug.nn.LoadReport: {}>", r.describe());
      });
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_history(m);
  nb::class_<Trainer>(m, "Trainer", "The compiled step and evaluation of a model.")
      .def(
          "__init__",
          [](Trainer* self, const LayerPtr& model, const std::vector<data::Field>& fields,
             nb::dict options) {
            UserLine line;
            InterruptGuard guard(true);
            new (self) Trainer(*model, fields, options_of(options));
          },
          arg("model"), arg("fields"), arg("options"), nb::keep_alive<1, 2>())
      .def("fit", fit, arg("data"), arg("options"))
      .def(
          "plan",
          [](const Trainer& self, std::int64_t rows) {
            InterruptGuard guard(true);
            try {
              return self.plan(rows);
            } catch (const nn::StepRefusal& e) {
              self.refuse(e);
            }
          },
          arg("rows"), "What a step of so many rows takes.")
      .def(
          "restart",
          [](const Trainer& self, const LayerPtr& model) {
            UserLine line;
            self.restart(*model);
          },
          arg("model"),
          "Takes the parameters of another model of the same kind, and new state for the rest.")
      .def("set_rate", &Trainer::set_rate, arg("rate"));
  m.def(
      "evaluate",
      [](const LayerPtr& model, data::Loader& data, nb::dict given) {
        UserLine line;
        const FitOptions options = options_of(given);
        const Function evaluation = nn::evaluation_of(*model, data.fields(), options);
        InterruptGuard guard(true);
        nb::gil_scoped_release no_gil;
        return nn::evaluate(evaluation, data, options);
      },
      arg("model"), arg("data"), arg("options"));
  m.def(
      "save_parameters",
      [](const LayerPtr& model, nb::handle path) {
        UserLine line;
        nn::save(*model, path_of(path));
      },
      arg("model"), arg("path"));
  m.def(
      "load_parameters",
      [](const LayerPtr& model, nb::handle path, bool strict) {
        UserLine line;
        return nn::load(*model, path_of(path), strict);
      },
      arg("model"), arg("path"), arg("strict"));
  m.def(
      "load_model",
      [](nb::handle path) {
        UserLine line;
        const auto [model, card] = nn::load_model(path_of(path));
        nb::list input;
        for (std::int64_t size : card.input) input.append(size);
        return nb::make_tuple(model, card.model, nb::tuple(input), card.classes, card.bytes);
      },
      arg("path"));
}

}  // namespace snug::python
