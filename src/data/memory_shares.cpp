#include "data/memory_shares.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/spelling.h"
#include "base/threads.h"

namespace snug::data {

MemoryShares share_memory(const Source& source, const Pipeline& pipeline,
                          const LoaderOptions& options) {
  MemoryShares shares;
  shares.limit = static_cast<std::int64_t>(std::min<std::uint64_t>(
      parse_bytes(options.memory.empty() ? "64MiB" : options.memory), std::uint64_t{1} << 60));
  std::int64_t raw_row = 0, work_row = 0, out_row = 0;
  for (std::size_t f = 0; f < source.fields().size(); ++f) {
    raw_row += source.fields()[f].bytes();
    if (!pipeline.plain(f)) work_row += source.fields()[f].bytes();
    out_row += pipeline.fields()[f].bytes();
  }
  const std::int64_t rows = std::min(options.batch, std::max<std::int64_t>(source.rows(), 1));
  shares.batch_bytes = checked_product(std::span(&rows, 1), out_row, "Loader: batch");

  const std::int64_t batches = (1 + kBatchesWithCaller) * shares.batch_bytes;

  const std::int64_t block = source.block();
  const bool windowed = block > 1;
  if (!windowed) {
    constexpr std::int64_t kPiece = 1 << 20;
    shares.piece_rows =
        std::clamp<std::int64_t>(kPiece / std::max<std::int64_t>(work_row, 1), 1, options.batch);
    shares.piece_bytes = shares.piece_rows * work_row;
  }
  shares.work_bytes = shares.piece_bytes + pipeline.scratch_bytes();

  std::int64_t windows = 0;
  if (windowed) {
    // Two windows get half of the memory, or what is left. Rows before the first block and after
    // the last one may come with a whole window. Threads have no say, since the order of the rows
    // depends on it.
    const std::int64_t block_bytes =
        checked_product(std::span(&block, 1), raw_row, "Loader: rows read together");
    const std::int64_t rest = source.phase() > 0 ? 1 : 0;
    const std::int64_t room =
        std::min(shares.limit / 2, shares.limit - batches - shares.work_bytes) / 2;
    const std::int64_t blocks = (source.rows() + block - 1) / block;
    shares.window_blocks = std::clamp<std::int64_t>(
        room / std::max<std::int64_t>(block_bytes, 1) - rest, 1, std::max<std::int64_t>(blocks, 1));
    windows = 2 * (shares.window_blocks + rest) * block_bytes;
  }
  if (windows + batches + shares.work_bytes > shares.limit) {
    std::string text = fmt::format("Loader: {} are too little: {} batches of {} rows take {}",
                                   describe_bytes(shares.limit), 1 + kBatchesWithCaller, rows,
                                   describe_bytes(batches));
    if (windowed)
      text += fmt::format(", blocks of {} rows that are read together {}", block,
                          describe_bytes(windows));
    if (shares.work_bytes > 0)
      text += fmt::format(", the work on rows {}", describe_bytes(shares.work_bytes));
    fail(Fault::Value, text,
         fmt::format(
             "give {} or more, or a smaller batch",
             option("memory",
                    fmt::format("{}MiB", ((windows + batches + shares.work_bytes) >> 20) + 1))));
  }
  const int wanted =
      options.threads > 0 ? options.threads : std::clamp(available_threads() / 2, 1, 8);
  shares.threads = wanted;
  while (shares.threads > 1 &&
         windows + batches + shares.threads * shares.work_bytes > shares.limit)
    --shares.threads;
  const std::int64_t left = shares.limit - windows - shares.threads * shares.work_bytes;
  const std::int64_t fitting = left / std::max<std::int64_t>(shares.batch_bytes, 1);
  shares.slots = static_cast<int>(
      std::clamp<std::int64_t>(fitting - kBatchesWithCaller, 1, 2 * shares.threads + 2));
  shares.threads = std::min(shares.threads, shares.slots);
  return shares;
}

}  // namespace snug::data
