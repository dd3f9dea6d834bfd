#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/offload_file.h"
#include "kernel/device.h"
#include "kernel/program.h"
#include "plan/memory_plan.h"
#include "schedule/schedule.h"

namespace snug {

/// What `lower` makes of a graph, once per function: a program and its machine code.
struct Lowered {
  Program program;
  std::vector<KernelFn> code;  // per kernel of the host; empty while it is only planned with
  std::shared_ptr<const DeviceList> devices;
  /// Where constants of other devices are, by node; as `code`.
  std::unordered_map<std::uint32_t, std::shared_ptr<DeviceMemory>> constants;
  std::vector<SizeId> key;      // sizes that decide a plan; equal values, equal plan
  std::vector<SizeId> runtime;  // sizes to evaluate again when a run-time symbol is known
  std::vector<std::uint32_t> early_requirements,
      late_requirements;  // before running, while running
  std::unordered_map<std::uint32_t, std::shared_ptr<Lowered>> inner;  // by node of a loop
  int threads = 1;
};
void finish_lowered(Lowered& lowered);  // fills key, runtime and the requirement lists
/// A requirement of a loop's body depends on values, so it can fail in any iteration; the others
/// are checked when the loop is planned.
bool requirements_vary(const Lowered& body);

/// Values of all size expressions of one call; `low` and `high` differ for sizes that become known
/// only while running.
struct SizeBounds {
  std::vector<std::int64_t> low, high;
};

/// Bounds of every size expression, from symbols (by symbol number) that lie in [low, high].
SizeBounds bound_sizes(const SizeTable& table, std::span<const std::int64_t> low,
                       std::span<const std::int64_t> high);

/// Element `element` of integers in memory.
std::int64_t read_integer(const std::byte* data, DType dtype, std::size_t element = 0);

/// Throws the Shape error of the first requirement that does not hold.
void check_requirements(const Graph& graph, std::span<const std::uint32_t> which,
                        std::span<const std::int64_t> values);

/// Size inputs of one step, and their elements.
constexpr std::size_t kMaxSizeValues = 128;

/// A step with everything resolved that does not change between calls.
struct BoundStep {
  const Task* task = nullptr;  // null: a commit copy
  const Kernel* kernel = nullptr;
  KernelFn code = nullptr;
  /// Of a library, a loop, or a kernel of another device: the executable's.
  const PreparedCall* call = nullptr;
  DeviceId device = 0;  // other than the host: it runs later, in `queue`
  CommandQueues::Queue queue = CommandQueues::Compute;
  struct Wait {
    DeviceId device;
    std::uint32_t mark;
    bool by_host;  // this thread waits; else the queue does
  };
  std::vector<Wait> waits;
  std::int32_t mark = -1;              // that others wait for; -1: nobody does
  std::vector<std::uint32_t> buffers;  // per operand: kernel order, or library inputs then outputs
  std::vector<SizeId> offsets;         // per operand, elements
  std::vector<std::int64_t> widths;    // per operand, bytes of an element
  std::vector<ArgDesc> descs;          // library: inputs then outputs
  std::vector<std::pair<const Type*, const Layout*>> layouts;  // same order; for run-time sizes
  std::uint32_t input_count = 0;
  std::vector<std::vector<SizeId>> size_inputs;
  std::vector<SizeId> extents;  // run-time symbols this step decides
  struct DecidedElement {
    SizeId symbol;
    std::uint32_t write, element;  // which of the values it writes, and the place in it
  };
  std::vector<DecidedElement> elements;
  std::vector<std::uint32_t> requirements;  // that can be checked once this step has run
  double seconds = 0;                       // predicted; 0: no device was given
  std::int64_t weight = 1;                  // of a kernel: the work of a point, in elements
  std::int32_t workspace = -1;
  std::vector<std::uint32_t> elsewhere;  // as in the step
  bool runtime_sizes = false;
  bool in_place = false;
};

/// A transfer to or from the file, for the sizes of an Executable.
struct BoundTransfer {
  std::uint32_t buffer;
  std::uint64_t bytes;
};

/// Immutable but for `ready`; for one set of sizes.
struct Executable {
  const Lowered* lowered = nullptr;
  std::shared_ptr<const Planned> planned;
  std::vector<std::int64_t> key;  // values of lowered->key
  SizeBounds bounds;
  std::vector<std::unique_ptr<PreparedCall>> calls;  // per task, null for kernels
  std::vector<BoundStep> steps;
  std::vector<BoundTransfer> transfers;  // as in the schedule
  std::vector<std::uint32_t> marks;      // how many each device needs, by DeviceId; 0: it runs none
  int blas_buffers = 0;                  // the most that a step takes
  std::size_t max_operands = 0;
  mutable std::atomic<bool> ready{false};  // to run
};

struct RunState;

/// Told before and after each step; mode="check" and tests use it.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void before(const RunState& state, std::uint32_t step) = 0;
  virtual void after(const RunState& state, std::uint32_t step) = 0;
};

