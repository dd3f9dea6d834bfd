#pragma once
#include <cstdint>
#include <unordered_map>

#include "exec/executable.h"

namespace snug {

/// mode="check": after each step its results are compared with the reference, computed from the
/// very inputs the step had, and the memory of buffers that died is poisoned. A difference is an
/// internal error that names the step and the user's line.
class StepChecker : public StepObserver {
 public:
  explicit StepChecker(const Executable& executable) : executable_(executable) {}
  void start(const RunState& state);
  void before(const RunState& state, std::uint32_t step) override;
  void after(const RunState& state, std::uint32_t step) override;

 private:
  using Tensors = std::unordered_map<Value, RefTensor, ValueHash>;
  std::vector<RefTensor> run(const Node& node, const Tensors& known, const RunState& state) const;
  RefTensor read(const RunState& state, Value v, std::uint32_t buffer) const;
  static bool has_own_text(const Graph& graph, const Node& n);
  static Tensors one_ulp_off(const Node& n, const Tensors& known);
  /// The reference values of `wanted`, from the values the step reads.
  void evaluate(const RunState& state, std::uint32_t step, const std::vector<Value>& wanted);
  void compare(const RunState& state, std::uint32_t step, Value v, std::uint32_t buffer) const;
  /// Ops with a residual: their results are judged by it, as a whole.
  void check_residual(const RunState& state, std::uint32_t step);
  void poison_dead(const RunState& state, std::uint32_t step) const;

  /// What the reference has, rounded to the dtype, and how far rounding on the way may lead from
  /// it.
  struct Expected {
    RefTensor value;
    std::vector<double> spread;  // per element; floats only
  };

  const Executable& executable_;
  std::unordered_map<Value, Expected, ValueHash> expected_;  // values still to be compared
  /// Per step, the inputs of an op whose results are judged by its residual: it may overwrite them.
  std::unordered_map<std::uint32_t, std::vector<RefTensor>> problems_;
};

}  // namespace snug
