#include "backend/opencl/opencl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "backend/opencl/opencl_errors.h"
#include "base/error.h"

namespace snug {
namespace {

struct Loaded {
  OpenClLibrary library;
  std::string why;  // there is none
};

Loaded load() {
  Loaded out;
  void* const handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    out.why =
        "there is no OpenCL library (libOpenCL.so.1): install ocl-icd-libopencl1 and the driver of "
        "the card, or pocl-opencl-icd for the processor";
    return out;
  }
#define SNUG_LOAD(f)                                                            \
  out.library.f = reinterpret_cast<decltype(out.library.f)>(dlsym(handle, #f)); \
  if (!out.library.f && out.why.empty())                                        \
    out.why = "libOpenCL.so.1 has no " #f ": OpenCL 1.2 is needed";
  SNUG_OPENCL_FUNCTIONS(SNUG_LOAD)
#undef SNUG_LOAD
  return out;
}

Loaded& loaded() {
  static Loaded once = load();
  return once;
}

}  // namespace

const OpenClLibrary* find_opencl_library(std::string* why) {
  const Loaded& l = loaded();
  if (l.why.empty()) return &l.library;
  if (why) *why = l.why;
  return nullptr;
}

const OpenClLibrary& opencl() {
  std::string why;
  if (const OpenClLibrary* const l = find_opencl_library(&why)) return *l;
  fail(Fault::Device, why);
}

OpenClLibrary& opencl_entries() { return loaded().library; }

void check_opencl(cl_int code, const std::string& who, const char* call) {
  if (code != CL_SUCCESS)
    fail(Fault::Device, fmt::format("{}: {}: {} ({})", who, call, opencl_error_name(code), code),
         "run the function on another device");
}

}  // namespace snug
