#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "backend/opencl/find_devices.h"
#include "base/disk_cache.h"
#include "kernel/device.h"

namespace snug {

class OpenClContext;
class OpenClKernels;
class TileTimes;

/// Whether OpenCL devices do an op, of float32 operands; else the host does it.
bool opencl_has_op(const OpDef& op);

/// An OpenCL device. Every failure is a Device error with its name, the call and OpenCL's code.
class OpenClDevice : public Accelerator {
 public:
  /// `programs`: where those that were compiled are kept.
  explicit OpenClDevice(OpenClFound found,
                        const std::filesystem::path& programs = DiskCache::default_directory());
  ~OpenClDevice() override;

  const DeviceInfo& info() const override { return info_; }
  LibraryTable library() const override;
  bool runs(const Graph& graph, const Node& node, bool strict_math) const override;
  std::unique_ptr<PreparedCall> prepare(const KernelSpec& spec,
                                        std::span<const std::int64_t> ints) const override;
  std::shared_ptr<DeviceMemory> allocate(std::uint64_t bytes, std::string_view whose,
                                         bool slabs = false) override;
  std::shared_ptr<StagingMemory> allocate_staging(std::uint64_t bytes,
                                                  std::string_view whose) override;
  const DeviceLedger& ledger() const override;
  std::unique_ptr<CommandQueues> open(std::uint32_t marks) override;

  /// A Device error if it is lost, or of the process that forked this one.
  void require_usable() const;
  /// Bytes that we may have on it; 0: as many as it has.
  void set_limit(std::uint64_t bytes);
  /// How long it may do nothing before it counts as failed; ten minutes if nobody says otherwise.
  void set_patience(std::chrono::milliseconds patience);
  std::uint64_t allocated() const;  // bytes that are there now, by our own count
  const OpenClContext& context() const { return *context_; }
  const OpenClFound& found() const;
  OpenClKernels& kernels() const { return *kernels_; }
  TileTimes& tiles() const { return *tiles_; }

 private:
  std::shared_ptr<OpenClContext> context_;
  std::shared_ptr<OpenClKernels> kernels_;
  DeviceInfo info_;
  std::unique_ptr<TileTimes> tiles_;
};

}  // namespace snug
