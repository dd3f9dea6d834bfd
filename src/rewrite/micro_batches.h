#pragma once
#include "graph/graph.h"

namespace snug {

/// What `split_batch` did, for `explain`.
struct MicroBatchTrace {
  std::string batch;            // "x.0"
  std::size_t inside = 0;       // ops that see a slice of the batch
  std::size_t accumulated = 0;  // values summed, or otherwise kept, over the slices
};

/// The same function with its batch run in `count` slices of equal size (the last may be smaller):
/// what depends on the rows of the batch becomes a loop over slices, so that it needs the memory of
/// one slice. Sums over the batch are added up slice by slice, so they round differently; random
/// numbers are the same.
///
/// The batch is axis 0 of the first argument that has an axis, and of all values of its size; with
/// no such argument, axis 0 of the slices of shared variables (`data[i*n:(i+1)*n]`). A Value error
/// names what needs more than its own row (batch normalisation, a sort over the batch).
Graph split_batch(const Graph& graph, std::int64_t count, MicroBatchTrace& trace);

}  // namespace snug
