#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "kernel/kernel_spec.h"
#include "kernel/library.h"
#include "rewrite/rules.h"

namespace snug {

/// Where the elements of a value are: in the buffer of `root`, which a leaf or a task fills.
struct Place {
  Value root;
  Layout layout;
};

/// A kernel with its meaning: which values its operands are and which sizes its integers.
struct Kernel {
  KernelSpec spec;
  std::vector<Value> operands;  // roots
  std::vector<SizeId> offsets;  // per operand, elements from the start of the root's buffer
  std::vector<SizeId> ints;     // as KernelFn wants them
  SizeId points = 1;            // extent of outer axis 0; 1 if there is none
  SizeId work = 1;              // product of all extents, for the choice of threads
};

struct Task {
  enum class Kind : std::uint8_t { Kernel, Library, Sizes, Loop, Copy };
  Kind kind = Kind::Kernel;
  std::uint32_t index = 0;  // Kernel: into kernels. Else the node.
  DeviceId device = 0;      // Copy: the one that is not the host
  std::string name;
  std::vector<Value> reads, writes;  // roots; a root may be read through several views
  /// write k may take over the storage of read j: pairs (k, j), best first.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> in_place;
  std::vector<std::uint32_t> covers;  // graph nodes computed here
  bool may_fail = false;
  OriginId origin = 0;
};

/// What `lower` makes: once per function, for all sizes.
struct Program {
  Graph graph;              // with explicit copies; every output and update its own value
  std::vector<Task> tasks;  // in a valid order
  std::vector<Kernel> kernels;
  std::unordered_map<Value, Place, ValueHash> places;  // of every value that has memory
  std::vector<Type> extra;  // types of values past the graph's nodes: partial reductions
  Libraries libraries;

  const Type& type(Value v) const {
    return v.node < graph.nodes().size() ? graph.type(v) : extra[v.node - graph.nodes().size()];
  }
};

struct FuseOptions {
  bool strict_math = false;
  std::uint32_t max_nodes = 48;  // per kernel: code size grows faster than what fusion saves
  std::uint32_t max_operands = 24;
};

/// Groups elementwise ops, views and reductions into kernels; the rest are library calls, size
/// tasks and loops. Needs: insert_copies.
Program fuse(const Graph& graph, Libraries libraries, const FuseOptions& options = {});

// The passes behind placement, in the order of `all_passes()`: each gives the graph it makes, or
// nothing if there was nothing to do.

/// Lets values that are images have their channels as the last axis where a library call prefers
/// that: elementwise ops, reductions and what else need not care follow, so that images are turned
/// only where they meet an op that needs them as the user has them.
std::optional<Graph> prefer_channels_last(const Graph&, Libraries, RuleCounts&);

/// Hands sums of a product and a row to the library that does the product, where that saves a
/// kernel.
std::optional<Graph> absorb_bias(const Graph&, Libraries, RuleCounts&);

/// Inserts copies where memory needs them: inputs of library calls in layouts they do not take,
/// reshapes of strided values, and outputs and updates that are views, leaves or not distinct.
std::optional<Graph> insert_copies(const Graph&, Libraries, RuleCounts&);

/// The float32 values that forward tasks make and backward tasks read are kept in bfloat16 in
/// between, at half the memory: forward tasks read them as they are, so only derivatives change.
/// Lossy: only if asked for. Values that decide something (which one is the largest, an index),
/// outputs, and those that together are a hundredth of all stay exact. Needs: insert_copies.
std::optional<Graph> round_activations(const Graph&, Libraries, const FuseOptions&, RuleCounts&);

/// Every value that has memory is written once, before it is read; every output has memory.
void verify(const Program& program);
std::string print(const Program& program);

/// The identity that insert_copies inserts, what absorb_bias makes, and the conversions of
/// round_activations: the first is always in memory, and no kernel both makes and reads it.
extern const OpDef kCopyOp, kAffineOp, kToBfloat16Op, kFromBfloat16Op;

}  // namespace snug
