#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/function.h"
#include "api/profile.h"
#include "base/fork.h"
#include "compile.h"
#include "exec/arena.h"
#include "graph/capture.h"

namespace snug {

class FunctionImpl;

/// What one running call needs; leased, so that steady calls allocate nothing.
struct CallContext {
  std::shared_ptr<FunctionImpl> function;
  const Executable* executable = nullptr;
  std::shared_ptr<const Lowered> lowered;
  std::shared_ptr<const Executable> keep;
  std::unique_ptr<Arena> arena;  // null between calls if arenas are shared
  std::unique_ptr<OffloadFile> file;
  std::vector<std::int64_t> symbols, sizes;
  std::vector<std::byte*> buffers, pointers;
  std::vector<ArgDesc> descs;
  std::vector<ArgView> arguments;
  std::vector<Array> stage_values;  // results of the first stage, if there is one
  std::vector<ArgView> stage_arguments;
  std::vector<bool> copied;  // per argument: CallKind::copied
  std::vector<Array> fresh;  // new storage of shared variables, by graph input
  std::vector<Dims> output_shapes;
  HeldLocks held;           // in `calls`, as long as the context is leased
  std::vector<bool> taken;  // per lock held: by this call, not by one around it
  std::shared_ptr<OpenCalls> calls;
  std::uint32_t forks = 0;  // fork_count() when it was leased: its locks are of that process
  std::thread::id thread;   // that leased it
  bool busy = false, ran = false;
};

/// The compiled state behind a Function: the captured graph, its program, and the executables for
/// the sizes seen so far.
class FunctionImpl : public std::enable_shared_from_this<FunctionImpl> {
 public:
  FunctionImpl(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
               const FunctionOptions& options);
  /// The same function planned with other options; it can be called after `make_callable`. A Value
  /// error if it cannot run in slices that the options ask for.
  FunctionImpl(const FunctionImpl& other, const CompileOptions& options);
  ~FunctionImpl();

  CallContext* prepare(std::span<const ArgView> arguments);
  void run(CallContext& context, std::span<std::byte* const> outputs);
  void release(CallContext& context) noexcept;

  /// As Function::free.
  void free();

  /// As Function::visit_shared.
  void visit_shared(const std::function<void(SharedVariable&)>& visit);

  MemoryReport memory(std::span<const Dims> shapes, const Function::Values& values = {},
                      const std::vector<bool>& copied = {});
  std::int64_t smallest_budget(std::span<const Dims> shapes, const Function::Values& values);
  std::vector<Remedy> remedies(std::span<const Dims> shapes, const Function::Values& values,
                               std::uint64_t budget) {
    return remedies(size_sources(shapes, values), budget);
  }
  MaxBatch max_batch(std::span<const Dims> shapes, const Function::Values& values,
                     std::uint64_t budget, std::int64_t axis);
  Function::Way way(std::span<const Dims> shapes);
  void set_way(std::span<const Dims> shapes, const Function::Way& way);
  std::uint64_t budget() const { return compile_.budget; }
  std::string explain();
  ProfileReport profile() const { return times_->report(); }
  std::int64_t counter(std::string_view name) const;
  std::int64_t arena_bytes() const;  // of all contexts, or what it may need of shared arenas
  Function::View view();

  std::vector<TensorType> input_types, output_types;
  std::vector<std::string> input_names;
  std::string name;

 private:
  struct Shared {
    std::uint32_t input;  // graph input
    SharedVariable* variable;
    bool written;
  };

  /// Checks inputs and outputs, and keeps their types and names.
  void take_signature(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs);
  /// Captures. Values that decide sizes without a bound run first, as a function of their own
  /// (stage_), and are arguments of the rest.
  Graph capture_stages(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                       const FunctionOptions& options);
  /// With hints for all inputs the plan is made, and the budget checked, right away.
  void plan_for_hints(const std::vector<Expr>& inputs,
                      const std::vector<std::pair<Expr, Dims>>& shapes);

