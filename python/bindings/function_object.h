#pragma once
#include <atomic>
#include <vector>

#include "bindings.h"
#include "numpy_api.h"

/// What a compiled function is in Python: shared by its type (function.cpp) and its call
/// (function_call.cpp).
namespace snug::python {

struct InputSpec {
  TensorType type;
  PyArray_Descr* descr = nullptr;  // owned; the singleton of the dtype
  PyObject* name = nullptr;        // interned, or null
  PyObject* variable = nullptr;
  PyObject* value = nullptr;  // default: an array of the type, or null
  bool strict = false;
  Downcast downcast = Downcast::FloatLiterals;
  int broadcast = 0;
};

enum class ResultKind : std::uint8_t { Single, List, Dict };

struct FunctionState {
  Function function;
  std::vector<InputSpec> inputs;
  ResultKind result = ResultKind::List;
  std::vector<PyObject*> keys;  // of a dict
  /// Inputs whose default value a call renews: by the last outputs, which are not in the result.
  std::vector<std::size_t> renewed;
  std::vector<PyArray_Descr*> output_descrs;
  std::vector<Dims> expected;  // shapes of the outputs of the last call
  bool expects = false;
  bool slow = true;  // a call may take long enough for a Ctrl-C
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc call;
  FunctionState* state;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* source;  // the arguments of `compile`, to make the function again
  char trust_input;  // accepted for programs that set it
};

/// Calls that run without the GIL now. They may hold locks and want the GIL back meanwhile, so
/// whoever holds the GIL must not wait for such a lock while there are any.
inline std::atomic<int> calls_in_flight{0};

/// "f", or "function" if it has no name.
std::string function_name(const FunctionState& s);
/// "f: argument 0 (x)", for messages.
std::string name_of_input(const FunctionState& s, std::size_t i);
/// An error with the nearest name if there is no such input.
std::size_t index_of_keyword(const FunctionState& s, PyObject* key);

/// The call of a FunctionObject.
PyObject* call_function(PyObject* self, PyObject* const* args, std::size_t nargsf,
                        PyObject* kwnames);

}  // namespace snug::python
