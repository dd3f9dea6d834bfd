#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/function.h"
#include "api/profile.h"
#include "api/strategy.h"
#include "base/fork.h"
#include "exec/arena.h"

namespace snug {

class FunctionImpl;

/// What one running call needs; leased, so that steady calls allocate nothing.
struct CallContext {
  std::shared_ptr<FunctionImpl> function;
  const Executable* executable = nullptr;
  std::shared_ptr<const Lowered> lowered;
  std::shared_ptr<const Executable> keep;
  std::unique_ptr<Arena> arena;  // null between calls if arenas are shared
  /// Of other devices, by their id: what a call needs of them.
  struct OnDevice {
    std::shared_ptr<DeviceMemory> arena;
    std::shared_ptr<StagingMemory> staging;
    std::unique_ptr<CommandQueues> queues;
    std::uint32_t marks = 0;
  };
  std::vector<OnDevice> on_devices;
  std::shared_ptr<const DeviceList> devices;  // whose they are
  std::vector<std::byte*> arenas;             // by space
  std::vector<CommandQueues*> queues;         // by device
  std::unique_ptr<OffloadFile> file;
  std::vector<std::int64_t> symbols, sizes;
  std::vector<std::byte*> buffers, pointers;
  std::vector<ArgDesc> descs;
  std::vector<ArgView> arguments;
  std::vector<Array> stage_values;  // results of the first stage, if there is one
  std::vector<ArgView> stage_arguments;
  std::vector<bool> copied;              // per argument: CallKind::copied
  std::vector<Array> fresh;              // new storage of shared variables, by graph input
  std::vector<DeviceArray> fresh_there;  // likewise, on devices
  std::vector<Dims> output_shapes;
  HeldLocks held;           // in `calls`, as long as the context is leased
  std::vector<bool> taken;  // per lock held: by this call, not by one around it
  /// Values that a call around this one has elsewhere: what this one reads are copies.
  std::vector<Array> copies;
  std::vector<DeviceArray> copies_there;
  std::vector<Accelerator*> homes;  // per lock: the device that has the value; null: the host
  std::shared_ptr<OpenCalls> calls;
  std::uint32_t forks = 0;  // fork_count() when it was leased: its locks are of that process
  std::thread::id thread;   // that leased it
  bool busy = false, ran = false;
};

/// What stands behind a Function: its calls. A call leases a context, locks the shared variables,
/// takes the way that the strategy chooses for its sizes, binds memory and runs.
class FunctionImpl : public std::enable_shared_from_this<FunctionImpl> {
 public:
  FunctionImpl(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
               const FunctionOptions& options);
  ~FunctionImpl();

  CallContext* prepare(std::span<const ArgView> arguments);
  void run(CallContext& context, std::span<std::byte* const> outputs);
  void release(CallContext& context) noexcept;

  /// As Function has them.
  void free();
  void visit_shared(const std::function<void(SharedVariable&)>& visit);
  MemoryReport memory(std::span<const Dims> shapes, const Function::Values& values = {},
                      const std::vector<bool>& copied = {});
  std::int64_t smallest_budget(std::span<const Dims> shapes, const Function::Values& values,
                               const std::string& device);
  std::vector<Remedy> remedies(std::span<const Dims> shapes, const Function::Values& values,
                               const std::string& memory);
  MaxBatch max_batch(std::span<const Dims> shapes, const Function::Values& values,
                     const std::string& memory, std::int64_t axis);
  Function::Way way(std::span<const Dims> shapes);
  void set_way(std::span<const Dims> shapes, const Function::Way& way);
  std::uint64_t budget() const { return strategy_->options().budgets.host(); }
  std::string explain();
  ProfileReport profile() const { return times_.report(); }
  std::int64_t counter(std::string_view name) const;
  Function::View view();

  const FunctionGraph& function() const { return *function_; }

 private:
  // ---- making it (function_impl.cpp)
  using Shares = std::vector<Strategy::ProcessShare>;
  CompileOptions compile_options(const FunctionOptions& options, Shares& shares);
  /// Captures. Values that decide sizes without a bound run first, as a function of their own
  /// (stage_), and are arguments of the rest.
  void capture_stages(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                      const FunctionOptions& options, FunctionGraph& into);
  void collect_locks();
  /// What the budget of the process leaves to this function and the variables it reaches; 0: there
  /// is none.
  std::uint64_t share_of_process(std::uint64_t& taken_by_others) const;
  /// The same on each device: the budgets that are lower than those of the function.
  void take_shares(CompileOptions& options, Shares& shares) const;
  /// Bytes of its shared variables that are on a device now. Waits for calls that write them, so
  /// not under compile_mutex_, which those take.
  std::uint64_t variable_bytes_on(const DeviceList& devices, DeviceId device) const;
  /// Of the memory of a device, where `variables` bytes are its own variables.
  std::uint64_t taken_by_others(const DeviceList& devices, DeviceId device,
                                std::uint64_t variables) const;
  /// With hints for all inputs the plan is made, and the budget checked, right away.
  void plan_for_hints(const std::vector<Expr>& inputs,
                      const std::vector<std::pair<Expr, Dims>>& shapes);
  /// A Memory error if variables, constants and what else has a known size are more than a device
  /// may have, whatever the sizes of the call.
  void require_room_for_variables() const;
  void drop_claims();
  std::int64_t arena_bytes() const;  // of all contexts, or what it may need of shared arenas

