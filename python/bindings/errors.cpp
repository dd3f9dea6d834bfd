#include <cerrno>

#include "base/file_error.h"
#include "base/spelling.h"
#include "bindings.h"
#include "target/free_memory.h"

namespace snug::python {
namespace {

// The classes of snug/_errors.py, and NumPy's.
PyObject* missing_input = PyExc_Exception;
PyObject* unused_input = PyExc_Exception;
PyObject* disconnected_input = PyExc_ValueError;
PyObject* undefined_gradient = PyExc_TypeError;
PyObject* internal = PyExc_RuntimeError;
PyObject* linalg = PyExc_ValueError;

PyObject* class_of(Fault fault) {
  switch (fault) {
    case Fault::Type: return PyExc_TypeError;
    case Fault::Shape: return PyExc_ValueError;
    case Fault::Value: return PyExc_ValueError;
    case Fault::Index: return PyExc_IndexError;
    case Fault::Missing: return missing_input;
    case Fault::Unused: return unused_input;
    case Fault::Disconnected: return disconnected_input;
    case Fault::Undefined: return undefined_gradient;
    case Fault::Numeric: return linalg;
    case Fault::Assertion: return PyExc_AssertionError;
    case Fault::Unsupported: return PyExc_NotImplementedError;
    case Fault::Memory: return PyExc_MemoryError;
    case Fault::Device: return PyExc_RuntimeError;
    case Fault::Interrupted: return PyExc_KeyboardInterrupt;
    case Fault::Internal: return internal;
  }
  return PyExc_RuntimeError;
}

/// Python's own classes of errors about files.
PyObject* class_of_code(int code) {
  switch (code) {
    case ENOENT: return PyExc_FileNotFoundError;
    case EACCES:
    case EPERM: return PyExc_PermissionError;
    case EISDIR: return PyExc_IsADirectoryError;
    case ENOTDIR: return PyExc_NotADirectoryError;
    default: return PyExc_OSError;
  }
}

void set_error(Error& e) {
  // Python's own KeyboardInterrupt for the same Ctrl-C is pending: one is enough.
  if (e.fault() == Fault::Interrupted && PyErr_CheckSignals() < 0) PyErr_Clear();
  // What fails while a function runs without a place of its own fails at the line of the call.
  // Bytes of a damaged file need not be UTF-8.
  e.locate(origin_of_caller());
  const std::string text = e.what();
  PyObject* value =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (!value) return;
  const auto* file = dynamic_cast<const FileError*>(&e);
  PyErr_SetObject(file ? class_of_code(file->code()) : class_of(e.fault()), value);
  Py_DECREF(value);
}

/// Of an allocation that nobody told what it was for.
void set_memory_error() {
  try {
    fail_for_lack_of_memory("of a call");
  } catch (Error& e) {
    set_error(e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
}

}  // namespace

void init_errors(nb::module_& m) {
  set_language(Language::Python);
  m.def(
      "_set_error_classes",
      [](nb::object missing, nb::object unused, nb::object disconnected, nb::object undefined,
         nb::object fault) {
        missing_input = missing.release().ptr();
        unused_input = unused.release().ptr();
        disconnected_input = disconnected.release().ptr();
        undefined_gradient = undefined.release().ptr();
        internal = fault.release().ptr();
      },
      "The classes that errors become.");
  m.def(
      "error_text",
      [](std::string_view title, const std::string& message, const std::string& hint) {
        int fault = 0;
        while (fault < static_cast<int>(Fault::Internal) &&
               title_of(static_cast<Fault>(fault)) != title)
          ++fault;
        return error_text(static_cast<Fault>(fault), message, hint, origin_of_caller());
      },
      nb::arg("title"), nb::arg("message"), nb::arg("hint"),
      "The text of an error at the user's line.");
  nb::list titles;
  for (int fault = 0; fault <= static_cast<int>(Fault::Internal); ++fault) {
    const std::string_view title = title_of(static_cast<Fault>(fault));
    titles.append(nb::str(title.data(), title.size()));
  }
  m.attr("error_titles") = nb::tuple(titles);
  linalg = nb::object(nb::module_::import_("numpy.linalg").attr("LinAlgError")).release().ptr();
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void*) {
        try {
          std::rethrow_exception(p);
        } catch (Error& e) {
          set_error(e);
        } catch (const std::bad_alloc&) {
          set_memory_error();
        }
      },
      nullptr);
}

void set_python_error() {
  try {
    throw;
  } catch (Error& e) {
    set_error(e);
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const nb::builtin_exception& e) {
    PyErr_SetString(e.type() == nb::exception_type::type_error    ? PyExc_TypeError
                    : e.type() == nb::exception_type::index_error ? PyExc_IndexError
                    : e.type() == nb::exception_type::value_error ? PyExc_ValueError
                                                                  : PyExc_RuntimeError,
                    e.what());
  } catch (const std::bad_alloc&) {
    set_memory_error();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

}  // namespace snug::python
