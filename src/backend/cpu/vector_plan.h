#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cpu/host_cpu.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// How a kernel is turned into vector code.
struct VectorPlan {
  enum class Mode : std::uint8_t {
    Scalar,  // no axis to vectorise
    Outer,   // lanes are points of an outer axis; each has its own reductions
    Inner,   // lanes are points of an inner axis; reductions fold the lanes at the end
    Flat,    // lanes run over the last two outer axes as one; the last has a small extent
  };
  Mode mode = Mode::Scalar;
  unsigned lanes = 1;
  std::size_t axis = 0;  // the vector axis; Flat: the last axis, and the one before it
  unsigned unroll = 1;   // vectors per iteration; several accumulators in Inner mode
  /// Vectors that one iteration takes as a single value, which LLVM cuts into registers: they share
  /// the constants of functions, and their chains of instructions interleave. The tail has one
  /// each.
  unsigned width = 1;
  bool unroll_inner = false;  // inner loops have short constant extents and become straight code
  /// Outer mode, partial reductions: row after row of the inner axes, each from end to end along
  /// the vector axis, as it lies in memory. The partial results are the accumulators.
  bool rows = false;
  std::vector<std::size_t> partial_of;  // rows: per instruction, the operand a Reduce is stored in
  bool masked_only = false;             // one masked loop and no loop of whole vectors: less code
  /// Outer mode, short inner loops: how many points they have, and per operand whether its rows
  /// lie packed one after the other, so that whole vectors of it can be sorted into lanes.
  std::int64_t inner_points = 0;
  std::vector<bool> tiled;
  /// Outer mode: operands that lie along `turn_axis` instead of the vector axis are read and
  /// written in squares of lanes x lanes that are turned in registers. An inner axis is turned
  /// whole and has at most kMaxTurnedInner points; an outer one in pieces of kTurnedPiece.
  static constexpr std::size_t kNoAxis = SIZE_MAX;
  std::size_t turn_axis = kNoAxis;
  std::vector<bool> turned;  // per operand
  /// Large results that nobody reads at once go around the caches, as memcpy does it.
  bool streaming = false;
  /// Reductions that read faster than the CPU's own guesses bring what they read.
  bool prefetch = false;
  std::int64_t period = 0;  // Flat: extent of the last axis; 0: known at run time only
  /// Per instruction: differs between lanes.
  std::vector<bool> varying;

  bool turns() const { return turn_axis != kNoAxis; }
  bool is_vector_axis(std::size_t a) const {
    return mode != Mode::Scalar && (a == axis || (mode == Mode::Flat && a + 1 == axis));
  }
};

inline constexpr std::int64_t kMaxTurnedInner = 64, kTurnedPiece = 16;

/// How to run a kernel, if some extents are in range.
struct KernelForm {
  VectorPlan plan;
  /// It holds if the extent of `short_axis` is at most `longest`, and that of the vector axis has a
  /// whole vector.
  std::size_t short_axis = VectorPlan::kNoAxis;
  std::int64_t longest = 0;
};

VectorPlan plan_vectors(const KernelSpec& spec, const HostCpu& host);

/// Lanes across rows that are short when the kernel runs: reductions over a last axis that is known
/// at run time only, and elementwise kernels whose operands lie along different axes.
std::optional<KernelForm> plan_turned_rows(const KernelSpec& spec, const HostCpu& host);

/// Flat mode for a last axis whose extent is known at run time only, if the kernel allows it: its
/// operands are packed rows, one row repeated, one element per row, or one element. It holds for
/// extents up to kMaxRuntimePeriod, if the rows are in fact packed.
inline constexpr std::int64_t kMaxRuntimePeriod = 31;
std::optional<VectorPlan> plan_short_rows(const KernelSpec& spec, const HostCpu& host);

}  // namespace snug