  // ---- a call, in this order (function_call.cpp)
  void check_arguments(std::span<const ArgView> arguments) const;
  void check_argument(std::size_t i, const ArgView& a) const;
  CallContext& lease();
  /// Before the first call makes the values of its shared variables: is there memory for them and
  /// for its arena together?
  void require_memory_for_recipes(std::span<const ArgView> arguments);
  void lock(CallContext& context, std::span<const ArgView> arguments);
  void lock_one(const VariableLock& lock, Accelerator* home, bool inside);
  /// Whether the values are where the program of the call has them; else that is noted, to lock
  /// them anew: moving a value takes its lock alone.
  bool are_at_home(CallContext& context);
  void take_arguments(CallContext& context, std::span<const ArgView> arguments);
  /// The way, its program and plan, and the sizes of the outputs.
  void take_plan(CallContext& context);
  void take_program(CallContext& context, Compiled& way);
  void read_symbols(CallContext& context);
  void set_output_shapes(CallContext& context) const;
  void check_outputs(const CallContext& context, std::span<std::byte* const> outputs) const;
  void bind(CallContext& context, std::span<std::byte* const> outputs);
  void take_file(CallContext& context);  // if the plan of the call has transfers
  void take_arena(CallContext& context, std::uint64_t bytes);
  /// Memory and queues of other devices.
  void take_devices(CallContext& context);
  /// What a call has of a device, others may have when it is done.
  void claim_on(const std::shared_ptr<const DeviceList>& devices, Accelerator& device,
                std::uint64_t own, std::uint64_t staging);
  /// Where a call has shared variable number `i`.
  DeviceId home_of(const CallContext& context, std::size_t i) const;
  std::byte* bind_shared(CallContext& context, std::size_t i);
  std::byte* bind_copy(CallContext& context, SharedVariable& variable, Accelerator* device);
  std::byte* bind_fresh(CallContext& context, const Buffer& buffer);
  /// Copies on the host of what the call updates on devices: room for them, and now and then they.
  void reserve_snapshots(CallContext& context);
  void take_snapshots(CallContext& context);
  /// After a fault: what the call may have written has no value.
  void lose_written(CallContext& context, std::uint32_t asked, const char* why);
  /// Bytes of an arena of `bytes` that are mapped already.
  std::uint64_t idle_for(const CallContext& context, std::uint64_t bytes) const;
  void copy_arguments(CallContext& context);
  void run_reference(CallContext& context, std::span<std::byte* const> outputs);
  void finish(CallContext& context);
  void unlock(CallContext& context) noexcept;

  SizeSources size_sources(const CallContext& context) const;  // of a call, which has locked them
  /// Of arguments that nobody has looked at; none where the call is going to fail or where sizes
  /// wait for values.
  std::optional<SizeSources> size_sources(std::span<const ArgView> arguments) const;
  void forget_plans();
  /// In the child of a fork: calls of threads that are not there have left their contexts.
  void free_in_child();

  FunctionOptions options_;  // but for expressions
  std::shared_ptr<const FunctionGraph> function_;
  std::shared_ptr<FunctionImpl> stage_;  // computes the values that sizes wait for
  /// What a call locks, by id, so that no two calls wait for each other: the shared variables, and
  /// those of the first stage, whose own list is empty. Both stages see the same values.
  std::vector<VariableLock> locks_;
  std::vector<Accelerator*> homes_;  // per lock, as the last program has them; by compile_mutex_
  bool has_other_devices_ = false;   // than the host
  int wanted_threads_ = 1;           // programs are made for as many of them as can be started

  mutable LongMutex compile_mutex_;  // of the strategy; what it guards changes under NoFork
  std::unique_ptr<Strategy> strategy_;
  StepTimes times_;
  std::int64_t calls_ = 0;
  std::atomic<std::int64_t> since_snapshot_{0};  // calls

  mutable std::mutex context_mutex_;
  std::condition_variable context_free_;
  std::vector<std::unique_ptr<CallContext>> contexts_;
  bool shares_arenas_ = true;
  std::uint64_t claim_ = 0;  // what it may need of the shared arenas
  struct DeviceClaim {
    std::shared_ptr<const DeviceList> devices;  // that keep `device` alive
    Accelerator* device;
    std::uint64_t own = 0, staging = 0;
  };
  std::vector<DeviceClaim> device_claims_;  // likewise, of other devices
  std::atomic<bool> recipes_made_{false};
  std::optional<ForkHook> hook_;  // once all else is there
};

}  // namespace snug
