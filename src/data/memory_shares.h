#pragma once
#include "data/loader.h"
#include "data/pipeline.h"

namespace snug::data {

/// How a loader divides its memory.
struct MemoryShares {
  std::int64_t limit = 0;
  std::int64_t batch_bytes = 0;
  std::int64_t window_blocks = 1;  // blocks of the source per window; there are two windows
  std::int64_t piece_rows = 1;     // rows read at once to be transformed
  std::int64_t piece_bytes = 0;    // their bytes, of fields that are transformed
  std::int64_t work_bytes = 0;     // per thread
  int threads = 1;
  int slots = 1;  // batches made ahead
};
/// Batches with the caller: the one in use, and the one before while the next is asked for.
inline constexpr int kBatchesWithCaller = 2;

/// An error, with what is needed, if the limit is too small.
MemoryShares share_memory(const Source& source, const Pipeline& pipeline,
                          const LoaderOptions& options);

}  // namespace snug::data
