#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  ~OpenClContext();
  OpenClContext(const OpenClContext&) = delete;

  const OpenClFound& found() const { return found_; }
  const std::string& name() const { return found_.name; }
  cl_device_id device() const { return device_; }
  cl_context context() const { return context_.get(); }
  ClQueue make_queue() const;
  /// For copies and fills that are waited for; shared by all.
  cl_command_queue queue() const { return queue_.get(); }

  /// A Device error that names the device, what it was asked for, the call and its code, unless
  /// that is CL_SUCCESS. Codes that say so make it lost.
  void check(cl_int code, const char* call, std::string_view asked = {}) const;
  /// A Device error if the device is lost, or in a child of the process that opened it: drivers do
  /// not survive forks.
  void require_usable() const;
  /// The device does not come back, nor does what its memory has: a Device error now, and whenever
  /// somebody wants to use it.
  [[noreturn]] void lose(const std::string& why) const;
  bool is_lost() const { return is_lost_; }

  /// CL_COMPLETE, something above it, or the code of a command that failed.
  cl_int status_of(cl_event event) const;
  /// Returns when an event is done, with its status. The device is lost if that takes longer than
  /// its patience, beginning anew whenever `moves` says that something else got done.
  cl_int await(
      cl_event event, const std::function<std::string()>& asked,
      const std::function<bool()>& moves = [] { return false; }) const;
  /// A Device error by the status of a command; the device is lost unless it only lacks memory.
  [[noreturn]] void fail_late(cl_int status, const std::string& asked) const;
  ClEvent marker(cl_command_queue queue) const;
  /// Waits for the queue that all share.
  cl_int finish_code(const char* asked) const;
  void finish(const char* asked) const;
  /// How long it may do nothing before it counts as failed.
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }
  std::chrono::milliseconds patience() const { return patience_; }

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
  std::atomic<std::chrono::milliseconds> patience_{std::chrono::minutes(10)};
  mutable BriefMutex mutex_;
  mutable std::string lost_;  // why
  mutable std::atomic<bool> is_lost_ = false;
  std::map<const std::byte*, Block> blocks_;
  DeviceLedger ledger_;
};

}  // namespace snug
