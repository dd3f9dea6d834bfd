#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "target/budgets.h"
#include "target/disk_rates.h"

namespace snug {

struct DeviceInfo;
class DeviceList;
struct Node;

/// Whether what is kept for the backward part is kept in bfloat16.
enum class RoundActivations : std::uint8_t {
  Never,
  IfNeeded,  // where no exact way keeps to the budget
  Always,
};

struct CompileOptions {
  std::vector<std::string> disabled_passes = {};
  bool strict_math = false;
  int threads = 1;
  bool bfloat16_products = false;
  RoundActivations round = RoundActivations::Never;  // a program is made of Always only
  std::int64_t micro_batches = 0;                    // > 1: the batch runs in that many slices
  /// For arenas, shared variables and constants; on the host for outputs, too.
  Budgets budgets = {};
  bool recompute = true;  // tasks may run again to keep to the budget
  /// Planned only: it does not matter what devices have, and what they allocate at a time.
  bool unbounded = false;
  bool snapshots = false;  // what is updated on other devices has a copy on the host
  /// Values may go to a file to keep to the budget: its rates; none if there is no such file.
  std::optional<DiskRates> disk = {};
  /// Where nothing fits, the lowest plan is looked for, to be told; else the bound stands for it.
  bool find_smallest = true;
  /// The name of the device that has all that it can have; empty: as the process has it.
  std::string place_on = {};
  /// Where a program may run; null: as `place_on` and the graph say.
  std::shared_ptr<const DeviceList> devices = {};
  /// Where nodes are that are put nowhere, among `devices`; nothing: where they are fastest.
  std::optional<std::uint8_t> home = {};
  /// The device a node of the rewritten graph has to be on, by its number; nothing: `home`.
  std::function<std::optional<std::uint8_t>(std::uint32_t number, const Node&)> pin = {};
  const DeviceInfo* device = nullptr;  // whose rates times are predicted for; null: this machine
};

}  // namespace snug
