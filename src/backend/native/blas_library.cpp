#include "backend/native/blas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

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

/// OpenBLAS reads it as it is loaded. Others may read their environment meanwhile, so it changes
/// only where there is no other way.
class OneThread {
 public:
  OneThread() {
    if (const char* now = std::getenv(kName)) before_ = now;
    setenv(kName, "1", 1);
  }
  ~OneThread() { before_.empty() ? unsetenv(kName) : setenv(kName, before_.c_str(), 1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static constexpr const char* kName = "OPENBLAS_NUM_THREADS";
  std::string before_;
};

constexpr Room kItself{std::uint64_t{48} << 20, std::uint64_t{4} << 20};  // code and tables

BlasLibrary load_blas() {
  const auto with_buffers = [&](std::uint64_t count) {
    return Room{kItself.mapped + count * BlasBuffers::kBytes, kItself.touched};
  };
  std::optional<OneThread> one;
  // Buffers of threads are of use to LAPACK alone: where there is a limit, they leave half of it.
  const auto threads = static_cast<std::uint64_t>(sysconf(_SC_NPROCESSORS_CONF));
  if (!has_room(with_buffers(2 * threads))) {
    require_room(with_buffers(2), "OpenBLAS");  // of its thread, and of a call
    one.emplace();
  }
  void* const library = open_library(SNUG_OPENBLAS, "libopenblas.so.0", "libopenblas0-openmp");
  BlasLibrary functions;
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
