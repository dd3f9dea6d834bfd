#pragma once
#include <string>

#include "bindings.h"

namespace snug::python {

/// A path as the system has it, from str, bytes or os.PathLike; names that are not UTF-8 are
/// Python's surrogates. Python's own errors for other objects.
inline std::string path_of(nb::handle path) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(path.ptr(), &bytes)) throw nb::python_error();
  nb::object owner = nb::steal(bytes);
  return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

inline nb::object path_text(const std::string& path) {
  return nb::steal(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

}  // namespace snug::python
