#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "kernel/device.h"

namespace snug {

/// A device that runs the host's code in memory of its own, later than it is asked: for tests of
/// all that devices need, and of what happens when they fail.
class SimDevice : public Accelerator {
 public:
  /// What goes wrong. Commands are counted from 1, over the life of the device.
  struct Faults {
    std::uint64_t failing_command = 0;     // that one, once; 0: none
    std::uint64_t lost_at_command = 0;     // from that one on the device is gone, and its memory
    std::uint64_t failing_allocation = 0;  // counted likewise
    std::uint64_t failing_kernel = 0;      // of those that are made ready
  };
  struct Options {
    std::string name = "sim:0";
    std::uint64_t memory = 0;              // bytes it has; 0: no limit
    std::uint64_t largest_allocation = 0;  // bytes; 0: no limit
    std::uint64_t alignment = 64;
    /// Commands run as soon as they are asked for; else when they are waited for, the last first
    /// where nothing orders them.
    bool at_once = false;
    Faults faults = {};
  };

  struct State;
  explicit SimDevice(Options options);
  ~SimDevice() override;

  const DeviceInfo& info() const override;
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

  void set_faults(const Faults& faults);  // the counts begin anew
  std::uint64_t commands() const;         // that ran
  std::uint64_t allocated() const;        // bytes that are there now
  std::uint64_t copied_in() const;        // bytes, from the host
  std::uint64_t copied_out() const;

 private:
  friend class SimMemory;
  friend class SimQueues;
  std::shared_ptr<State> state_;
};

}  // namespace snug
