#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/host_cpu.h"
#include "base/disk_cache.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// Makes kernels into functions of this process. May be used from several threads. Code lives as
/// long as the object.
class CpuJit {
 public:
  struct Counters {
    std::uint64_t compiled = 0, from_disk = 0, from_memory = 0;
  };

  explicit CpuJit(HostCpu host = HostCpu::detect(),
                  const std::filesystem::path& cache_directory = DiskCache::default_directory());
  ~CpuJit();
  /// The one of the process; it lives until the process ends.
  static CpuJit& instance();

  /// One function per spec. Looks in memory, then on disk; what is in neither is compiled, several
  /// kernels at a time. Equal specs are one function.
  std::vector<KernelFn> compile(std::span<const KernelSpec* const> specs);
  KernelFn compile(const KernelSpec& spec);
  Counters counters() const;

  CacheKey key_of(const KernelSpec& spec) const;
  /// For people and tests: LLVM IR, and the object file.
  std::string listing(const KernelSpec& spec) const;
  std::string object_file(const KernelSpec& spec) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace snug
