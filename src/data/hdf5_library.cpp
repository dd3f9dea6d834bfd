#include "data/hdf5_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace snug::data {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

const Hdf5* load() {
  static Hdf5 library;
  static bool loaded = false;
  if (loaded) return &library;
  void* handle = dlopen(SNUG_HDF5_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    fail(Fault::Unsupported, fmt::format("HDF5 files need {}: {}", SNUG_HDF5_LIBRARY, dlerror()),
         "Debian has it in the package libhdf5-103-1");
  bool complete = true;
#define SNUG_LOAD(name)                                                          \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #name)); \
  complete &= library.name != nullptr;
  SNUG_HDF5_FUNCTIONS(SNUG_LOAD)
#undef SNUG_LOAD
  if (!complete || library.H5open() < 0)
    fail(Fault::Unsupported, fmt::format("HDF5 files: {} is of another kind", SNUG_HDF5_LIBRARY));
  loaded = true;
  return &library;
}

herr_t keep_reason(unsigned, const H5E_error2_t* error, void* text) {
  if (error->desc && *error->desc) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(library_mutex()), library_(load()) {
  library_->H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // per thread: it prints nothing
}

std::string Hdf5Lock::reason() const {
  std::string text = "no reason given";
  library_->H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_reason, &text);
  return text;
}

}  // namespace snug::data
