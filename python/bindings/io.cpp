// Files of arrays, and checkpoints (src/io).
#include <nanobind/stl/map.h>

#include "bindings.h"
#include "io/checkpoints.h"

namespace snug::python {
namespace {

using nb::arg;

io::TensorFile file_of(nb::dict arrays, const io::Metadata& metadata) {
  io::TensorFile file;
  for (auto [name, value] : arrays)
    file.tensors.push_back({nb::cast<std::string>(name), array_from(as_ndarray(value))});
  file.metadata = metadata;
  return file;
}

nb::dict arrays_of(const io::TensorFile& file) {
  nb::dict out;
  for (const io::NamedArray& t : file.tensors) out[t.name.c_str()] = export_array(t.array);
  return out;
}

template <class F>
auto without_gil(F&& f) {
  nb::gil_scoped_release no_gil;
  return f();
}

}  // namespace

void bind_io(nb::module_& core) {
  nb::module_ m = core.def_submodule("io", "Files of arrays, and checkpoints.");
  m.def(
      "save",
      [](const std::string& path, nb::dict arrays, const io::Metadata& metadata) {
        io::TensorFile file = file_of(arrays, metadata);
        without_gil([&] { io::save(path, file); });
      },
      arg("path"), arg("arrays"), arg("metadata"));
  m.def(
      "load",
      [](const std::string& path) {
        io::TensorFile file = without_gil([&] { return io::load(path); });
        return nb::make_tuple(arrays_of(file), nb::cast(file.metadata));
      },
      arg("path"), "The arrays and the metadata.");
  nb::class_<io::Checkpoints>(
      m, "Checkpoints",
      "A folder of checkpoints, numbered by their step, and best.safetensors. Each is written "
      "aside, brought\nto the disk and renamed, with a hash over its contents.")
      .def(nb::init<std::string, int>(), arg("folder"), arg("keep") = 2)
      .def_prop_ro("folder", &io::Checkpoints::folder)
      .def_prop_ro("best_path", &io::Checkpoints::best_path)
      .def(
          "save",
          [](io::Checkpoints& self, std::int64_t step, nb::dict arrays,
             const io::Metadata& metadata, bool best) {
            io::TensorFile file = file_of(arrays, metadata);
            without_gil([&] { self.save(step, file, best); });
          },
          arg("step"), arg("arrays"), arg("metadata") = io::Metadata{}, arg("best") = false,
          "Writes a checkpoint, then removes all but the newest `keep`.")
      .def(
          "load_newest",
          [](const io::Checkpoints& self) -> nb::tuple {
            std::vector<std::string> skipped;
            auto found = without_gil([&] { return self.load_newest(&skipped); });
            if (!found) return nb::make_tuple(nb::none(), nb::none(), nb::none(), skipped);
            return nb::make_tuple(found->path, arrays_of(found->state),
                                  nb::cast(found->state.metadata), skipped);
          },
          "The newest valid one: its path, arrays and metadata (None if there is none), and a text "
          "for every\nfile that was skipped because it is damaged or foreign.");
}

}  // namespace snug::python
