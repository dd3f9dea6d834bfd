#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
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
  std::uint32_t reduced = 0;  // axes of space that reductions fold
  /// The reduced axes come before all others in memory: reductions run down columns. Such a kernel
  /// is cut into blocks of rows, so nothing in it may wait for a result and then run over them
  /// again.
  bool columns = false;
  std::unordered_set<std::uint32_t> late;            // members known only after a reduction
  bool has_index = false;                            // a member asks for its index
  std::vector<std::uint32_t> nodes;                  // in topological order
  std::uint32_t weight = 0;                          // of the code of its nodes, roughly
  std::uint32_t write_estimate = 0;                  // what it may have to store, in sixteenths
  std::unordered_set<std::uint32_t> reads;           // nodes of other units
  std::unordered_map<std::uint32_t, AxisMap> maps;   // of each member's value
  std::unordered_map<std::uint32_t, AxisMap> loops;  // of each member's operands

  /// Axes a member must cover to run in the innermost loops: those not known to be of size 1.
  std::uint32_t required_axes(const SizeTable& sizes) const;
};

enum class NodeKind : std::uint8_t {
  Leaf,
  IndexView,
  MemoryView,
  Fused,
  Sizes,
  Library,
  Loop,
  Copy,  // between devices
};

/// The nodes of a graph in groups: a unit is a cluster (a kernel to be) or one other task. Units
/// are in a valid order; unit 0 holds the leaves. A view belongs to the unit of what it shows.
struct Units {
  std::vector<NodeKind> kind;          // by node
  std::vector<std::uint32_t> unit_of;  // by node
  std::vector<Cluster> clusters;       // by unit

  /// The inputs that are data; the rest, and the count of a loop, decide sizes only.
  std::span<const Value> data_of(const Graph& graph, std::uint32_t id) const;
  Value below_index_views(const Graph& graph, Value v) const;
};

/// What an elementwise node does with its operands at one point.
struct ScalarBody {
  std::vector<Instr> instrs;
  std::uint32_t result = 0;  // the instruction that holds the value
};
ScalarBody scalar_body(const Graph& graph, const Node& node);

Units find_units(const Graph& graph, Libraries libraries, const FuseOptions& options);

/// Per node: whether it has memory. What leaves its kernel does, unless it is cheap to compute
/// again from values that have memory anyway.
std::vector<bool> choose_memory(const Graph& graph, const Units& units);

}  // namespace snug
