// Files of arrays, and checkpoints (src/io).
#include <nanobind/stl/map.h>

#include "io/checkpoints.h"
#include "path.h"

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
  for (const io::NamedArray& t : file.tensors)
    out[nb::str(t.name.c_str(), t.name.size())] = export_array(t.array);
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
      [](nb::handle path, nb::dict arrays, const io::Metadata& metadata) {
        io::TensorFile file = file_of(arrays, metadata);
        without_gil([&, name = path_of(path)] { io::save(name, file); });
      },
      arg("path"), arg("arrays"), arg("metadata"));
  m.def(
      "load",
      [](nb::handle path) {
        io::TensorFile file = without_gil([name = path_of(path)] { return io::load(name); });
        return nb::make_tuple(arrays_of(file), nb::cast(file.metadata));
      },
      arg("path"), "The arrays and the metadata.");
  nb::class_<io::Checkpoints>(
      m, "Checkpoints",
      "A folder of checkpoints, numbered by their step, and best.safetensors. Each is written "
      "aside, brought\nto the disk and renamed, with a hash over its contents.")
      .def(
          "__init__",
          [](io::Checkpoints* self, nb::handle folder, int keep) {
            new (self) io::Checkpoints(path_of(folder), keep);
          },
          arg("folder"), arg("keep") = 2)
      .def_prop_ro("folder", [](const io::Checkpoints& c) { return path_text(c.folder()); })
      .def_prop_ro("best_path", [](const io::Checkpoints& c) { return path_text(c.best_path()); })
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
          [](io::Checkpoints& self) -> nb::tuple {
            std::vector<std::string> skipped;
            auto found = without_gil([&] { return self.load_newest(&skipped); });
            if (!found) return nb::make_tuple(nb::none(), nb::none(), nb::none(), skipped);
            return nb::make_tuple(path_text(found->path), arrays_of(found->state),
                                  nb::cast(found->state.metadata), skipped);
          },
          "The newest valid one: its path, arrays and metadata (None if there is none), and a text "
          "for every\nfile that was skipped because it is damaged or foreign.");
}

}  // namespace snug::python
