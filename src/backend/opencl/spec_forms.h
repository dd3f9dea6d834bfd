#pragma once
#include <memory>
#include <vector>

#include "backend/opencl/opencl_kernels.h"
#include "backend/opencl/opencl_mapping.h"
#include "backend/opencl/opencl_queues.h"

namespace snug {

/// A fused loop nest on a device, in one form, or in one more for sizes and addresses that allow
/// vectors.
class SpecForms {
 public:
  /// For sizes of at most `ints`, as KernelFn has them.
  SpecForms(const KernelSpec& spec, std::span<const std::int64_t> ints, const OpenClFound& device,
            OpenClKernels& kernels);

  std::uint64_t workspace() const;
  void make_ready() const;
  void ask(OpenClQueues& queues, std::byte* const* operands, std::span<const std::int64_t> ints,
           std::byte* workspace) const;

 private:
  struct Form {
    OpenClMapping mapping;
    std::vector<std::uint32_t> divisors;  // divisor_axes
    std::shared_ptr<const OpenClKernel> kernel;
  };
  const Form& choose(std::span<const std::int64_t> ints, std::byte* const* operands) const;
  std::int64_t groups(const OpenClMapping& m, std::span<const std::int64_t> ints,
                      std::int64_t points) const;
  void write_ints(OpenClQueues& queues, std::span<const std::int64_t> ints,
                  std::byte* workspace) const;

  KernelSpec spec_;
  std::vector<std::uint32_t> ints_;  // runtime_ints
  std::vector<Form> forms_;          // the second where vectors are allowed
};

}  // namespace snug
