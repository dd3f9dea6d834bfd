#include "backend/opencl/sorted_rows.h"

#include <fmt/format.h>

#include <bit>

#include "base/error.h"

namespace snug {
namespace {

constexpr std::int64_t kItems = SortedRows::kBlock / 2;
constexpr std::int64_t kStepItems = 64;

// Pairs at a distance of `stride` in runs of `size`, every other one of which falls.
constexpr const char* kPairs = R"(      const uint i = 2 * item - (item & (stride - 1));
      const ulong a = block[i], b = block[i + stride];
      if ((a > b) == ((((uint)first + i) & size) == 0)) {
        block[i] = b;
        block[i + stride] = a;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
)";

constexpr const char* kBlocks = R"(__kernel __attribute__((reqd_work_group_size($ITEMS, 1, 1)))
void $NAME(const int go, $PARAMETERS__global ulong* words, const long words0, const long count) {
  __local ulong block[$BLOCK];
  if (!go) return;
$BEGIN  const uint item = get_local_id(0);
  const long first = get_group_id(0) * (long)$BLOCK;
  for (uint k = item; k < $BLOCK; k += $ITEMS) {
    const long l = first + k;
    ulong word = ULONG_MAX;
    if (l < count) word = (ulong)($ROW) << 32 | (ulong)l;
    block[k] = word;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint size = 2; size <= $BLOCK; size *= 2)
    for (uint stride = size / 2; stride > 0; stride /= 2) {
$PAIRS    }
  for (uint k = item; k < $BLOCK; k += $ITEMS) words[words0 + first + k] = block[k];
}
)";

constexpr const char* kMerge = R"(__kernel __attribute__((reqd_work_group_size($ITEMS, 1, 1)))
void $NAME(const int go, __global ulong* words, const long words0, const long whole) {
  __local ulong block[$BLOCK];
  if (!go) return;
  const uint item = get_local_id(0), size = (uint)whole;
  const long first = get_group_id(0) * (long)$BLOCK;
  for (uint k = item; k < $BLOCK; k += $ITEMS) block[k] = words[words0 + first + k];
  barrier(CLK_LOCAL_MEM_FENCE);
    for (uint stride = $BLOCK / 2; stride > 0; stride /= 2) {
$PAIRS    }
  for (uint k = item; k < $BLOCK; k += $ITEMS) words[words0 + first + k] = block[k];
}
)";

constexpr const char* kStep = R"(__kernel __attribute__((reqd_work_group_size($ITEMS, 1, 1)))
void $NAME(const int go, __global ulong* words, const long words0, const long whole,
    const long distance) {
  if (!go) return;
  const uint item = get_global_id(0), size = (uint)whole, stride = (uint)distance;
  const uint i = 2 * item - (item & (stride - 1));
  words += words0;
  const ulong a = words[i], b = words[i + stride];
  if ((a > b) == ((i & size) == 0)) {
    words[i] = b;
    words[i + stride] = a;
  }
}
)";

OpenClText text_of(const char* name, std::string body, std::int64_t items,
                   std::vector<OpenClKind> args) {
  put(body, "$PAIRS", kPairs);
  put(body, "$BLOCK", std::to_string(SortedRows::kBlock));
  put(body, "$ITEMS", std::to_string(items));
  return {.name = name,
          .helpers = {},
          .body = body,
          .args = std::move(args),
          .local = {static_cast<std::uint32_t>(items), 1, 1}};
}

std::int64_t whole(std::int64_t count) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(count, SortedRows::kBlock))));
}

}  // namespace

SortedRows::SortedRows(OpenClKernels& kernels, const std::string& parameters,
                       const std::vector<OpenClKind>& args, const std::string& begin,
                       const std::string& row) {
  std::string body = kBlocks;
  put(body, "$PARAMETERS", parameters);
  put(body, "$BEGIN", begin);
  put(body, "$ROW", row);
  std::vector<OpenClKind> all = args;
  all.insert(all.end(), {OpenClKind::Memory, OpenClKind::Long});
  blocks_ = kernels.add(text_of("snug_sort_blocks", body, kItems, all));
  merge_ = kernels.add(
      text_of("snug_sort_merge", kMerge, kItems, {OpenClKind::Memory, OpenClKind::Long}));
  step_ = kernels.add(text_of("snug_sort_step", kStep, kStepItems,
                              {OpenClKind::Memory, OpenClKind::Long, OpenClKind::Long}));
}

std::uint64_t SortedRows::bytes(std::int64_t count) {
  return static_cast<std::uint64_t>(whole(count)) * sizeof(std::uint64_t);
}

void SortedRows::make_ready() const {
  for (const auto& kernel : {blocks_, merge_, step_}) kernel->make_ready();
}

void SortedRows::ask(OpenClQueues& queues, std::byte* words, std::int64_t count,
                     const std::vector<OpenClArg>& args) const {
  SNUG_CHECK(count <= INT32_MAX, "{} indices to sort", count);
  const std::int64_t n = whole(count);
  const OpenClArg memory = OpenClArg::memory(words, sizeof(std::uint64_t));
  std::vector<OpenClArg> all = args;
  all.insert(all.end(), {memory, OpenClArg::int64(count)});
  queues.launch(*blocks_, all, {n / kBlock, 1, 1});
  for (std::int64_t size = 2 * kBlock; size <= n; size *= 2) {
    for (std::int64_t stride = size / 2; stride >= kBlock; stride /= 2) {
      const OpenClArg step[] = {memory, OpenClArg::int64(size), OpenClArg::int64(stride)};
      queues.launch(*step_, step, {n / 2 / kStepItems, 1, 1});
    }
    const OpenClArg merge[] = {memory, OpenClArg::int64(size)};
    queues.launch(*merge_, merge, {n / kBlock, 1, 1});
  }
}

}  // namespace snug
