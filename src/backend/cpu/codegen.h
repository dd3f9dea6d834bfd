#pragma once
#include <memory>
#include <string>

#include "backend/cpu/host_cpu.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// Turns kernels into machine code. Not for several threads at once; each has its own.
class Codegen {
 public:
  explicit Codegen(const HostCpu& host);
  ~Codegen();
  /// An object file with one function named `symbol`.
  std::string object_file(const KernelSpec& spec, const std::string& symbol);
  /// The LLVM IR after our passes, for people.
  std::string listing(const KernelSpec& spec, const std::string& symbol);
  /// The version of LLVM, for keys of caches.
  static std::string version();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace snug
