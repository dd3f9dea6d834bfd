#include "backend/opencl/tiled_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/opencl/routine_call.h"

namespace snug {
namespace {

constexpr const char* kText = R"(__kernel __attribute__((reqd_work_group_size($IX, $IY, 1)))
void $NAME(const int go, $PARAMETERS$OF_PARTS const int last) {
  __local $T as[$TK][$TM + 1];
  __local $T bs[$TK][$TN + 1];
$ODD_DECLARED$ARRAYS  if (!go) return;
$WHICH
$BEGIN
$RANGE
  const int item = get_local_id(1) * $IX + get_local_id(0);
  const int row = get_local_id(1), column = get_local_id(0);
  const long m0 = (long)get_group_id(1) * $TM, n0 = (long)get_group_id(0) * $TN;
  $T sums[$RM][$RN];
  for (int i = 0; i < $RM; ++i)
    for (int j = 0; j < $RN; ++j) sums[i][j] = 0;
$FILL_N  for (long k0 = from; k0 < end; k0 += $TK) {
$FILL_K$ODD_RESET    for (int e = item; e < $TM * $TK; e += $ITEMS) {
      const int tm = $A_TM, tk = $A_TK;
      const long m = m0 + tm, k = k0 + tk;
      $T value = 0;
      if (m < M && k < end) {
        $FIND_A
        value = $LOAD_A;
      }
      as[tk][tm] = value;
$ODD_SEEN    }
    for (int e = item; e < $TN * $TK; e += $ITEMS) {
      const int tn = $B_TN, tk = $B_TK;
      const long n = n0 + tn, k = k0 + tk;
      $T value = 0;
      if (n < N && k < end) {
        $FIND_B
        $COUNTS value = $LOAD_B;
      }
      bs[tk][tn] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
$ODD_USED    for (int tk = 0; tk < $TK; ++tk) {
      $T a[$RM], b[$RN];
      for (int i = 0; i < $RM; ++i) a[i] = as[tk][row + i * $IY];
      for (int j = 0; j < $RN; ++j) b[j] = bs[tk][column + j * $IX];
      for (int i = 0; i < $RM; ++i)
        for (int j = 0; j < $RN; ++j) sums[i][j] = $FMA;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < $RM; ++i)
    for (int j = 0; j < $RN; ++j) {
      const long m = m0 + row + i * $IY, n = n0 + column + j * $IX;
      if (m >= M || n >= N) continue;
      $T sum = sums[i][j];
$KEEP      $STORE
    }
}
)";

constexpr const char* kJoin = R"(__kernel __attribute__((reqd_work_group_size($ITEMS, 1, 1)))
void $NAME(const int go, $PARAMETERS$OF_PARTS const int last) {
  if (!go) return;
  const long z = get_group_id(2);
$BEGIN
  const long e = get_global_id(0);
  if (e >= M * N) return;
  const long m = e / N, n = e % N;
  $T sum = 0;
  for (int p = 0; p < parts; ++p)
    sum = sum + parts_of[parts0 + (p * batches + z) * M * N + e];
  $STORE
}
)";

constexpr const char* kOfParts =
    " __global $T* parts_of, const long parts0, const long part_length, const int parts, "
    "const int batches,";
constexpr const char* kKeep = R"(      if (parts > 1) {
        parts_of[parts0 + (get_group_id(2) * M + m) * N + n] = sum;
        continue;
      }
)";

// Where padding may meet what is no number, the tile is done again element by element.
constexpr const char* kOddUsed = R"(    if (odd) {
      for (long k = k0; k < min(k0 + $TK, end); ++k)
        for (int i = 0; i < $RM; ++i)
          for (int j = 0; j < $RN; ++j) {
            const int tk = k - k0, tn = column + j * $IX;
            const long m = m0 + row + i * $IY, n = n0 + tn;
            if (m < M && n < N) {
              $FIND_B
              if (at < 0) continue;
              const $T of_a = as[tk][row + i * $IY], of_b = bs[tk][tn];
              sums[i][j] = $FMA_ODD;
            }
          }
    } else
)";

constexpr const char* kFillN = R"(  for (int tn = item; tn < $TN; tn += $ITEMS) {
    const long n = n0 + tn;
    $FIND_N
  }
)";
constexpr const char* kFillK = R"(    for (int tk = item; tk < $TK; tk += $ITEMS) {
      const long k = k0 + tk;
      $FIND_K
    }
    barrier(CLK_LOCAL_MEM_FENCE);
)";

}  // namespace

