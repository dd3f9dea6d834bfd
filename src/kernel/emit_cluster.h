#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernel/program.h"

namespace snug {

/// Per axis of a value: the axis of the kernel it runs along, or one of these.
using AxisMap = InlineVec<int, 8>;
inline constexpr int kUnitAxis = -1;  // size 1: always element 0
inline constexpr int kNewAxis = -2;   // not yet known; only while matching

/// The axes of an index view's result from those of its input.
AxisMap above_view(const Graph& graph, std::uint32_t view, const AxisMap& base);
/// The axes of an index view's input from those of its result.
AxisMap below_view(const Graph& graph, std::uint32_t view, const AxisMap& result);

/// Nodes that one kernel computes. Members cover the whole space, or none of the reduced axes.
struct Cluster {
  bool open = false;                       // false: not a kernel
  std::optional<std::uint32_t> task_node;  // the node of a library call, loop or size task
  SizeDims space;
  bool reduced_set = false;
  std::uint32_t reduced = 0;                         // axes of space that reductions fold
  bool has_index = false;                            // a member asks for its index
  std::vector<std::uint32_t> nodes;                  // in topological order
  std::unordered_map<std::uint32_t, AxisMap> maps;   // of each member's value
  std::unordered_map<std::uint32_t, AxisMap> loops;  // of each member's operands

  /// Axes a member must cover to run in the innermost loops: those not known to be of size 1.
  std::uint32_t required_axes(const SizeTable& sizes) const;
};

/// Turns clusters into kernels and their tasks.
class ClusterEmitter {
 public:
  ClusterEmitter(Program& program, const std::vector<bool>& memory, bool strict);
  void emit(const Cluster& cluster);

 private:
  Program& program_;
  const std::vector<bool>& memory_;  // per node: has memory
  bool strict_;
};

}  // namespace snug
