#pragma once
#include <cstdint>
#include <string>

namespace snug::native {

/// OpenBLAS works in buffers of 128 MiB of address space, one for each call of it at a time. It
/// maps more when calls need them, keeps them, and tries for ever if the system refuses. This one
/// maps them before: while it lives, `count` of them are there for work of this thread, or as many
/// as limits of the process allow. A Memory error if that is none.
class BlasBuffers {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{129} << 20;  // of one, with what aligns it

  explicit BlasBuffers(int count);
  ~BlasBuffers();
  BlasBuffers(const BlasBuffers&) = delete;
  BlasBuffers& operator=(const BlasBuffers&) = delete;

  /// On how many of `threads` threads OpenBLAS may be called at a time by work of this thread.
  static int threads_for(int threads);
  /// What the first buffer is going to take, with OpenBLAS itself.
  static std::uint64_t bytes_needed();

 private:
  int granted_ = 0, outside_ = 0;
};

/// Where the process has limits, OpenBLAS and a buffer get their room before arenas and code do,
/// if there is enough for them.
void load_blas_under_limits();

/// What OpenBLAS says it is; empty if it cannot be loaded.
std::string blas_version();

}  // namespace snug::native
