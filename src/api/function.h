#pragma once
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/max_batch.h"
#include "api/memory_report.h"
#include "base/array.h"
#include "expr/expr.h"
#include "target/settings.h"

namespace snug {

/// What Mode::Guard looks for in floats.
struct Guarded {
  bool nan = true, inf = true;
  bool big = true;  // magnitudes above 1e10
};

/// Where settings() is named, SNUG_FLAGS decides unless the program does.
struct FunctionOptions {
  std::vector<std::pair<Expr, Expr>> updates = {};  // (shared variable, its new value)
  std::vector<std::pair<Expr, Expr>> givens = {};   // (expression, what stands for it)
  std::vector<std::pair<Expr, Dims>> shapes = {};   // hints: sizes of inputs, -1 = not known
  std::string name = {};
  /// The budget: "", "512MiB", "4GB", "100000" (bytes); with `device`, of each of the two, or one
  /// for each: "opencl:0=3GiB,cpu=8GiB".
  std::string memory = {};
  /// Where the function runs: "cpu", or a device of `snug devices` ("opencl:0"), which does all
  /// that it can do; empty: on the CPU.
  std::string device = settings().device;
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
  Mode mode = settings().mode;
  Guarded guarded = {};
  bool no_default_updates = false;
  /// BF16: products and convolutions of float32 round their operands and results, which some CPUs
  /// do many times as fast; sums, parameters and all else stay float32. Mode::Fast only.
  DType precision = DType::F32;
  bool strict_math = false;
  bool profile = false;  // take the time of every step; Mode::Fast only
  OnUnusedInput on_unused_input = settings().on_unused_input;
  int threads = settings().threads;  // 0: all cores
  /// Calls that may run at the same time; a callback that calls its own function needs one more.
  int contexts = 1;
  /// With other functions that run at other times; contexts = 1 only.
  bool share_arenas = settings().share_arenas;
  /// > 0: after so many calls each, a copy is kept on the host of the variables that they update on
  /// other devices, for SharedVariable::restore after one has failed. It counts as memory.
  std::int64_t snapshot = 0;
  std::vector<std::string> disabled_passes = {};  // rewrite passes to leave out, by name
};

/// Calls visit(name, member) for each option but those made of expressions: front ends set them by
/// these names.
template <class Visit>
void each_option(Visit&& visit) {
  using O = FunctionOptions;
  visit("name", &O::name);
  visit("memory", &O::memory);
  visit("device", &O::device);
  visit("micro_batches", &O::micro_batches);
  visit("recompute", &O::recompute);
  visit("offload", &O::offload);
  visit("activations", &O::activations);
  visit("always_round", &O::always_round);
  visit("plan_only", &O::plan_only);
  visit("mode", &O::mode);
  visit("guarded", &O::guarded);
  visit("no_default_updates", &O::no_default_updates);
  visit("precision", &O::precision);
  visit("strict_math", &O::strict_math);
  visit("profile", &O::profile);
  visit("on_unused_input", &O::on_unused_input);
  visit("threads", &O::threads);
  visit("contexts", &O::contexts);
  visit("share_arenas", &O::share_arenas);
  visit("snapshot", &O::snapshot);
  visit("disabled_passes", &O::disabled_passes);
}

/// An argument as the caller holds it. The memory stays the caller's.
struct ArgView {
  const std::byte* data = nullptr;
  DType dtype = DType::F32;
  Dims shape;
  Dims strides = {};  // in elements; empty: contiguous
};

/// Shapes of the inputs of a function, in their order or by their names:
///   f.memory({{64, 784}, {64}});
///   f.memory({{"x", {64, 784}}, {"y", {64}}});
class Shapes {
 public:
  struct Named {
    Named(std::string n, const Dims& s) : name(std::move(n)), shape(s) {}
    std::string name;
    Dims shape;
  };
  Shapes() = default;
  Shapes(std::initializer_list<Dims> shapes) : shapes_(shapes) {}
  Shapes(std::initializer_list<Named> shapes);
  Shapes(const std::vector<Dims>& shapes) : shapes_(shapes) {}
  Shapes(std::span<const Dims> shapes) : shapes_(shapes.begin(), shapes.end()) {}
  template <std::size_t N>
  Shapes(const Dims (&shapes)[N]) : shapes_(shapes, shapes + N) {}
  /// In the order of the inputs of these names and types. A Shape or Value error that begins with
  /// `what` unless there is one for each.
  std::vector<Dims> of(std::span<const std::string> names, std::span<const TensorType> types,
                       std::string_view what) const;

 private:
  std::vector<Dims> shapes_;
  std::vector<std::string> names_;  // none: in order
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
struct CallContext;

/// A compiled function. Copies share the compiled state. Calls may come from several threads. An
/// empty one, as Function() and one that was moved from, is valid() no more: using it is a Type
/// error.
///
/// A callback (print) may call other functions, and read the shared variables of the call it is in,
/// as they were before its updates; writing them, by set_value or by another call, is an error.
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
  /// Outputs are the caller's, contiguous and of the right shape. Once a call of these sizes was
  /// made nothing of ours allocates; oneDNN's `execute`, which products and convolutions of float32
  /// go through, allocates and frees a map of its arguments: 3 to 6 small blocks per operation,
  /// some 55 ns, which its interface cannot avoid.
  void run_into(std::span<const ArgView> arguments, std::span<std::byte* const> outputs) const;

