#define SNUG_IMPORT_NUMPY
#include "bindings.h"
#include "numpy_api.h"

namespace {
bool import_numpy() {
  import_array1(false);
  return true;
}
}  // namespace

NB_MODULE(_core, m) {
  using namespace snug::python;
  m.doc() = "The compiled part of snug. Use the package `snug`.";
  // What a program still holds when it ends is no concern of its user.
  nb::set_leak_warnings(false);
  if (!import_numpy()) throw nb::python_error();
  init_arrays();
  init_errors(m);
  init_origins(m);
  init_interrupts();
  bind_objects(m);
  bind_types(m);
  bind_shared(m);
  bind_as_tensor(m);
  bind_index(m);
  bind_ops(m);
  bind_function(m);
  bind_nn(m);
  bind_pickle(m);
  bind_settings(m);
  bind_optim(m);
  bind_io(m);
  bind_sources(m);
  bind_loaders(m);
  bind_training(m);
}
