#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/opencl/opencl_context.h"
#include "backend/opencl/opencl_text.h"
#include "base/disk_cache.h"
#include "base/driver_work.h"
#include "base/fork.h"

namespace snug {

class OpenClKernels;

/// A kernel of a device; equal texts are one. It is compiled when it is first needed.
class OpenClKernel : public std::enable_shared_from_this<OpenClKernel> {
 public:
  const std::string& name() const { return text_.name; }
  const OpenClText& text() const { return text_; }
  /// Compiles it, with all others that wait for that, and has it run over nothing. An interrupt
  /// leaves to a later call what is not made by then.
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
  bool is_made() const;
  std::shared_ptr<OpenClKernels> home_;
  OpenClText text_;
  std::string function_;  // its name in programs
  mutable LongMutex mutex_;
  mutable ClKernel kernel_;  // null until it is compiled
};

/// All kernels of a device. Programs are compiled for many kernels at once, and kept on disk.
class OpenClKernels : public std::enable_shared_from_this<OpenClKernels> {
 public:
  OpenClKernels(std::shared_ptr<OpenClContext> context, const std::filesystem::path& programs);

  std::shared_ptr<const OpenClKernel> add(OpenClText text);
  /// How many programs were compiled, how many of the disk's were used, how many texts are known.
  struct Counts {
    std::uint64_t compiled = 0, from_disk = 0, texts = 0;
  };
  Counts counts() const;
  const OpenClContext& context() const { return *context_; }

 private:
  friend class OpenClKernel;
  using Some = std::vector<std::shared_ptr<const OpenClKernel>>;
  void build(const OpenClKernel& wanted);
  /// Those that are to be built with it, which wait no longer; it is the first.
  Some take_waiting(const OpenClKernel& wanted);
  /// The first one for certain, or an error; the others as far as they go.
  void build_all(const Some& kernels, DriverWork& work);
  void build_together(std::span<const std::shared_ptr<const OpenClKernel>> kernels,
                      const DriverWork& work);
  void forget_unused();
  ClProgram compile(const std::string& source,
                    std::span<const std::shared_ptr<const OpenClKernel>> kernels);
  void run_over_nothing(cl_kernel kernel, const OpenClText& text);

  std::shared_ptr<OpenClContext> context_;
  DiskCache disk_;
  std::string options_;
  mutable LongMutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const OpenClKernel>> by_text_;
  std::vector<std::weak_ptr<const OpenClKernel>> waiting_;
  std::size_t most_texts_ = 64;       // before those that are gone are looked for
  std::shared_ptr<DriverWork> work_;  // one at a time
  Counts counts_;
};

}  // namespace snug
