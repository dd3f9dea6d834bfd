#pragma once
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/compiled.h"

namespace snug {

/// How a function keeps to its budget: as a whole or in slices of the batch, with tasks run again
/// and values in a file where that helps; with activations rounded if nothing exact does. Refuses
/// where nothing fits, with ways that do. It holds ways to compile the function, and calls none of
/// them. As Compiled, it is used by one thread at a time.
class Strategy {
 public:
  /// What the budget of the process left to the function when it was made; for texts.
  struct ProcessShare {
    std::uint64_t budget = 0;  // 0: that is not what decides
    std::uint64_t taken_by_others = 0;
    std::uint64_t own = 0;  // budget of the function
  };

  /// `shares`: by DeviceId.
  Strategy(std::shared_ptr<Compiled> whole, std::vector<ProcessShare> shares);
  Strategy(const Strategy&) = delete;

  ProcessShare share_of(DeviceId d) const {
    return d < shares_.size() ? shares_[d] : ProcessShare{};
  }
  Compiled& whole() { return *whole_; }
  const Compiled& whole() const { return *whole_; }
  const CompileOptions& options() const { return whole_->options(); }

  /// Another way than the whole may be chosen.
  bool has_choice() const {
    return !function().has_stage() &&
           (!set_ways_.empty() ||
            (options().budgets.any() &&
             (options().micro_batches == 0 || options().round == RoundActivations::IfNeeded)));
  }
  /// The way to run for these sizes: the whole or one in slices, whichever fits the budget and is
  /// predicted to be fastest; if none is exact, the same with rounded activations, if they may be.
  /// A Memory error if none fits. `least_seconds` gets the time that another way takes at least, by
  /// prediction.
  Compiled& choose(const SizeSources& from, double* least_seconds = nullptr);
  /// That of a call, with code; found again by its sizes. `from` is asked for if it is not.
  Compiled& choose_for_call(const std::shared_ptr<const Lowered>& program,
                            std::span<const std::int64_t> sizes, const std::vector<bool>& copied,
                            const std::function<SizeSources()>& from);
  /// As Function::way and Function::set_way.
  Function::Way way(const SizeSources& from);
  void set_way(std::span<const Dims> shapes, const SizeSources& from, const Function::Way& way);

  /// The same strategy with plans of its own, so that calls do not find plans for sizes that were
  /// only asked about. What does not fit is an OverBudget without remedies.
  std::shared_ptr<Strategy> apart() const;
  /// As Function has them.
  MemoryReport memory(const SizeSources& from);
  std::int64_t smallest_budget(const SizeSources& from, DeviceId device);
  /// Ways to keep to budgets of which that of `device` is too small, or the one that is smallest
  /// for what it is for.
  std::vector<Remedy> remedies(const SizeSources& from, const Budgets& budgets);
  std::vector<Remedy> remedies(const SizeSources& from, const Budgets& budgets, DeviceId device);
  MaxBatch max_batch(std::span<const Dims> shapes, const Function::Values& values,
                     const Budgets& budgets, std::int64_t axis);
  std::string explain() const;

  /// Bytes of the arena of a call, planned before shared variables have values; 0 where the call is
  /// going to fail.
  std::uint64_t arena_bytes(const SizeSources& from);
  /// Throws `why` with what would fit.
  [[noreturn]] void refuse(const SizeSources& from, const Error& why);
  /// Of a call for whose arena there is no memory, as `why` says, but for one of `most` bytes.
  [[noreturn]] void refuse_for_lack_of_memory(const SizeSources& from, std::uint64_t most,
                                              const Error& why);

  /// Programs for at most so many threads.
  void use_threads(int threads);
  /// After a plan was too large: a plan also serves smaller sizes, which may do with less.
  void forget_plans();
  /// All ways that were compiled.
  void visit(const std::function<void(const Compiled&)>& visit) const;

 private:
  /// What a plan may do.
  struct Ways {
    Budgets budgets = {};
    bool recompute = false;
    std::int64_t micro_batches = 1;
    RoundActivations round = RoundActivations::Never;
    std::optional<DiskRates> disk = {};
    bool find_smallest = true, unbounded = false;  // as CompileOptions has them
    bool on_host = false;                          // whatever device the function is on
  };
  class RemedySearch;
  struct Choice {
    std::weak_ptr<const Lowered> program;  // of the whole
    std::vector<std::int64_t> key;         // values of its key
    std::vector<bool> copied;              // as CallKind has it
    Compiled* way;
  };
  struct SetWay {
    std::vector<Dims> shapes;  // of the arguments
    Function::Way way;
  };
  /// Numbers of slices that are tried, up to the first with which nothing need run again.
  static constexpr std::int64_t kSlices[] = {
      2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, Function::kMostSlices};

  const FunctionGraph& function() const { return whole_->function(); }
  Ways own_ways() const;
  /// As it is, whatever it needs.
  Ways plain_ways() const;
  Function::Way own_way() const;
  /// The rounding of a way that is one among others.
  RoundActivations settled_rounding() const {
    return options().round == RoundActivations::Always ? RoundActivations::Always
                                                       : RoundActivations::Never;
  }
  CompileOptions options_for(const Ways& ways) const;
  /// To be asked about other ways. `like`: with the programs of that one, if they are the same.
  std::shared_ptr<Strategy> planner(const Ways& ways, const Compiled* like = nullptr) const;
  /// The batch in `count` slices; null if it cannot be cut.
  Compiled* in_slices(std::int64_t count);
  Strategy& rounded();
  /// As `choose`, without a choice.
  Compiled& take_way(const SizeSources& from, const Function::Way& way);
  /// As `choose`, among the ways that round activations; null if they may not, or if none fits.
  Compiled* choose_rounded(const SizeSources& from);
  /// Whether the batch fits the budget in as many slices as are tried, as a whole or rounded:
  /// `choose` finds a way then, which may be another.
  bool fits_somehow(const SizeSources& from);
  /// Rows of the axis that slices are cut along; many if that is not known.
  std::int64_t rows_to_cut(const SizeSources& from) const;
  MemoryReport report(const SizeSources& from);
  /// The plan of the smallest budgets from `ways.budgets` on that one was found for by these ways,
  /// as long as that of `device` is below `most`; its budgets are left in `ways`.
  std::optional<MemoryReport> smallest_plan(const SizeSources& from, Ways& ways, DeviceId device,
                                            std::int64_t most);
  /// With what devices have that have no budget.
  Budgets with_memories(const Budgets& given) const;
  /// The device of whose budget a plan has most.
  static DeviceId fullest(const Budgets& budgets, const MemoryReport& plan);
  static bool keeps_to(const Budgets& budgets, const MemoryReport& plan);
  std::string describe_remedies(const SizeSources& from, std::span<const Remedy> found,
                                DeviceId device) const;
  const std::string& name_of(DeviceId device) const {
    return options().devices->infos()[device].name;
  }

  std::shared_ptr<Compiled> whole_;
  std::vector<ProcessShare> shares_;
  bool only_asked_ = false;  // of another strategy, which explains what does not fit
  bool may_measure_ = true;  // the rates of the machine, which takes memory and a moment
  /// In slices, by their number, and why there are none.
  std::map<std::int64_t, std::shared_ptr<Compiled>> in_slices_;
  std::string not_in_slices_;
  std::shared_ptr<Strategy> rounded_;
  std::vector<SetWay> set_ways_;
  std::list<Choice> choices_;  // most recent first
};

}  // namespace snug
