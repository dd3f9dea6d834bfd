#pragma once
#include <functional>

#include "plan/recompute_eval.h"

namespace snug {

/// Plans by recipe, where the tasks first make values up to a turn, the highest point of the plain
/// order, and then use them up: training.
class RecomputeSeeds {
 public:
  /// The last evaluation was that of the plain levels.
  RecomputeSeeds(const RecomputeProblem& problem, const RecomputeEvaluator& evaluator);

  /// Calls `use` for every plan until that gives false.
  void each(const std::function<bool(const Levels&)>& use) const;

 private:
  /// A stage of a chain: the tasks between two cuts.
  struct Stage {
    std::uint32_t from, to;     // positions up to the turn
    double forward = 0;         // cost
    std::uint64_t before = 0;   // bytes of what crosses into it
    std::uint64_t passing = 0;  // bytes to run through it
    struct Way {
      double cost;          // of making again what is not saved
      std::uint64_t saved;  // bytes from here to its backward tasks
      std::uint64_t back;   // bytes for those
    };
    std::vector<Way> ways;  // one per entry of dear_
  };

  Levels segments(std::uint32_t parts, double leaf, double dear) const;
  std::vector<Stage> stages() const;
  void measure(Stage& stage, std::uint64_t back, const std::vector<std::uint32_t>& last) const;
  bool stays(std::uint32_t value, double dear) const;
  std::vector<std::uint32_t> cuts() const;
  std::uint32_t best_cut(std::uint32_t from, std::uint32_t to, std::uint32_t k,
                         std::uint32_t parts) const;
  void set_level(Levels& levels, std::uint32_t value, std::uint8_t level, bool tail) const;
  Levels with(const std::vector<std::uint8_t>& level, const std::vector<bool>& crosses,
              const std::vector<double>& dear) const;
  double cost_per_byte(std::uint32_t value) const;
  std::size_t first_made(std::uint32_t position) const;

  const RecomputeProblem& p_;
  const RecomputeEvaluator& eval_;
  Levels plain_;
  std::uint32_t turn_ = 0;
  std::vector<std::uint64_t> live_;          // per position of the plain order
  std::vector<std::uint32_t> values_;        // made up to the turn, in that order
  std::vector<std::uint32_t> made_, reach_;  // their task and their last read up to the turn
  std::vector<std::uint64_t> bytes_;         // made before a position
  std::vector<std::uint64_t> crossing_;      // bytes that a cut before a position goes through
  std::vector<double> dear_;                 // limits of cost per byte: what costs more stays

  friend class ChainPlanner;
};

}  // namespace snug
