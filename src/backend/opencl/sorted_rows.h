#pragma once
#include <cstdint>
#include <memory>

#include "backend/opencl/opencl_kernels.h"
#include "backend/opencl/opencl_queues.h"

namespace snug {

/// Rows that indices name, sorted on the device: words of 64 bits, the row in the upper half and
/// the number of the index in the lower one, so that indices of one row keep their order. By a
/// network of comparisons, in blocks of local memory as far as those reach.
class SortedRows {
 public:
  static constexpr std::int64_t kBlock = 512;  // words that a group sorts

  /// `row`: C text, the row that index `l` names; `parameters`, `args` and `begin`: what it needs.
  SortedRows(OpenClKernels& kernels, const std::string& parameters,
             const std::vector<OpenClKind>& args, const std::string& begin, const std::string& row);
  static std::uint64_t bytes(std::int64_t count);

  /// Fills `words` for `count` indices; `args` as above.
  void ask(OpenClQueues& queues, std::byte* words, std::int64_t count,
           const std::vector<OpenClArg>& args) const;
  void make_ready() const;

 private:
  std::shared_ptr<const OpenClKernel> blocks_, step_, merge_;
};

}  // namespace snug
