#pragma once
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/function_graph.h"
#include "compile.h"

namespace snug {

/// A function compiled with some options: its programs, and the plans made for the sizes seen so
/// far. Its owner sees to it that one thread uses it at a time. What changes does so under NoFork.
class Compiled {
 public:
  /// A program and what was made with it. It follows from the sizes of the call alone, so that
  /// results do not depend on the sizes of earlier calls.
  struct Made {
    std::shared_ptr<Lowered> lowered;
    std::vector<Dims> assumed;  // per shared variable: sizes the code counts on, -1 = none
    std::list<std::shared_ptr<const Executable>> executables;  // most recent first
    std::vector<std::shared_ptr<const Planned>> plans;
    CompileTrace trace;
  };
  enum class Code : std::uint8_t {
    Now,   // kernels are made with each program
    None,  // it is planned with, for questions: each plan is made anew
  };

  /// `frontiers`: for whom they are kept.
  Compiled(std::shared_ptr<const FunctionGraph> function, CompileOptions options, Code code,
           std::shared_ptr<FrontierUser> frontiers);
  /// To be planned with other options. A Value error if it cannot run in slices that they ask for.
  Compiled(const Compiled& other, const CompileOptions& options);
  Compiled(const Compiled&) = delete;

  const FunctionGraph& function() const { return *function_; }
  const CompileOptions& options() const { return options_; }
  const std::shared_ptr<FrontierUser>& frontiers() const { return frontiers_; }
  /// The program in use; none before the first one is made.
  const Made& current() const { return made_; }

  bool has_code() const { return code_ == Code::Now; }

  /// Makes the program for these shapes of the shared variables the current one; lowers if there
  /// is none that counts on sizes they have.
  std::shared_ptr<const Lowered> program_for(const std::vector<Dims>& shared_shapes);
  std::shared_ptr<const Executable> executable_for(const std::shared_ptr<const Lowered>& lowered,
                                                   std::span<const std::int64_t> symbols,
                                                   std::span<const std::int64_t> sizes,
                                                   const std::vector<bool>& copied);
  /// A plan without a call. `assumed` gets the names of the inputs whose values it needs but has
  /// not; they are taken as 0.
  std::shared_ptr<const Executable> plan_for(const SizeSources& from, std::string& assumed);
  /// From now on it can run.
  void make_code();
  /// Programs for at most so many threads. For those of a forked process, which may be fewer.
  void use_threads(int threads);

  /// Gives up plans and the programs of other sizes.
  void forget_plans();
  MemoryReport report(const SizeSources& from);
  /// The graph after each stage, tasks, kernels and the last plan.
  std::string explain() const;
  /// All graphs that hold shared variables, but for those of programs, which may be shared.
  void visit_graphs(const std::function<void(const Graph&)>& visit) const;
  void visit_programs(const std::function<void(const Lowered&)>& visit) const;

  struct Counters {
    std::int64_t programs = 0, plans = 0, instances = 0, kernels_compiled = 0,
                 kernels_from_cache = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  Made lower_for(std::vector<Dims> assumed);
  /// The sizes to count on for shared variables of these shapes: what an update makes larger or
  /// smaller gets code for any size, not new code at every call.
  std::vector<Dims> assumed_for(const std::vector<Dims>& shapes) const;
  /// The graph with such sizes as constants.
  Graph with_sizes(const std::vector<Dims>& assumed) const;
  std::vector<std::int64_t> symbols_for(const Lowered& lowered, const SizeSources& from,
                                        std::string& assumed) const;
  /// Per device, what budgets cover besides arenas.
  std::vector<std::uint64_t> fixed_bytes(const Graph& graph,
                                         std::span<const std::int64_t> sizes) const;

  std::shared_ptr<const FunctionGraph> function_;
  CompileOptions options_;
  Code code_;
  std::shared_ptr<FrontierUser> frontiers_;
  Made made_;               // for the sizes of the last call
  std::list<Made> others_;  // for other sizes of shared variables, most recent first
  Counters counters_;
};

/// Whether code that counts on `assumed` serves `shape`.
bool serves_shape(const Dims& assumed, const Dims& shape);

}  // namespace snug
