#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "backend/opencl/find_devices.h"
#include "kernel/device.h"

namespace snug {

class OpenClContext;
class OpenClKernels;

/// Whether OpenCL devices do an op, of float32 operands; else the host does it.
bool opencl_has_op(const OpDef& op);

/// An OpenCL device. Every failure is a Device error with its name, the call and OpenCL's code.
class OpenClDevice : public Accelerator {
 public:
  explicit OpenClDevice(OpenClFound found);
  ~OpenClDevice() override;

  const DeviceInfo& info() const override { return info_; }
  LibraryTable library() const override;
  bool runs(const Graph& graph, const Node& node) const override;
  std::unique_ptr<PreparedCall> prepare(const KernelSpec& spec,
                                        std::span<const std::int64_t> ints) const override;
  std::shared_ptr<DeviceMemory> allocate(std::uint64_t bytes, std::string_view whose,
                                         bool slabs = false) override;
  std::shared_ptr<StagingMemory> allocate_staging(std::uint64_t bytes,
                                                  std::string_view whose) override;
  const DeviceLedger& ledger() const override;
  std::unique_ptr<CommandQueues> open(std::uint32_t marks) override;

  /// Bytes that we may have on it; 0: as many as it has.
  void set_limit(std::uint64_t bytes);
  std::uint64_t allocated() const;  // bytes that are there now, by our own count
  const OpenClContext& context() const { return *context_; }
  const OpenClFound& found() const;
  OpenClKernels& kernels() const { return *kernels_; }

 private:
  std::shared_ptr<OpenClContext> context_;
  std::shared_ptr<OpenClKernels> kernels_;
  DeviceInfo info_;
};

}  // namespace snug