  /// In the child of a fork: calls of threads that are not there have left their contexts.
  void free_in_child();
  CallContext& lease();
  void take_arena(CallContext& context, std::uint64_t bytes);
  /// Bytes of an arena of `bytes` that are mapped already.
  std::uint64_t idle_for(const CallContext& context, std::uint64_t bytes) const;
  /// If the plan of the call has transfers.
  void take_file(CallContext& context);
  /// After a plan was too large: a plan also serves smaller sizes, which may do with less.
  void forget_plans();
  /// Before the first call makes the values of its shared variables: is there memory for them and
  /// for its arena together?
  void require_memory_for_recipes(std::span<const ArgView> arguments);
  /// What the budget of the process leaves to this function and the variables it reaches; 0: there
  /// is none.
  std::uint64_t share_of_process();
  void collect_locks();
  void lock(CallContext& context, std::span<const ArgView> arguments);
  void unlock(CallContext& context) noexcept;
  void take_arguments(CallContext& context, std::span<const ArgView> arguments);
  void check_arguments(std::span<const ArgView> arguments) const;
  void check_argument(std::size_t i, const ArgView& a) const;
  void check_outputs(const CallContext& context, std::span<std::byte* const> outputs) const;
  void lock_one(const VariableLock& lock, bool inside);
  std::string own_name() const { return name.empty() ? "the function" : name; }
  void read_symbols(CallContext& context);
  /// The plan of a call and the sizes of its outputs.
  void take_executable(CallContext& context);
  /// The program for the current shapes of the shared variables; lowers again when a shape that
  /// the code counts on has changed.
  std::shared_ptr<const Lowered> program_for(const std::vector<Dims>& shared_shapes);
  struct Made;
  /// Lowers for the sizes assumed. Changes nothing of what there is.
  Made lower_for(std::vector<Dims> assumed);
  /// The sizes to count on for shared variables of these shapes: what an update makes larger or
  /// smaller gets code for any size, not new code at every call.
  std::vector<Dims> assumed_for(const std::vector<Dims>& shapes);
  /// The graph with such sizes as constants.
  Graph with_sizes(const std::vector<Dims>& assumed);
  std::shared_ptr<const Executable> executable_for(const std::shared_ptr<const Lowered>& lowered,
                                                   std::span<const std::int64_t> symbols,
                                                   std::span<const std::int64_t> sizes,
                                                   const std::vector<bool>& copied);
  /// What sizes are made of.
  struct SizeSources {
    std::vector<Dims> shapes;  // of the arguments, then of the shared variables
    Function::Values values, shared_values;
    std::vector<bool> copied;  // as CallKind has it
  };
  /// No argument is copied.
  SizeSources size_sources(std::span<const Dims> shapes, const Function::Values& values) const;
  SizeSources size_sources(const CallContext& context) const;  // of a call, which has locked them
  /// Of arguments that nobody has looked at; none where the call is going to fail or where sizes
  /// wait for values.
  std::optional<SizeSources> size_sources(std::span<const ArgView> arguments) const;
  /// The symbols for a plan; `assumed` gets the names of the inputs whose values it needs but has
  /// not.
  std::vector<std::int64_t> symbols_for(const Lowered& lowered, const SizeSources& from,
                                        std::string& assumed) const;
  std::shared_ptr<const Executable> plan_for(const SizeSources& from, std::string& assumed);
  /// Bytes of the arena of a call, planned before shared variables have values; 0 where the call is
  /// going to fail.
  std::uint64_t arena_for(const SizeSources& from);
  /// What a plan may do.
  struct Ways {
    std::uint64_t budget = 0;
    bool recompute = false;
    std::int64_t micro_batches = 1;
    RoundActivations round = RoundActivations::Never;
    std::optional<DiskRates> disk = {};
    bool find_smallest = true;  // as CompileOptions has it
  };
  MemoryReport report(const SizeSources& from);
  /// The plan of the smallest budget above `ways.budget` that one was found for by these ways, if
  /// that is below `most`.
  std::optional<MemoryReport> smallest_plan(const SizeSources& from, Ways ways, std::int64_t most);
  std::vector<Remedy> remedies(const SizeSources& from, std::uint64_t budget);
  std::string name_of_input(std::size_t i) const;  // in texts
  std::string describe_remedies(const SizeSources& from, std::span<const Remedy> found) const;
  [[noreturn]] void refuse(const SizeSources& from, const Error& why);
  /// Of a call for whose arena there is no memory, as `why` says, but for one of `most` bytes.
  [[noreturn]] void refuse_for_lack_of_memory(const SizeSources& from, std::uint64_t most,
                                              const Error& why);
  /// Another way to run a call may be chosen to fit the budget.
  bool has_choice() const {
    return !stage_ && (!set_ways_.empty() ||
                       (compile_.budget && (compile_.micro_batches == 0 ||
                                            compile_.round == RoundActivations::IfNeeded)));
  }
  Function::Way own_way() const;
  /// As `choose`, without a choice.
  FunctionImpl* take_way(const SizeSources& from, const Function::Way& way);
  /// The way to run for given sizes: null for this function as it is, or one of its variants in
  /// slices, whichever fits the budget and is predicted to be fastest; if none is exact, the same
  /// with rounded activations, if they may be. A Memory error if none fits.
  /// `least_seconds` gets the time that another way takes at least, by prediction.
  FunctionImpl* choose(const SizeSources& from, double* least_seconds = nullptr);
  /// Whether the batch fits the budget in as many slices as are tried, as a whole or rounded:
  /// `choose` finds a way then, which may be another.
  bool fits_somehow(const SizeSources& from);
  /// Rows of the axis that slices are cut along; many if that is not known.
  std::int64_t rows_to_cut(const SizeSources& from) const;
  /// As `choose`, among the ways that round activations; null if they may not, or if none fits.
  FunctionImpl* choose_rounded(const SizeSources& from);
  FunctionImpl& rounded();  // the variant that rounds activations
  FunctionImpl* choose_for_call(const CallContext& context);
  /// Numbers of slices that are tried, up to the first with which nothing need run again.
  static constexpr std::int64_t kSlices[] = {
      2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, Function::kMostSlices};
  /// The variant in `count` slices; null if the batch cannot be cut.
  FunctionImpl* in_slices(std::int64_t count);
  /// The rounding of a variant that is one way among others.
  RoundActivations settled_rounding() const {
    return compile_.round == RoundActivations::Always ? RoundActivations::Always
                                                      : RoundActivations::Never;
  }
  using Planner = std::shared_ptr<FunctionImpl>;
  Ways own_ways() const {
    return {compile_.budget, compile_.recompute, compile_.micro_batches,
            compile_.round,  compile_.disk,      compile_.find_smallest};
  }
  Ways plain_ways() const {
    return {.micro_batches = std::max<std::int64_t>(1, compile_.micro_batches),
            .round = settled_rounding()};
  }
  Planner planner(const Ways& ways) const;
  void make_callable();
  std::uint64_t fixed_bytes(const Graph& graph, std::span<const std::int64_t> sizes) const;
  void bind(CallContext& context, std::span<std::byte* const> outputs);
  void copy_arguments(CallContext& context);
  void finish(CallContext& context);
  void run_reference(CallContext& context, std::span<std::byte* const> outputs);

