#pragma once
#include <string>
#include <utility>
#include <vector>

#include "backend/opencl/opencl_device.h"
#include "backend/opencl/opencl_queues.h"
#include "base/error.h"

namespace snug {

/// The type of elements in memory, "half" for float16, and that of sums of them.
std::string opencl_memory_type(DType t);
std::string opencl_sum_type(DType t);

/// C text to read and write elements of a dtype, in sums' type: `at` is an index of `pointer`.
/// Adds what it needs to `helpers`.
std::string opencl_load(DType t, const std::string& pointer, const std::string& at);
std::string opencl_store(DType t, const std::string& pointer, const std::string& at,
                         const std::string& value, OpenClHelpers& helpers);

/// A call by a kernel whose text is written by hand; its arguments are what a text names.
class OpenClRoutine : public OpenClCall {
 public:
  explicit OpenClRoutine(const CallSite& site)
      : device_(dynamic_cast<const OpenClDevice&>(*site.accelerator)) {
    for (const ArgDesc& d : site.in) widths_in_.push_back(size_of(d.dtype));
    for (const ArgDesc& d : site.out) widths_out_.push_back(size_of(d.dtype));
  }

 protected:
  const OpenClKernel& add(OpenClText text) {
    kernels_.push_back(device_.kernels().add(std::move(text)));
    return *kernels_.back();
  }
  OpenClArg in(const RunArgs& args, std::size_t i) const {
    return OpenClArg::memory(args.in[i], widths_in_[i]);
  }
  OpenClArg out(const RunArgs& args, std::size_t i) const {
    return OpenClArg::memory(args.out[i], widths_out_[i]);
  }
  const OpenClFound& found() const { return device_.found(); }
  const OpenClDevice& device() const { return device_; }

 private:
  const OpenClDevice& device_;
  std::vector<std::int64_t> widths_in_, widths_out_;
};

inline std::int64_t groups_of(std::int64_t count, std::int64_t each) {
  return (count + each - 1) / each;
}

}  // namespace snug
