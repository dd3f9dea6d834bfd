#pragma once
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace snug {

/// The batch: its size and the values that bring its rows in.
struct Batch {
  SizeId rows = SizeTable::kNoSize;
  std::vector<Value> sources;
};

/// Finds the batch; it has no sources if there is none.
Batch find_batch(const Graph& graph);

/// `p[arange(n), y]` asks for at most as many labels as p has rows. In slices it must be exactly as
/// many: they become one size, and the call checks it. So do the last sizes of `x.reshape((-1,
/// d))`, lest rows mix. Nothing if there is no such place.
std::optional<Graph> with_one_size(const Graph& graph, const Batch& batch);

/// How a value depends on the rows of the batch.
enum class BatchKind : std::uint8_t {
  Whole,  // the same for all rows
  Rows,   // has the rows of the batch on one axis, one after another
  After,  // needs the whole batch
};

struct BatchInfo {
  BatchKind kind = BatchKind::Whole;
  int axis = kWhole;
  /// Of that axis: the rows, or a multiple where each has several elements, one after another.
  SizeId size = SizeTable::kNoSize;
  SizeId in_size = SizeTable::kNoSize;  // of the axis of the inputs' rows
  bool row_numbers = false;
  /// Made whole, outside the loop. Integer vectors are: they are small, and indices can be checked
  /// before anything is written.
  bool outside = true;
  BatchRule rule;  // of Rows inside and of accumulated values
  bool inside() const { return rule.kind != BatchRule::Kind::No; }
};

/// Per node. A Value error names the op that needs more than its own row.
std::vector<BatchInfo> analyse_batch(const Graph& graph, const Batch& batch);

}  // namespace snug
