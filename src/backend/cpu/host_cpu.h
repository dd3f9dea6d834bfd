#pragma once
#include <string>

namespace snug {

/// What code is made for: the CPU's name and features in LLVM's spelling, and what follows from
/// them. Part of the key of the code cache.
struct HostCpu {
  std::string name, features;
  int vector_bits = 128;  // 512, 256 or 128
  bool avx512 = false;    // F, VL, BW and DQ
  /// The C library's vector functions, for what has no polynomial of ours: "e", "d" or "b" in
  /// their names, or 0 if the library is missing.
  char libmvec = 0;

  /// The CPU this process runs on. `max_vector_bits` hides wider vectors, for tests; so does
  /// DNNL_MAX_CPU_ISA, which limits oneDNN: all code of the process is for one CPU.
  static HostCpu detect(int max_vector_bits = 512);
  std::string key() const;
};

}  // namespace snug
