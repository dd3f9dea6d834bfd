#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/opencl/opencl_context.h"
#include "backend/opencl/opencl_text.h"
#include "base/disk_cache.h"
#include "base/fork.h"

namespace snug {

class OpenClKernels;

/// A kernel of a device; equal texts are one. It is compiled when it is first needed.
class OpenClKernel {
 public:
  const std::string& name() const { return text_.name; }
  const OpenClText& text() const { return text_; }
  /// Compiles it, with all others that wait for that, and has it run over nothing.
  void make_ready() const;

  /// Calls set(kernel) with its arguments to be set and used: one thread at a time.
  template <class F>
  void with(F&& use) const {
    const std::lock_guard lock(mutex_);
    use(kernel_.get());
  }

 private:
  friend class OpenClKernels;
  OpenClKernel(std::shared_ptr<OpenClKernels> home, OpenClText text, std::string function)
      : home_(std::move(home)), text_(std::move(text)), function_(std::move(function)) {}
  std::shared_ptr<OpenClKernels> home_;
  OpenClText text_;
  std::string function_;  // its name in programs
  mutable LongMutex mutex_;
  mutable ClKernel kernel_;  // null until it is compiled
};

/// All kernels of a device. Programs are compiled for many kernels at once, and kept on disk.
class OpenClKernels : public std::enable_shared_from_this<OpenClKernels> {
 public:
  explicit OpenClKernels(std::shared_ptr<OpenClContext> context);

  std::shared_ptr<const OpenClKernel> add(OpenClText text);
  /// How many programs were compiled, and how many of the disk's were used.
  struct Counts {
    std::uint64_t compiled = 0, from_disk = 0;
  };
  Counts counts() const;
  const OpenClContext& context() const { return *context_; }

 private:
  friend class OpenClKernel;
  using Some = std::vector<std::shared_ptr<const OpenClKernel>>;
  void build(const OpenClKernel& wanted);
  void build_together(const Some& kernels);
  ClProgram compile(const std::string& source, const Some& kernels);
  void run_over_nothing(cl_kernel kernel, const OpenClText& text);

  std::shared_ptr<OpenClContext> context_;
  DiskCache disk_;
  std::string options_;
  mutable LongMutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const OpenClKernel>> by_text_;
  std::vector<std::weak_ptr<const OpenClKernel>> waiting_;
  Counts counts_;
};

}  // namespace snug