/// What one running call needs besides the Executable. All memory is the caller's.
struct RunState {
  std::int64_t* sizes = nullptr;           // value of every size expression
  std::byte** buffers = nullptr;           // address of every buffer
  std::byte* const* arenas = nullptr;      // by space
  CommandQueues* const* queues = nullptr;  // by DeviceId, null for the host
  ArgDesc* descs = nullptr;                // max_operands
  std::byte** pointers = nullptr;          // max_operands
  OffloadFile* file = nullptr;             // if there are transfers
  bool interruptible = false;
  StepObserver* observer = nullptr;
  std::uint32_t asked = 0;  // steps that were begun, also if one failed
};

/// The bytes of a buffer: its own, or a copy in `copy` if it is in memory of another device. For
/// observers, which see all steps before as done.
std::byte* host_bytes(const Executable& executable, const RunState& state, std::uint32_t buffer,
                      std::vector<std::byte>& copy);
/// The other way: what `host_bytes` gave is the buffer from now on.
void write_back(const Executable& executable, const RunState& state, std::uint32_t buffer,
                const std::byte* from, std::uint64_t bytes);

/// The operands of a loop whose elements decide sizes in its body, and which have one of the size
/// values of a call each, in this order; the first is the number of iterations.
std::vector<std::uint32_t> loop_size_inputs(const Graph& body);
std::unique_ptr<PreparedCall> prepare_loop(const Lowered& lowered, const Task& task,
                                           const CallSite& site);
/// The body that the workspace of a loop is planned for; null if the call is no loop.
const Executable* loop_body(const PreparedCall& call);
/// Of a loop over the slices of a batch; otherwise there are none.
struct Slices {
  std::int64_t count = 0, rows = 0;  // the last one may have fewer rows
};
Slices slices_of(const PreparedCall& call);

/// Library calls made ready for sizes; the workspace of each task.
struct PreparedTasks {
  std::vector<std::unique_ptr<PreparedCall>> calls;  // per task, null for kernels
  TaskSizes sizes;
};
PreparedTasks prepare_tasks(const Lowered& lowered, const SizeBounds& bounds, CallKind kind,
                            const DeviceInfo* device = nullptr, bool unbounded = false);

/// Whether a plan is large enough for these sizes.
bool serves(const Planned& planned, const Lowered& lowered, const TaskSizes& sizes);
/// Binds a plan to sizes.
std::unique_ptr<Executable> link(const Lowered& lowered, std::shared_ptr<const Planned> planned,
                                 PreparedTasks tasks, SizeBounds bounds);

/// Makes the code that the libraries of its steps generate, before the first run; planning does
/// without. A Memory error if the limits of the process leave too little for it.
void make_ready(const Executable& executable);
/// What that takes, about.
void count_code(const Executable& executable, CodeCount& count);

/// Sets the addresses of arena and constant buffers in state.buffers; workspaces and arenas of
/// spaces that are not used are null.
void bind_arena(const Executable& executable, RunState& state);
/// Runs all steps. Throws what a step throws; shared storage is untouched unless step `commit` was
/// reached, after which nothing fails.
void run_steps(const Executable& executable, RunState& state);

}  // namespace snug