  FunctionOptions options_;
  std::uint64_t process_budget_ = 0;   // of the process when this was made, if that decides its own
  std::uint64_t taken_by_others_ = 0;  // of it
  CompileOptions compile_;
  int wanted_threads_ = 1;               // compile_.threads are as many of them as can be started
  Graph graph_;                          // as captured
  std::shared_ptr<FunctionImpl> stage_;  // computes the values that sizes wait for
  std::string stage_text_;
  std::vector<Shared> shared_;
  /// What a call locks, by id, so that no two calls wait for each other: shared_ and the variables
  /// of the first stage, whose own list is empty. Both stages see the same values.
  std::vector<VariableLock> locks_;
  std::size_t argument_count_ = 0;
  bool planner_ = false;     // of another function, which explains what does not fit
  bool may_measure_ = true;  // the rates of the machine, which takes memory and a moment

  mutable LongMutex compile_mutex_;  // what it guards changes under NoFork
  /// Code that counts on `assumed` serves `shape`.
  static bool holds(const Dims& assumed, const Dims& shape);
  struct Choice {
    std::vector<std::int64_t> key;  // values of lowered->key
    std::vector<bool> copied;       // as CallKind has it
    FunctionImpl* way;              // as `choose` gives it
  };
  /// A program and what was made with it. It follows from the sizes of the call alone, so that
  /// results do not depend on the sizes of earlier calls.
  struct Made {
    std::shared_ptr<Lowered> lowered;
    std::vector<Dims> assumed;  // per shared variable: sizes the code counts on, -1 = none
    std::list<std::shared_ptr<const Executable>> executables;  // most recent first
    std::vector<std::shared_ptr<const Planned>> plans;
    std::list<Choice> choices;  // most recent first
    CompileTrace trace;
  };
  Made made_;               // for the sizes of the last call
  std::list<Made> others_;  // for other sizes of shared variables, most recent first
  struct SetWay {
    std::vector<Dims> shapes;  // of the arguments
    Function::Way way;
  };
  std::vector<SetWay> set_ways_;
  /// In slices, by their number, and why there are none.
  std::map<std::int64_t, std::shared_ptr<FunctionImpl>> variants_;
  std::string not_in_slices_;
  std::shared_ptr<FunctionImpl> rounded_;  // the variant that rounds activations
  std::shared_ptr<StepTimes> times_ = std::make_shared<StepTimes>();  // one for all variants
  std::shared_ptr<FrontierUser> frontiers_ = std::make_shared<FrontierUser>();  // likewise
  std::int64_t programs_ = 0, plans_made_ = 0, instances_ = 0, calls_ = 0, kernels_compiled_ = 0,
               kernels_from_cache_ = 0;

  mutable std::mutex context_mutex_;
  std::condition_variable context_free_;
  std::vector<std::unique_ptr<CallContext>> contexts_;
  bool shares_arenas_ = true;
  std::uint64_t claim_ = 0;  // what it may need of the shared arenas
  std::atomic<bool> recipes_made_{false};
  std::optional<ForkHook> hook_;  // once all else is there
};

}  // namespace snug
