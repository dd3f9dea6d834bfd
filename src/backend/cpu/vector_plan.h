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
  std::size_t axis = 0;       // the vector axis; Flat: the last axis, and the one before it
  unsigned unroll = 1;        // vectors per iteration; several accumulators in Inner mode
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
  /// Large results that nobody reads at once go around the caches, as memcpy does it.
  bool streaming = false;
  std::int64_t period = 0;  // Flat: extent of the last axis; 0: known at run time only
  /// Per instruction: differs between lanes.
  std::vector<bool> varying;

  bool is_vector_axis(std::size_t a) const {
    return mode != Mode::Scalar && (a == axis || (mode == Mode::Flat && a + 1 == axis));
  }
};

VectorPlan plan_vectors(const KernelSpec& spec, const HostCpu& host);

/// Flat mode for a last axis whose extent is known at run time only, if the kernel allows it: its
/// operands are packed rows, one row repeated, or one element. It holds for extents up to
/// kMaxRuntimePeriod, if the rows are in fact packed.
inline constexpr std::int64_t kMaxRuntimePeriod = 31;
std::optional<VectorPlan> plan_short_rows(const KernelSpec& spec, const HostCpu& host);

}  // namespace snug
