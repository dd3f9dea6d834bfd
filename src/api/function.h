#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/memory_report.h"
#include "base/array.h"
#include "expr/expr.h"

namespace snug {

enum class Mode : std::uint8_t {
  Fast,
  Check,  // each step is compared with the reference on the same inputs; freed memory is poisoned
  Reference,  // the interpreter alone
  Guard,      // as Fast; a value that is not finite is an error that names its op
};
/// What Mode::Guard looks for in floats.
struct Guarded {
  bool nan = true, inf = true;
  bool big = true;  // magnitudes above 1e10
};
enum class OnUnusedInput : std::uint8_t { Raise, Warn, Ignore };

struct FunctionOptions {
  std::vector<std::pair<Expr, Expr>> updates = {};  // (shared variable, its new value)
  std::vector<std::pair<Expr, Expr>> givens = {};   // (expression, what stands for it)
  std::vector<std::pair<Expr, Dims>> shapes = {};   // hints: sizes of inputs, -1 = not known
  std::string name = {};
  std::string memory = {};  // budget: "", "512MiB", "4GB", "100000" (bytes)
  /// > 1: the batch runs in that many slices; 1: never; 0: if the budget needs it and that is the
  /// fastest way to fit.
  std::int64_t micro_batches = 0;
  bool recompute = true;  // the budget may have tasks run again
  /// A directory on a disk: the budget may have values go to a file there while nothing reads them.
  std::string offload = {};
  /// BF16: float32 values that are kept for the backward part may be kept in bfloat16, which
  /// changes derivatives, where no exact way keeps to the budget; with `always_round`, anyhow.
  DType activations = DType::F32;
  bool always_round = false;
  bool plan_only = false;  // no code is made: for `memory` and `max_batch`; a call is an error
  Mode mode = Mode::Fast;
  Guarded guarded = {};
  bool no_default_updates = false;
  /// BF16: products and convolutions of float32 round their operands and results, which some CPUs
  /// do many times as fast; sums, parameters and all else stay float32. Mode::Fast only.
  DType precision = DType::F32;
  bool strict_math = false;
  bool profile = false;  // take the time of every step; Mode::Fast only
  OnUnusedInput on_unused_input = OnUnusedInput::Raise;
  int threads = 0;           // 0: all cores
  int contexts = 1;          // calls that may run at the same time
  bool share_arenas = true;  // with other functions that run at other times; contexts = 1 only
  std::vector<std::string> disabled_passes = {};  // rewrite passes to leave out, by name
};

/// An argument as the caller holds it. The memory stays the caller's.
struct ArgView {
  const std::byte* data = nullptr;
  DType dtype = DType::F32;
  Dims shape;
  Dims strides;  // in elements
};

/// A way to fit a budget, which was planned.
struct Remedy {
  enum class Kind : std::uint8_t {
    Contiguous,  // arguments of the caller that need not be copied into the arena
    Batch,
    Recompute,
    MicroBatches,
    Offload,
    Activations,
    Memory
  };
  Kind kind = Kind::Memory;
  std::int64_t count = 0;      // rows of the batch, or slices
  std::int64_t peak = 0;       // bytes
  double time_ratio = 0;       // predicted time per row over that of the plain plan
  bool recompute = false;      // slices in which tasks run again
  std::string flag() const;    // "--micro-batch 2"
  std::string option() const;  // "micro_batches=2"
};
/// One line per remedy, aligned, of `name` (flags or options), their peak and their time.
std::string describe(std::span<const Remedy> remedies, bool as_flags);

/// Where the time of the calls of a function made with `profile` went.
struct ProfileReport {
  struct StepTime {
    std::string name, result, where;  // result: "float32 (8, 64)"; where: the user's line
    std::int64_t count;
    double seconds;    // of all calls together
    double predicted;  // the same from the rates of the machine; 0: they were never measured
  };
  std::int64_t calls = 0;
  double seconds = 0;
  std::vector<StepTime> steps;  // the longest first
  std::string describe(std::size_t most = 20) const;
};

class FunctionImpl;

/// A compiled function. Copies share the compiled state. Calls may come from several threads.
class Function {
 public:
  Function() = default;
  explicit Function(std::shared_ptr<FunctionImpl> impl) : impl_(std::move(impl)) {}

  /// C++ call: arrays in, arrays out.
  std::vector<Array> call(const std::vector<Array>& arguments) const;
  std::vector<Array> call_views(std::span<const ArgView> arguments) const;
  template <class... A>
  Array operator()(const A&... arguments) const {  // the first output, or an empty array
    std::vector<Array> outputs = call({Array(arguments)...});
    return outputs.empty() ? Array{} : outputs[0];
  }
  /// The allocation-free path: outputs are the caller's, contiguous and of the right shape.
  void run_into(std::span<const ArgView> arguments, std::span<std::byte* const> outputs) const;

