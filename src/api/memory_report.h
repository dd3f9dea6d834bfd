#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug {

/// What a buffer of the arena is for.
enum class ArenaClass : std::uint8_t {
  Gradients,    // derivatives by parameters, until their update has taken them
  Activations,  // values of the forward part that a backward step reads
  Temporaries,  // all else that is computed
  Workspace,    // scratch memory of library calls and loops
  Copies,       // values in another layout, and copies of arguments
};
inline constexpr std::size_t kArenaClasses = 5;
std::string_view name_of(ArenaClass c);  // "gradients"

/// What a function has in the memory of one device, in bytes; docs/memory.md says how classes are
/// told apart.
struct MemoryUse {
  // There before, between or after calls.
  std::int64_t parameters = 0;  // shared variables that are no state of an optimizer
  std::int64_t optimizer = 0;   // those that only updates read or write, and integers that count on
  std::int64_t constants = 0;
  // The arena at the step of its peak. These and the gap are the arena, to the byte.
  std::int64_t gradients = 0, activations = 0, temporaries = 0, workspace = 0, copies = 0;
  std::int64_t gap = 0;    // between the height of the arena and the largest sum of live bytes
  std::int64_t arena = 0;  // planned height
  std::int64_t peak = 0;   // all of it
  /// No order and no recomputation of these tasks needs less: what lives between calls and the
  /// largest single step.
  std::int64_t floor = 0;
  std::int64_t smallest = 0;  // budget that a plan was found for; 0: not looked for

  std::array<std::int64_t, kArenaClasses> most = {};  // by ArenaClass: the most at any step
  std::int64_t all_gradients = 0;                     // if they were all alive at once
  std::string gradients_wait;  // why they are: "all are needed at train.py:12"; "" if not

  struct Alive {
    std::int64_t bytes = 0;
    ArenaClass what = ArenaClass::Temporaries;
    std::string op, shape, where;  // "conv2d", "float32 (64, 3, 8, 8)", "model.py:18"
  };
  std::vector<Alive> alive;  // at the peak, the largest first
  std::int64_t step = 0;     // of the peak, from 1; 0: nothing runs
  std::string peak_step;     // "step 12 of 30: backward of dot (train.py:41)"

  std::int64_t variables() const { return parameters + optimizer; }
};

/// What a function needs for given sizes: on the host, and on each other device.
struct MemoryReport : MemoryUse {
  std::int64_t inputs = 0;  // the caller's: not in the peak
  std::int64_t outputs = 0;
  std::int64_t copies_kept = 0;  // of variables on other devices (snapshot)
  std::int64_t staging = 0;      // what other devices copy from and to; in the peak, as the rest
  /// What is in the memory of another device, and in no number of the host's.
  struct OnDevice : MemoryUse {
    std::string name;
  };
  std::vector<OnDevice> devices;
  std::int64_t not_planned =
      0;  // resident in this process but no part of any plan, as measured now

  std::int64_t steps = 0;
  bool best_order = false;  // proved: no order of these steps needs less, but for aligning
  std::vector<std::string> recomputed;  // tasks that run twice to fit the budget
  std::int64_t offloaded = 0;      // bytes of values that a file holds while nothing reads them
  std::int64_t micro_batches = 0;  // > 1: slices that the batch runs in, at most
  /// If it does: the slices, the rows of each (the last may have fewer), and the bytes of what is
  /// summed up over them, which live throughout.
  std::int64_t slices = 0, slice_rows = 0, accumulators = 0;
  std::int64_t rounded = 0;  // activations that are kept in bfloat16: lossy
  double seconds = 0;        // predicted for one call; 0: not predicted
  /// Shared variables whose memory somebody holds: "W (4.00 MiB)". A call that updates one leaves
  /// that memory to its holder and takes new memory.
  std::vector<std::string> exported;
  std::string note;  // "not known before running: ..." or ""
  /// Of steps, buffers and offsets: plans that do the same in the same places have equal ones.
  std::string fingerprint;

  /// Name and bytes of every class, peak, floor and the rest, for tools.
  std::vector<std::pair<std::string_view, std::int64_t>> bytes() const;
  /// An aligned table for the host and one for each other device; `process`: with what the process
  /// has besides.
  std::string describe(bool process = true) const;
};

/// What is in the memory of a device, by its number.
inline const MemoryUse& use_of(const MemoryReport& r, std::size_t device) {
  return device == 0 ? static_cast<const MemoryUse&>(r) : r.devices[device - 1];
}

/// Of another device: name and bytes of every class, peak and floor, for tools.
std::vector<std::pair<std::string_view, std::int64_t>> bytes_of(const MemoryReport::OnDevice& use);

}  // namespace snug
