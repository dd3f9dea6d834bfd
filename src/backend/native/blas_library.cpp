#include "backend/native/blas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "backend/native/blas_buffers.h"
#include "base/error.h"
#include "base/fork.h"
#include "target/free_memory.h"

namespace snug::native {
namespace {

/// `path` where it was built, `name` where the system has it.
void* open_library(const char* path, const char* name, const char* package) {
  const NoFork whole;
  if (void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
  if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  fail(Fault::Missing, fmt::format("{} cannot be loaded: {}", name, dlerror()),
       fmt::format("install the package {}", package));
}

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) fail(Fault::Missing, fmt::format("OpenBLAS or LAPACKE has no {}", name));
}

/// A variable that OpenBLAS reads as it is loaded. Others may read their environment meanwhile, so
/// it changes only where there is no other way.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* now = std::getenv(name)) before_ = now;
    setenv(name, value, 1);
  }
  ~Setting() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

void* open_blas() { return open_library(SNUG_OPENBLAS, "libopenblas.so.0", "libopenblas0-openmp"); }

/// OpenBLAS knows CPUs by their numbers, and gives those that are younger than itself the code of
/// ones without AVX: a tenth of the speed. The name of the code that they can run, if it is loaded
/// with another kind; nullptr if it is well chosen, or was chosen by the user.
const char* better_code(std::string_view loaded) {
  constexpr std::string_view kWithAvx2[] = {"Haswell",        "Zen",      "SkylakeX", "Cooperlake",
                                            "SapphireRapids", "Excavator"};
  if (std::getenv("OPENBLAS_CORETYPE") || std::ranges::count(kWithAvx2, loaded)) return nullptr;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return nullptr;
  const bool avx512 = __builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  return avx512 ? "SkylakeX" : "Haswell";
}

constexpr Room kItself{std::uint64_t{48} << 20, std::uint64_t{4} << 20};  // code and tables

BlasLibrary load_blas() {
  const auto with_buffers = [&](std::uint64_t count) {
    return Room{kItself.mapped + count * BlasBuffers::kBytes, kItself.touched};
  };
  std::optional<Setting> one;
  // Buffers of threads are of use to LAPACK alone: where there is a limit, they leave half of it.
  const auto threads = static_cast<std::uint64_t>(sysconf(_SC_NPROCESSORS_CONF));
  if (!has_room(with_buffers(2 * threads))) {
    require_room(with_buffers(2), "OpenBLAS");  // of its thread, and of a call
    one.emplace("OPENBLAS_NUM_THREADS", "1");
  }
  void* library = open_blas();
  BlasLibrary functions;
  find(library, "openblas_get_corename", functions.openblas_get_corename);
  if (const char* code = better_code(functions.openblas_get_corename())) {
    dlclose(library);
    const Setting chosen("OPENBLAS_CORETYPE", code);
    library = open_blas();
  }
#define SNUG_FIND(name) find(library, #name, functions.name)
  SNUG_BLAS(SNUG_FIND)
  return functions;
}

LapackLibrary load_lapack() {
  blas();  // which it is made of
  void* const library = open_library(SNUG_LAPACKE_LIBRARY, "liblapacke.so.3", "liblapacke");
  LapackLibrary functions;
  SNUG_LAPACKE(SNUG_FIND)
#undef SNUG_FIND
  return functions;
}

/// Loads once; after an error the next one who asks tries again.
template <class Library>
class Loaded {
 public:
  explicit Loaded(Library (*load)()) : load_(load) {}
  bool there() const { return library_.load(std::memory_order_acquire) != nullptr; }
  const Library& get() {
    if (const Library* known = library_.load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(loading_);
    if (!library_) library_ = new Library(load_());
    return *library_;
  }

 private:
  Library (*load_)();
  std::atomic<const Library*> library_{nullptr};
  LongMutex loading_;
};

Loaded<BlasLibrary>& the_blas() {
  static Loaded<BlasLibrary>& instance = *new Loaded<BlasLibrary>(load_blas);
  return instance;
}

}  // namespace

const BlasLibrary& blas() { return the_blas().get(); }
bool blas_is_loaded() { return the_blas().there(); }
std::uint64_t bytes_to_load() { return kItself.mapped + BlasBuffers::kBytes; }

const LapackLibrary& lapack() {
  static Loaded<LapackLibrary>& instance = *new Loaded<LapackLibrary>(load_lapack);
  return instance.get();
}

}  // namespace snug::native