  /// A call in two steps, for bindings that allocate the outputs themselves. Holds a context and
  /// the locks of the shared variables until it dies.
  class Call {
   public:
    std::size_t output_count() const;
    DType output_dtype(std::size_t i) const;
    /// Before `run`: the size to allocate. After it: the actual one (smaller only where the size
    /// depends on computed data).
    const Dims& output_shape(std::size_t i) const;
    void run(std::span<std::byte* const> outputs);
    ~Call();
    Call(Call&&) noexcept;
    Call(const Call&) = delete;

   private:
    friend class Function;
    friend class FunctionImpl;
    explicit Call(void* state) : state_(state) {}
    void* state_ = nullptr;
  };
  Call prepare(std::span<const ArgView> arguments) const;

  /// Gives back the memory that is kept between calls: arenas, plans and what they stand on. The
  /// next call plans and allocates anew; the code stays. Calls that run keep theirs.
  void free() const;

  /// Plans for given shapes of the inputs without running or allocating. `values`, per input: of
  /// 0-d integers that sizes depend on; one that is not given is taken as 0, and the note says so.
  using Values = std::vector<std::optional<std::int64_t>>;
  /// `copied`, per input: calls copy it, since its memory is strided or not aligned; none if empty.
  MemoryReport memory(std::span<const Dims> shapes, const Values& values = {},
                      const std::vector<bool>& copied = {}) const;
  /// The smallest budget that a plan of the whole batch was found for, where tasks may run again;
  /// proved to be the least one if it is the report's `floor`. Takes a search.
  std::int64_t smallest_budget(std::span<const Dims> shapes, const Values& values = {}) const;
  /// Ways to keep to `budget` bytes where the plain plan for these shapes does not, each planned:
  /// a smaller batch (axis 0), tasks that run again, slices of the batch, activations in bfloat16,
  /// more memory.
  std::vector<Remedy> remedies(std::span<const Dims> shapes, std::uint64_t budget,
                               const Values& values = {}) const;
  /// The largest batch that fits the budget `memory` ("4GiB"; empty: that of the function) by the
  /// techniques it may use, and its plan; 0 rows if not even one fits. `shapes` are those of the
  /// inputs for any batch; the batch is `axis` of every input that has the same size there as the
  /// first one. More slices than `kMostSlices` are not tried.
  static constexpr std::int64_t kMostSlices = 512;
  struct MaxBatch {
    std::int64_t rows = 0;
    MemoryReport plan;
  };
  MaxBatch max_batch(std::span<const Dims> shapes, const std::string& memory = {}, int axis = 0,
                     const Values& values = {}) const;
  /// The graph after each stage, the rules that fired, times and kernels.
  std::string explain() const;
  /// Empty unless made with FunctionOptions::profile.
  ProfileReport profile() const;
  /// Counters that tests and users watch: "programs", "plans", "instances", "kernels", "calls",
  /// "kernels_from_cache", "frontiers" (searches for plans within budgets; what others have found
  /// does not count); "arena_bytes" are kept for the next call.
  std::int64_t counter(std::string_view name) const;

  /// The graph that runs, after all rewrites, as expressions to look at; nothing computes them.
  struct View {
    std::vector<Expr> inputs, outputs;           // arguments, results
    std::vector<std::pair<Expr, Expr>> updates;  // (shared variable, its new value)
  };
  View view() const;

  std::size_t input_count() const;
  const TensorType& input_type(std::size_t i) const;
  const std::string& input_name(std::size_t i) const;
  std::size_t output_count() const;
  const TensorType& output_type(std::size_t i) const;
  const std::string& name() const;
  bool valid() const { return impl_ != nullptr; }
  FunctionImpl* impl() const { return impl_.get(); }
  /// For a garbage collector: calls `visit` once for every reference to a shared variable that dies
  /// with this Function. Visits nothing while a call runs or others share the compiled state.
  void visit_shared(const std::function<void(SharedVariable&)>& visit) const;

 private:
  std::shared_ptr<FunctionImpl> impl_;
};

/// Compiles. Errors: an input that is no variable, used twice, missing or unused; a cyclic given;
/// an update of something that is not shared, twice, or of another type.
Function function(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                  const FunctionOptions& options = {});
inline Function function(const std::vector<Expr>& inputs, const Expr& output,
                         const FunctionOptions& options = {}) {
  return function(inputs, std::vector<Expr>{output}, options);
}

/// A request to stop running calls (Ctrl-C): honoured between steps until the commit point.
void request_interrupt();
/// Forgets a request that no call has honoured.
void clear_interrupt();

}  // namespace snug
