// snug.data: sources of rows, and the functions that make them.
#include <nanobind/stl/shared_ptr.h>

#include "data/source.h"
#include "path.h"

namespace snug::python {
namespace {

using data::Field;
using data::Source;
using data::SourcePtr;

nb::list arrays_of(const std::vector<Array>& arrays) {
  nb::list out;
  for (const Array& array : arrays) out.append(export_array(array));
  return out;
}

/// A number is one row without the axis of rows; a slice of step 1 is a source.
nb::object item_of(const std::shared_ptr<Source>& self, nb::handle key) {
  UserLine line;
  if (PySlice_Check(key.ptr())) {
    Py_ssize_t begin = 0, end = 0, step = 0;
    if (PySlice_Unpack(key.ptr(), &begin, &end, &step) < 0) throw nb::python_error();
    if (step != 1) fail(Fault::Value, "a slice of a source has the step 1");
    return nb::cast(std::const_pointer_cast<Source>(data::slice(self, begin, end)));
  }
  std::int64_t row = integer_of(key, "source");
  if (row < -self->rows() || row >= self->rows())
    fail(Fault::Index, fmt::format("row {} of a source of {} rows", row, self->rows()));
  std::vector<Array> arrays = self->read(row < 0 ? row + self->rows() : row, 1);
  for (Array& array : arrays) {
    array.shape.erase(0);
    array.strides.erase(0);
  }
  return nb::tuple(arrays_of(arrays));
}

std::string source_text(const Source& source) {
  std::string fields;
  for (const Field& field : source.fields())
    fields += (fields.empty() ? "" : "; ") + data::describe(field);
  return fmt::format("<source of {} rows: {}>", source.rows(), fields);
}

/// Functions that make sources, with the GIL let go and errors at the user's line.
template <class F>
std::shared_ptr<Source> made(F&& make) {
  UserLine line;
  nb::gil_scoped_release released;
  return std::const_pointer_cast<Source>(make());
}

std::vector<SourcePtr> sources_of(const std::vector<std::shared_ptr<Source>>& sources) {
  return {sources.begin(), sources.end()};
}

void bind_source_class(nb::module_& m) {
  nb::class_<Field>(m, "Field", "What every row has: a name, and dtype and shape of one row.")
      .def(
          "__init__",
          [](Field* self, const std::string& name, nb::handle dtype, nb::handle shape) {
            UserLine line;
            new (self) Field{name, as_dtype(dtype), dims_of(shape)};
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("shape"))
      .def_ro("name", &Field::name)
      .def_prop_ro("dtype", [](const Field& f) { return std::string(name_of(f.dtype)); })
      .def_prop_ro("shape",
                   [](const Field& f) {
                     nb::list sizes;
                     for (std::int64_t size : f.shape) sizes.append(size);
                     return nb::tuple(sizes);
                   })
      .def("__repr__", [](const Field& f) { return data::describe(f); });

  nb::class_<Source>(m, "Source", "Rows of data that need not be in memory.")
      .def_prop_ro("fields", [](const Source& s) { return s.fields(); })
      .def_prop_ro(
          "classes", [](const Source& s) { return s.classes(); },
          "The names of the classes that labels count.")
      .def_prop_ro(
          "block", [](const Source& s) { return s.block(); },
          "Rows that are read together; 1: rows in any order cost the same.")
      .def("__len__", [](const Source& s) { return s.rows(); })
      .def("__getitem__", &item_of, nb::arg("key"))
      .def("__repr__", &source_text)
      .def(
          "read",
          [](const Source& self, std::int64_t begin, std::int64_t end) {
            UserLine line;
            std::vector<Array> arrays;
            {
              nb::gil_scoped_release released;
              arrays = self.read(begin, end - begin);
            }
            return nb::tuple(arrays_of(arrays));
          },
          nb::arg("begin"), nb::arg("end"), "Rows [begin, end) as one array per field.")
      .def(
          "slice",
          [](const std::shared_ptr<Source>& self, std::int64_t begin, std::int64_t end) {
            return made([&] { return data::slice(self, begin, end); });
          },
          nb::arg("begin"), nb::arg("end"), "Rows [begin, end) as a source.")
      .def(
          "select",
          [](const std::shared_ptr<Source>& self, const std::vector<std::string>& names) {
            return made([&] { return data::select(self, names); });
          },
          nb::arg("names"), "Some of the fields, in this order.")
      .def(
          "split",
          [](const std::shared_ptr<Source>& self, const std::vector<double>& shares,
             std::optional<std::uint64_t> seed) {
            UserLine line;
            std::vector<std::shared_ptr<Source>> parts;
            for (const SourcePtr& part : data::split(self, shares, seed))
              parts.push_back(std::const_pointer_cast<Source>(part));
            return parts;
          },
          nb::arg("shares"), nb::arg("seed") = nb::none(),
          "Parts of these shares of the rows, as [0.9, 0.1]: consecutive, or with a seed random "
          "rows, as images that are sorted by their class need it.");
}

}  // namespace

void bind_sources(nb::module_& m) {
  bind_source_class(m);
  m.def(
      "data_arrays",
      [](nb::list values, const std::vector<std::string>& names) {
        UserLine line;
        std::vector<Array> arrays;
        for (nb::handle value : values) arrays.push_back(array_from(as_ndarray(value)));
        return std::const_pointer_cast<Source>(data::arrays(arrays, names));
      },
      nb::arg("arrays"), nb::arg("names"));
  m.def(
      "data_npy",
      [](nb::handle path) { return made([file = path_of(path)] { return data::npy(file); }); },
      nb::arg("path"));
  m.def(
      "data_idx",
      [](nb::handle path) { return made([file = path_of(path)] { return data::idx(file); }); },
      nb::arg("path"));
  m.def(
      "data_npz",
      [](nb::handle path, const std::vector<std::string>& names) {
        return made([&, file = path_of(path)] { return data::npz(file, names); });
      },
      nb::arg("path"), nb::arg("names"));
  m.def(
      "data_hdf5",
      [](nb::handle path, const std::vector<std::string>& names) {
        return made([&, file = path_of(path)] { return data::hdf5(file, names); });
      },
      nb::arg("path"), nb::arg("names"));
  m.def(
      "data_images",
      [](nb::handle folder, std::int64_t height, std::int64_t width, bool grey, bool stretch,
         nb::list without) {
        std::vector<std::string> left_out;
        for (nb::handle path : without) left_out.push_back(path_of(path));
        return made([&, folder = path_of(folder)] {
          return data::images(folder, {height, width, grey, stretch}, left_out);
        });
      },
      nb::arg("folder"), nb::arg("height"), nb::arg("width"), nb::arg("grey"), nb::arg("stretch"),
      nb::arg("without"));
  m.def(
      "data_broken_images",
      [](nb::handle folder) {
        UserLine line;
        const std::string path = path_of(folder);
        std::vector<data::BrokenFile> broken;
        {
          nb::gil_scoped_release released;
          broken = data::broken_images(path);
        }
        nb::list out;
        for (const data::BrokenFile& file : broken)
          out.append(nb::make_tuple(path_text(file.path), path_text(file.why)));
        return out;
      },
      nb::arg("folder"));
  m.def(
      "data_csv",
      [](nb::handle path, bool header, const std::vector<std::string>& columns,
         const std::string& label, const std::string& separator) {
        if (separator.size() != 1)
          fail(Fault::Value,
               fmt::format("csv: the separator '{}' is no single character", separator));
        return made([&, file = path_of(path)] {
          return data::csv(file, {header, columns, label, separator[0]});
        });
      },
      nb::arg("path"), nb::arg("header"), nb::arg("columns"), nb::arg("label"),
      nb::arg("separator"));
  m.def(
      "data_concat",
      [](const std::vector<std::shared_ptr<Source>>& sources) {
        return made([&] { return data::concat(sources_of(sources)); });
      },
      nb::arg("sources"));
  m.def(
      "data_zip",
      [](const std::vector<std::shared_ptr<Source>>& sources) {
        return made([&] { return data::zip(sources_of(sources)); });
      },
      nb::arg("sources"));
}

}  // namespace snug::python