namespace {

std::int64_t cut(std::int64_t n, std::int64_t each) { return (n + each - 1) / each; }

/// Local memory of the operands, and items that are there.
bool fits(const OpenClFound& device, DType dtype, const ProductTile& t) {
  constexpr std::uint64_t kPlaces = 4096;  // bytes, of what is known of k and n
  const auto elements = static_cast<std::uint64_t>(t.depth * (t.rows + t.columns + 2));
  const std::uint64_t width = dtype == DType::F64 ? 8 : 4;
  return static_cast<std::uint64_t>(t.items_x * t.items_y) <= device.most_items &&
         elements * width + kPlaces <= device.local_memory;
}

// Of cards, the largest first: 8 x 8 results per item have 4 multiply-adds per local read.
constexpr ProductTile kTiles[] = {
    {128, 128, 8, 16, 16}, {128, 64, 16, 16, 16}, {64, 128, 16, 16, 16}, {64, 64, 8, 8, 8},
    {64, 64, 16, 16, 16},  {32, 64, 16, 8, 16},   {64, 32, 16, 16, 8},   {32, 32, 16, 8, 8},
    {32, 32, 16, 16, 16},  {16, 128, 16, 8, 32},  {128, 16, 16, 32, 8},  {32, 128, 16, 8, 32},
    {128, 32, 16, 32, 8},  {16, 16, 32, 16, 16},
};

}  // namespace

ProductTile choose_tile(const OpenClFound& device, DType dtype, const ProductSizes& s) {
  // A processor has one item to a group, which keeps its tile in caches and runs along columns.
  if (!device.gpu)
    return {s.m <= 8 ? 8 : 32, s.n <= 16 ? 16 : 64, dtype == DType::F64 ? 32 : 64, 1, 1};
  if (device.most_items < 256) return {8, 8, 8, 8, 8};
  constexpr std::int64_t kLong = 1024;  // many tiles of 128
  if (s.m <= 32 && s.n >= kLong) return {s.m <= 16 ? 16 : 32, 128, 16, 8, 32};
  if (s.n <= 32 && s.m >= kLong) return {128, s.n <= 16 ? 16 : 32, 16, 32, 8};
  if (s.m <= 16 || s.n <= 16) return {16, 16, 32, 16, 16};
  if (s.m <= 32 || s.n <= 32) return {32, 32, 16, 16, 16};
  constexpr ProductTile kLargest = kTiles[0];
  const std::int64_t groups = cut(s.m, kLargest.rows) * cut(s.n, kLargest.columns) * s.batches;
  if (s.m > 64 && s.n > 64 && groups >= 2L * device.units && dtype != DType::F64 &&
      fits(device, dtype, kLargest))
    return kLargest;
  return {};
}

std::vector<ProductTile> candidate_tiles(const OpenClFound& device, DType dtype,
                                         const ProductSizes& s) {
  std::vector<ProductTile> out;
  if (!device.gpu) return out;
  for (const ProductTile& t : kTiles)
    // At most half of a tile is beyond the result.
    if (fits(device, dtype, t) && t.rows < 2 * std::max<std::int64_t>(s.m, 9) &&
        t.columns < 2 * std::max<std::int64_t>(s.n, 9))
      out.push_back(t);
  return out;
}

namespace {

constexpr std::int64_t kSquare = 32;   // rows and columns of what groups are counted by
constexpr std::int64_t kEnough = 128;  // groups that keep a card busy
constexpr std::int64_t kMostParts = 64;
constexpr std::int64_t kLeastTerms = 256;

}  // namespace

ProductParts choose_parts(const OpenClFound& device, const ProductSizes& s) {
  const std::int64_t groups = cut(s.m, kSquare) * cut(s.n, kSquare) * s.batches;
  if (!device.gpu || groups == 0) return {1, s.k};
  const std::int64_t most = std::min({kEnough / groups, s.k / kLeastTerms, kMostParts});
  if (most < 2) return {1, s.k};
  constexpr std::int64_t kStep = 64;  // whole steps of all tiles
  const std::int64_t length = cut(cut(s.k, most), kStep) * kStep;
  return {cut(s.k, length), length};
}

std::uint64_t bytes_of_parts(const OpenClFound& device, DType dtype, const ProductSizes& bounds) {
  if (!device.gpu || bounds.k < 2 * kLeastTerms) return 0;
  const std::int64_t elements =
      std::min({bounds.m * bounds.n * bounds.batches * std::min(kMostParts, bounds.k / kLeastTerms),
                kEnough * kSquare * kSquare});
  return static_cast<std::uint64_t>(elements) * (dtype == DType::F64 ? 8 : 4);
}

namespace {

void put_constants(std::string& text, const TiledProduct& p) {
  for (const auto& [name, value] : p.constants) put(text, name, std::to_string(value));
}
void add_parts(OpenClText& text) {
  text.args.insert(text.args.end(),
                   {OpenClKind::Memory, OpenClKind::Long, OpenClKind::Int, OpenClKind::Int});
}

}  // namespace

