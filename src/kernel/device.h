#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/device_memory.h"
#include "base/device_pool.h"
#include "kernel/kernel_spec.h"
#include "kernel/library.h"
#include "target/device_info.h"
#include "target/device_ledger.h"

namespace snug {

/// What a stage asks of a device: what it is, and what it can do.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual LibraryTable library() const = 0;
  /// Whether it has code for a node, by op, dtypes and sizes, be it a library call or in a kernel;
  /// with `strict_math` its functions to 1 ULP.
  virtual bool runs(const Graph& graph, const Node& node, bool strict_math) const = 0;
};

/// What one call asks of an accelerator. Commands run later than they are asked for, in three
/// queues beside each other, each in order. Marks are numbers of the caller's; all memory is there
/// from the start, so asking allocates nothing.
class CommandQueues {
 public:
  enum Queue : std::uint8_t { Compute, Upload, Download };
  static constexpr int kQueues = 3;

  virtual ~CommandQueues() = default;
  virtual void run(const PreparedCall& call, const RunArgs& args) = 0;  // in Compute
  /// Between memory of the device and memory of the host.
  virtual void copy(Queue queue, std::byte* to, const std::byte* from, std::uint64_t bytes) = 0;
  /// `mark` stands for all that `queue` was asked so far.
  virtual void mark(Queue queue, std::uint32_t mark) = 0;
  /// What `queue` is asked from now on begins when `mark` is done.
  virtual void wait(Queue queue, std::uint32_t mark) = 0;
  /// Returns when `mark` is done, or everything. A Device error if the device has failed.
  virtual void finish(std::uint32_t mark) = 0;
  virtual void finish() = 0;
  /// After an error: nothing runs any more when it returns.
  virtual void abandon() noexcept = 0;
};

/// A device that is not the host: it has memory of its own, and runs late.
class Accelerator : public Device {
 public:
  /// Code for a kernel, whose integers (as KernelFn wants them) are no farther from 0 than `ints`.
  virtual std::unique_ptr<PreparedCall> prepare(const KernelSpec& spec,
                                                std::span<const std::int64_t> ints) const = 0;
  /// Memory of its own, touched and 0. A Memory error that says how much there is and who has it.
  /// With `slabs` it may be cut at multiples of DeviceInfo::largest_allocation.
  virtual std::shared_ptr<DeviceMemory> allocate(std::uint64_t bytes, std::string_view whose,
                                                 bool slabs = false) = 0;
  /// Memory of the host that its copies are fastest with. A Memory error as above, or if the budget
  /// of the process does not allow it.
  virtual std::shared_ptr<StagingMemory> allocate_staging(std::uint64_t bytes,
                                                          std::string_view whose) = 0;
  /// What of ours is in its memory.
  virtual const DeviceLedger& ledger() const = 0;
  /// `marks`: of the caller's, from 0.
  virtual std::unique_ptr<CommandQueues> open(std::uint32_t marks) = 0;

  /// Memory for a value that stays, for which arenas that nobody works in give way.
  std::shared_ptr<DeviceMemory> allocate_value(std::uint64_t bytes, std::string_view whose) {
    try {
      return allocate(bytes, whose);
    } catch (const MemoryError&) {
      if (!arenas.drop_idle()) throw;
    }
    return allocate(bytes, whose);
  }

  // What the calls on it work in.
  DevicePool<DeviceMemory> arenas;
  DevicePool<StagingMemory> staging;
};

/// The devices that a function may use, by DeviceId; 0 is the host.
class DeviceList {
 public:
  DeviceList(const Device& host, std::vector<std::shared_ptr<Accelerator>> others)
      : host_(host), others_(std::move(others)), libraries_{host.library()}, infos_{host.info()} {
    for (const auto& d : others_) {
      libraries_.push_back(d->library());
      infos_.push_back(d->info());
    }
  }
  std::size_t size() const { return infos_.size(); }
  const Device& operator[](DeviceId id) const {
    return id == 0 ? host_ : static_cast<const Device&>(accelerator(id));
  }
  Accelerator& accelerator(DeviceId id) const { return *others_[id - 1U]; }
  Libraries libraries() const { return libraries_; }
  const std::vector<DeviceInfo>& infos() const { return infos_; }

 private:
  const Device& host_;
  std::vector<std::shared_ptr<Accelerator>> others_;
  std::vector<LibraryTable> libraries_;
  std::vector<DeviceInfo> infos_;
};

}  // namespace snug
