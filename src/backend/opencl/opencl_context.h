#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_library.h"
#include "base/fork.h"
#include "target/device_ledger.h"

namespace snug {

/// What an OpenCL device, its memory, its kernels and its queues share. May be used from several
/// threads.
class OpenClContext {
 public:
  explicit OpenClContext(OpenClFound found);
  OpenClContext(const OpenClContext&) = delete;

  const OpenClFound& found() const { return found_; }
  const std::string& name() const { return found_.name; }
  cl_device_id device() const { return device_; }
  cl_context context() const { return context_.get(); }
  ClQueue make_queue() const;
  /// For copies and fills that are waited for; shared by all.
  cl_command_queue queue() const { return queue_.get(); }

  /// A Device error that names the device, the call and its code, unless that is CL_SUCCESS.
  void check(cl_int code, const char* call) const { check_opencl(code, found_.name, call); }
  /// A Device error in a child of the process that opened the device: drivers do not survive forks.
  void require_own_process() const;

  /// Where a byte that addresses name is.
  struct Place {
    cl_mem memory = nullptr;  // null: in no memory of the device
    std::uint64_t offset = 0;
  };
  Place find(const std::byte* address) const;

  /// Of a block of memory whose addresses begin at `begin`.
  void add_block(const std::byte* begin, cl_mem memory, std::uint64_t bytes);
  void remove_block(const std::byte* begin);

  /// What was done with the device so far.
  struct Counts {
    std::atomic<std::uint64_t> launches = 0, copied_in = 0, copied_out = 0;  // bytes, of copies
    std::atomic<std::uint64_t> objects = 0;  // buffers, queues and kernels that were created
  };
  Counts& counts() const { return counts_; }

  /// What of ours lives on the device.
  DeviceLedger& ledger() { return ledger_; }
  const DeviceLedger& ledger() const { return ledger_; }

 private:
  struct Block {
    cl_mem memory;
    std::uint64_t bytes;
  };
  mutable Counts counts_;
  OpenClFound found_;
  cl_device_id device_ = nullptr;
  ClContext context_;
  ClQueue queue_;
  std::uint32_t forks_;
  mutable BriefMutex mutex_;
  std::map<const std::byte*, Block> blocks_;
  DeviceLedger ledger_;
};

}  // namespace snug