OpenClText tiled_text(const TiledProduct& p, const ProductTile& tile, const OpenClFound& device,
                      bool in_parts) {
  OpenClText out;
  out.name = fmt::format("snug_{}_{}_{}x{}", p.name, name_of(p.dtype), tile.rows, tile.columns);
  out.helpers = p.helpers;
  out.args = p.args;
  if (in_parts) add_parts(out);
  out.args.push_back(OpenClKind::Int);
  out.local = {static_cast<std::uint32_t>(tile.items_x), static_cast<std::uint32_t>(tile.items_y),
               1};
  const bool odd = p.may_not_count;
  const auto fma = [&](const char* a, const char* b) {
    return device.fma ? fmt::format("fma({}, {}, sums[i][j])", a, b)
                      : fmt::format("{} * {} + sums[i][j]", a, b);
  };
  std::string text = kText;
  put(text, "$OF_PARTS", in_parts ? kOfParts : "");
  put(text, "$KEEP", in_parts ? kKeep : "");
  put(text, "$WHICH",
      in_parts ? "  const long z = get_group_id(2) % batches, part = get_group_id(2) / batches;"
               : "  const long z = get_group_id(2);");
  put(text, "$RANGE",
      in_parts ? "  const long from = part * part_length, end = min(from + part_length, K);"
               : "  const long from = 0, end = K;");
  put(text, "$ODD_DECLARED", odd ? "  __local int odd;\n" : "");
  put(text, "$ODD_RESET",
      odd ? "    if (item == 0) odd = 0;\n    barrier(CLK_LOCAL_MEM_FENCE);\n" : "");
  put(text, "$ODD_SEEN", odd ? "      if (!isfinite(value)) atomic_or(&odd, 1);\n" : "");
  put(text, "$ODD_USED", odd ? kOddUsed : "");
  std::string arrays;
  for (const auto& [name, type] : p.of_k)
    arrays += fmt::format("  __local {} {}[$TK];\n", type, name);
  for (const auto& [name, type] : p.of_n)
    arrays += fmt::format("  __local {} {}[$TN];\n", type, name);
  put(text, "$ARRAYS", arrays);
  put(text, "$FILL_N", p.of_n.empty() ? "" : kFillN);
  put(text, "$FILL_K", p.of_k.empty() ? "" : kFillK);
  put(text, "$FIND_N", p.find_n);
  put(text, "$FIND_K", p.find_k);
  put(text, "$COUNTS", odd ? "if (at >= 0)" : "");
  put(text, "$PARAMETERS", p.parameters);
  put(text, "$BEGIN", p.begin);
  put(text, "$FIND_A", p.find_a);
  put(text, "$FIND_B", p.find_b);
  put(text, "$LOAD_A", p.load_a);
  put(text, "$LOAD_B", p.load_b);
  put(text, "$STORE", p.store);
  put(text, "$A_TM", p.a_along_k ? "e / $TK" : "e % $TM");
  put(text, "$A_TK", p.a_along_k ? "e % $TK" : "e / $TM");
  put(text, "$B_TN", p.b_along_k ? "e / $TK" : "e % $TN");
  put(text, "$B_TK", p.b_along_k ? "e % $TK" : "e / $TN");
  put(text, "$FMA_ODD", fma("of_a", "of_b"));
  put(text, "$FMA", fma("a[i]", "b[j]"));
  const std::pair<const char*, int> numbers[] = {{"$TM", tile.rows},
                                                 {"$TN", tile.columns},
                                                 {"$TK", tile.depth},
                                                 {"$IX", tile.items_x},
                                                 {"$IY", tile.items_y},
                                                 {"$ITEMS", tile.items_x * tile.items_y},
                                                 {"$RM", tile.rows / tile.items_y},
                                                 {"$RN", tile.columns / tile.items_x}};
  for (const auto& [name, value] : numbers) put(text, name, std::to_string(value));
  put(text, "$T", opencl_sum_type(p.dtype));
  put_constants(text, p);
  out.body = text;
  return out;
}

OpenClText join_text(const TiledProduct& p) {
  OpenClText out;
  out.name = fmt::format("snug_{}_{}_join", p.name, name_of(p.dtype));
  out.helpers = p.helpers;
  out.args = p.args;
  add_parts(out);
  out.args.push_back(OpenClKind::Int);
  out.local = {kJoinItems, 1, 1};
  std::string text = kJoin;
  put(text, "$OF_PARTS", kOfParts);
  put(text, "$PARAMETERS", p.parameters);
  put(text, "$BEGIN", p.begin);
  put(text, "$STORE", p.store);
  put(text, "$ITEMS", std::to_string(kJoinItems));
  put(text, "$T", opencl_sum_type(p.dtype));
  put_constants(text, p);
  out.body = text;
  return out;
}

}  // namespace snug