  /// A call in two steps, for bindings that allocate the outputs themselves. Holds a context and
  /// the locks of the shared variables until it dies. What else its thread calls meanwhile may read
  /// those it reads; all else that needs them is an error.
  class Call {
   public:
    std::size_t output_count() const;
    DType output_dtype(std::size_t i) const;
    /// Before `run`: the size to allocate. After it: the actual one (smaller only where the size
    /// depends on computed data).
    const Dims& output_shape(std::size_t i) const;
    /// Once.
    void run(std::span<std::byte* const> outputs);
    ~Call();
    Call(Call&&) noexcept;
    Call(const Call&) = delete;

   private:
    friend class Function;
    friend class FunctionImpl;
    explicit Call(CallContext* state) : state_(state) {}
    CallContext& state() const;
    CallContext* state_ = nullptr;
  };
  Call prepare(std::span<const ArgView> arguments) const;

  /// Gives back the memory that is kept between calls: arenas, plans and what they stand on. The
  /// next call plans and allocates anew; the code stays. Calls that run keep theirs.
  void free() const;

  /// Plans for given shapes of the inputs without running or allocating. `values`, per input: of
  /// 0-d integers that sizes depend on; one that is not given is taken as 0, and the note says so.
  using Values = std::vector<std::optional<std::int64_t>>;
  /// `copied`, per input: calls copy it, since its memory is strided or not aligned; none if empty.
  MemoryReport memory(const Shapes& shapes, const Values& values = {},
                      const std::vector<bool>& copied = {}) const;
  /// The smallest budget that a plan of the whole batch was found for, where tasks may run again;
  /// proved to be the least one if it is the report's `floor`. Takes a search. `device`: in whose
  /// memory, whatever the others need; empty: the host's.
  std::int64_t smallest_budget(const Shapes& shapes, const Values& values = {},
                               const std::string& device = {}) const;
  /// Ways to keep to the budget `memory` ("4GiB"; as FunctionOptions has it) where the plain plan
  /// for these shapes does not, each planned: a smaller batch (axis 0), tasks that run again,
  /// slices of the batch, activations in bfloat16, the host instead of the device, more memory.
  std::vector<Remedy> remedies(const Shapes& shapes, const std::string& memory,
                               const Values& values = {}) const;
  std::vector<Remedy> remedies(const Shapes& shapes, std::uint64_t budget,
                               const Values& values = {}) const {
    return remedies(shapes, std::to_string(budget), values);
  }
  /// The largest batches that fit the budget `memory` ("4GiB"; empty: that of the function, and of
  /// devices without one what they have), by
  /// each of the techniques it may use, and the one to take; 0 rows if not even one fits. `shapes`
  /// are those of the inputs for any batch; the batch is `axis` of every input that has the same
  /// size there as the first one. More slices than `kMostSlices` are not tried.
  static constexpr std::int64_t kMostSlices = 512;
  MaxBatch max_batch(const Shapes& shapes, const std::string& memory = {}, int axis = 0,
                     const Values& values = {}) const;
  /// What decides the bits of a call within a budget, and is chosen by predicted times: sums over a
  /// batch in slices are added up in their order, and rounded activations are other numbers. What
  /// runs again, in which order, and what is in a file, changes no bit.
  struct Way {
    std::int64_t slices = 1;
    bool rounded = false;
    bool operator==(const Way&) const = default;
  };
  /// That of calls with these shapes of the inputs. Takes a search if it was not chosen yet.
  Way way(std::span<const Dims> shapes) const;
  /// Calls with these shapes go that way from now on, whatever is predicted to be faster. A Memory
  /// error if it does not keep to the budget, a Value error if the options do not allow it.
  void set_way(std::span<const Dims> shapes, const Way& way) const;
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
  /// An Index error if there is no input or output `i`.
  const TensorType& input_type(std::size_t i) const;
  const std::string& input_name(std::size_t i) const;
  std::size_t output_count() const;
  const TensorType& output_type(std::size_t i) const;
  const std::string& name() const;
  bool valid() const { return impl_ != nullptr; }
  FunctionImpl* impl() const { return impl_.get(); }  // null if it is empty
  /// For a garbage collector: calls `visit` once for every reference to a shared variable that dies
  /// with this Function. Visits nothing while a call runs or others share the compiled state.
  void visit_shared(const std::function<void(SharedVariable&)>& visit) const;

 private:
  FunctionImpl& made() const;
  std::shared_ptr<FunctionImpl> impl_;
};

/// Compiles. Errors: an input that is no variable, used twice, missing or unused; a cyclic given;
/// an update of something that is not shared, twice, or of another type.
Function function(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                  const FunctionOptions& options = {},
                  std::source_location where = std::source_location::current());
inline Function function(const std::vector<Expr>& inputs, const Expr& output,
                         const FunctionOptions& options = {},
                         std::source_location where = std::source_location::current()) {
  return function(inputs, std::vector<Expr>{output}, options, where);
}

/// A request to stop (Ctrl-C): calls honour it between steps until their commit point; compiling,
/// planning and measuring at once. What was there before stays as it was.
void request_interrupt();
/// Forgets a request that nothing has honoured.
void clear_interrupt();

}  // namespace snug
