// snug.data: transforms and the loader.
#include <nanobind/stl/shared_ptr.h>

#include "base/bytes.h"
#include "bindings.h"
#include "data/loader.h"

namespace snug::python {
namespace {

using data::Loader;
using data::LoaderMemory;
using data::LoaderOptions;
using data::LoaderState;
using data::Source;
using data::Transform;

/// The next batch as a tuple of arrays; None at the end of an epoch. Ctrl-C ends the waiting.
nb::object next_batch(Loader& loader) {
  UserLine line;
  while (true) {
    bool ready = false;
    {
      nb::gil_scoped_release released;
      ready = loader.wait(std::chrono::milliseconds(50));
    }
    if (ready) break;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  std::optional<data::Batch> batch = loader.next();
  if (!batch) return nb::none();
  nb::list arrays;
  for (const Array& array : batch->arrays) arrays.append(export_array(array));
  return nb::tuple(arrays);
}

std::vector<double> numbers_of(nb::handle h) {
  if (PyFloat_Check(h.ptr()) || PyLong_Check(h.ptr())) return {nb::cast<double>(h)};
  return nb::cast<std::vector<double>>(h);
}

/// "<12.5 MiB of at most 64.0 MiB: windows 0 B, batches 12.5 MiB, work 0 B; source 1.0 MiB>"
std::string describe_memory(const LoaderMemory& m) {
  const auto text = [](std::int64_t bytes) {
    return describe_bytes(static_cast<std::uint64_t>(bytes));
  };
  return fmt::format("<{} of at most {}: windows {}, batches {}, work {}; source {}>",
                     text(m.total() - m.source), text(m.limit), text(m.windows), text(m.batches),
                     text(m.work), text(m.source));
}

nb::dict state_of(const LoaderState& state) {
  nb::dict out;
  out["seed"] = state.seed;
  out["epoch"] = state.epoch;
  out["batch"] = state.batch;
  out["rows"] = state.rows;
  out["batch_rows"] = state.batch_rows;
  out["window_rows"] = state.window_rows;
  out["shuffle"] = state.shuffle;
  return out;
}

LoaderState state_from(nb::dict entries) {
  auto get = [&](const char* name) {
    if (!entries.contains(name))
      fail(Fault::Value, fmt::format("Loader.seek: the state has no '{}'", name),
           "give what state() returned");
    return nb::object(entries[name]);
  };
  return {nb::cast<std::uint64_t>(get("seed")),
          nb::cast<std::int64_t>(get("epoch")),
          nb::cast<std::int64_t>(get("batch")),
          nb::cast<std::int64_t>(get("rows")),
          nb::cast<std::int64_t>(get("batch_rows")),
          nb::cast<std::int64_t>(get("window_rows")),
          nb::cast<bool>(get("shuffle"))};
}

template <class F>
Transform made(F&& make) {
  UserLine line;
  return make();
}

}  // namespace

void bind_loaders(nb::module_& m) {
  nb::class_<Transform>(m, "Transform", "A step from a row of a source to a row of a batch.")
      .def(
          "on",
          [](const Transform& self, nb::args names) {
            std::vector<std::string> fields;
            for (nb::handle name : names) fields.push_back(nb::cast<std::string>(name));
            return self.on(fields);
          },
          nb::arg("names"),
          "The same step on the fields of these names; they get the same random numbers.")
      .def("__repr__",
           [](const Transform& self) { return fmt::format("<transform {}>", self.rule().name()); });
  m.def(
      "data_to",
      [](nb::handle dtype, double scale) {
        return made([&] { return data::to(as_dtype(dtype), scale); });
      },
      nb::arg("dtype"), nb::arg("scale") = 1.0, "x * scale, as this dtype.");
  m.def(
      "data_normalise",
      [](nb::handle mean, nb::handle std) {
        return made([&] { return data::normalise(numbers_of(mean), numbers_of(std)); });
      },
      nb::arg("mean"), nb::arg("std"),
      "(x - mean) / std, as a float: one number for all, or one per channel (the first axis).");
  m.def(
      "data_flip", [](double p) { return made([&] { return data::flip(p); }); },
      nb::arg("probability") = 0.5,
      "Images (..., height, width): left and right change places, with this probability.");
  m.def(
      "data_crop",
      [](std::int64_t height, std::int64_t width, std::int64_t padding, bool random) {
        return made([&] { return data::crop(height, width, padding, random); });
      },
      nb::arg("height"), nb::arg("width"), nb::arg("padding") = 0, nb::arg("random") = true,
      "Images (..., height, width): a part of this size at a random place of the image with zeros "
      "around it, or, with random=False, the middle.");
  m.def(
      "data_jitter",
      [](double brightness, double contrast) {
        return made([&] { return data::jitter(brightness, contrast); });
      },
      nb::arg("brightness"), nb::arg("contrast") = 0.0,
      "Brightness times a number in [1 - brightness, 1 + brightness], and the distance of values "
      "from their mean times one in [1 - contrast, 1 + contrast].");
  m.def(
      "data_one_hot",
      [](std::int64_t classes) { return made([&] { return data::one_hot(classes); }); },
      nb::arg("classes"), "An integer as a float32 vector with a one at its place.");
  m.def(
      "data_reshape",
      [](nb::handle shape) { return made([&] { return data::reshape(dims_of(shape)); }); },
      nb::arg("shape"), "The same values in another shape.");

  nb::class_<LoaderMemory>(m, "LoaderMemory", "Bytes that a loader holds.")
      .def_ro("limit", &LoaderMemory::limit)
      .def_ro("windows", &LoaderMemory::windows, "Blocks of the source, as read.")
      .def_ro("source", &LoaderMemory::source,
              "What the source keeps for itself, and the most that its decoders took so far.")
      .def_ro("batches", &LoaderMemory::batches, "Finished, in the making, and with the caller.")
      .def_ro("work", &LoaderMemory::work, "Rows between two transforms.")
      .def_prop_ro("total", &LoaderMemory::total)
      .def("__repr__", describe_memory);

  nb::class_<Loader>(m, "Loader", "Batches made ahead by threads; snug.data.Loader uses it.")
      .def(
          "__init__",
          [](Loader* self, const std::shared_ptr<Source>& source, std::int64_t batch, bool shuffle,
             std::uint64_t seed, const std::vector<Transform>& transforms,
             const std::string& memory, nb::handle threads, bool drop_last, nb::handle floats) {
            UserLine line;
            LoaderOptions options{batch,      shuffle, seed,
                                  transforms, memory,  small_integer(threads, "Loader: threads"),
                                  drop_last,  {}};
            if (!floats.is_none()) options.floats = as_dtype(floats);
            new (self) Loader(source, std::move(options));
          },
          nb::arg("source"), nb::arg("batch"), nb::arg("shuffle"), nb::arg("seed"),
          nb::arg("transforms"), nb::arg("memory"), nb::arg("threads"), nb::arg("drop_last"),
          nb::arg("floats").none())
      .def("next", &next_batch, "The next batch; None, once, at the end of an epoch.")
      .def("begin_epoch", &Loader::begin_epoch)
      .def("state", [](const Loader& self) { return state_of(self.state()); })
      .def(
          "seek",
          [](Loader& self, nb::dict state) {
            UserLine line;
            self.seek(state_from(state));
          },
          nb::arg("state"))
      .def("memory", &Loader::memory)
      .def_prop_ro("fields", [](const Loader& self) { return self.fields(); })
      .def_prop_ro("rows", &Loader::rows)
      .def_prop_ro("threads", &Loader::threads)
      .def("__len__", &Loader::batches);
}

}  // namespace snug::python
