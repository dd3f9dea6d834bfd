#include "backend/opencl/tiled_product.h"

#include <fmt/format.h>

#include "backend/opencl/routine_call.h"

namespace snug {
namespace {

constexpr const char* kText = R"(__kernel __attribute__((reqd_work_group_size($IX, $IY, 1)))
void $NAME(const int go, $PARAMETERS const int last) {
  __local $T as[$TK][$TM + 1];
  __local $T bs[$TK][$TN + 1];
$ODD_DECLARED$ARRAYS  if (!go) return;
  const long z = get_group_id(2);
$BEGIN
  const int item = get_local_id(1) * $IX + get_local_id(0);
  const int row = get_local_id(1), column = get_local_id(0);
  const long m0 = (long)get_group_id(1) * $TM, n0 = (long)get_group_id(0) * $TN;
  $T sums[$RM][$RN];
  for (int i = 0; i < $RM; ++i)
    for (int j = 0; j < $RN; ++j) sums[i][j] = 0;
$FILL_N  for (long k0 = 0; k0 < K; k0 += $TK) {
$FILL_K$ODD_RESET    for (int e = item; e < $TM * $TK; e += $ITEMS) {
      const int tm = $A_TM, tk = $A_TK;
      const long m = m0 + tm, k = k0 + tk;
      $T value = 0;
      if (m < M && k < K) {
        $FIND_A
        value = $LOAD_A;
      }
      as[tk][tm] = value;
$ODD_SEEN    }
    for (int e = item; e < $TN * $TK; e += $ITEMS) {
      const int tn = $B_TN, tk = $B_TK;
      const long n = n0 + tn, k = k0 + tk;
      $T value = 0;
      if (n < N && k < K) {
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
      $STORE
    }
}
)";

// Where padding may meet what is no number, the tile is done again element by element.
constexpr const char* kOddUsed = R"(    if (odd) {
      for (long k = k0; k < min(k0 + $TK, K); ++k)
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

ProductTile choose_tile(const OpenClFound& device, DType dtype, std::int64_t m, std::int64_t n) {
  // A processor has one item to a group, which keeps its tile in caches and runs along columns.
  if (!device.gpu) return {m <= 8 ? 8 : 32, n <= 16 ? 16 : 64, dtype == DType::F64 ? 32 : 64, 1, 1};
  if (device.most_items < 256) return {8, 8, 8, 8, 8};
  if (m <= 16 || n <= 16) return {16, 16, 32, 16, 16};
  if (m <= 32 || n <= 32) return {32, 32, 16, 16, 16};
  return {};
}

OpenClText tiled_text(const TiledProduct& p, const ProductTile& tile, const OpenClFound& device) {
  OpenClText out;
  out.name = fmt::format("snug_{}_{}_{}x{}", p.name, name_of(p.dtype), tile.rows, tile.columns);
  out.helpers = p.helpers;
  out.args = p.args;
  out.args.push_back(OpenClKind::Int);
  out.local = {static_cast<std::uint32_t>(tile.items_x), static_cast<std::uint32_t>(tile.items_y),
               1};
  const bool odd = p.may_not_count;
  const auto fma = [&](const char* a, const char* b) {
    return device.fma ? fmt::format("fma({}, {}, sums[i][j])", a, b)
                      : fmt::format("{} * {} + sums[i][j]", a, b);
  };
  std::string text = kText;
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
  out.body = text;
  return out;
}

}  // namespace snug
