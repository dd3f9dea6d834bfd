#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/inline_vec.h"
#include "expr/scalar.h"

namespace snug {

/// A fused loop nest, independent of the device language and of any graph: pure data, equal specs
/// are equal code. The loops:
///
///   for outer axes            parallel; axis 0 is split among threads
///     for each phase
///       for inner axes        only if phase.inner; sequential in meaning
///         body[phase.begin, phase.end)
///
/// A phase without `inner` runs once per point of the outer axes. A Reduce in an inner phase folds
/// its operand over all inner axes; its result is used in later phases only. Any other instruction
/// is visible in its own phase, those of outer phases also in later ones. Loads and Stores address
///   operand + sum over axes of index * stride
/// where an outer phase has index 0 on all inner axes.
///
/// `block` > 0: the kernel computes partial reductions. Axis 0 (outer) counts blocks, and the first
/// inner axis runs over [b * block, min((b + 1) * block, extent)) in block b. Operands have stride
/// on axis 0 only if they hold partial results.
struct KernelSpec {
  /// kRuntime, or a small constant that the code is specialised for.
  static constexpr std::int64_t kRuntime = -1;
  using AxisValues = InlineVec<std::int64_t, 10>;

  struct Operand {
    DType dtype = DType::F32;
    bool write = false;
    /// Per axis, in elements: 0, 1, another constant, or kRuntimeStride.
    static constexpr std::int64_t kRuntimeStride = INT64_MIN;
    AxisValues strides;
    /// Number of an earlier read operand with the same strides that may be the same memory.
    std::int32_t may_alias = -1;
    bool operator==(const Operand&) const = default;
  };
  struct Phase {
    std::uint32_t begin = 0, end = 0;  // half-open range of body
    bool inner = false;
    bool operator==(const Phase&) const = default;
  };

  std::string name;         // readable in a profile: "mul_add_tanh_f32_r2"; no part of equality
  AxisValues extents;       // per axis: kRuntime or a small constant; outer axes first
  std::uint32_t outer = 0;  // number of outer axes
  std::int64_t block = 0;
  bool strict = false;  // math functions to 1 ULP instead of 4
  std::vector<Operand> operands;
  std::vector<Instr> body;  // operand numbers a, b, c are indices into body
  std::vector<Phase> phases;

  std::size_t rank() const { return extents.size(); }
};

/// The code of a kernel. `ints` holds all extents, then per operand all strides:
///   ints[axis], ints[rank + operand * rank + axis]
/// so that constants may be left unread. Runs the points of outer axis 0 in [begin, end); with no
/// outer axes begin = 0 and end = 1. `operands` point at the element of index 0 on all axes.
using KernelFn = void (*)(std::byte* const* operands, const std::int64_t* ints, std::int64_t begin,
                          std::int64_t end);

/// Everything that decides the code, as bytes: the key of the code cache.
std::string serialise(const KernelSpec& spec);
/// Readable listing for `explain`.
std::string print(const KernelSpec& spec);
/// Checks ranges, dtypes, phase rules; an internal error names the fault.
void verify(const KernelSpec& spec);
/// Runs a kernel instruction by instruction, in double and int64: the oracle of every emitter.
/// Same arguments as KernelFn.
void interpret(const KernelSpec& spec, std::byte* const* operands, const std::int64_t* ints,
               std::int64_t begin, std::int64_t end);

}  // namespace snug
