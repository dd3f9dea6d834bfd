#include "backend/opencl/opencl_helpers.h"

#include "base/error.h"
#include "base/philox.h"

namespace snug {

namespace {

struct Helper {
  const char* name;
  const char* text;
};

constexpr Helper kHelpers[] = {
    {"philox", R"(static uint4 philox(ulong key, ulong counter) {
  uint k0 = (uint)key, k1 = (uint)(key >> 32);
  uint4 c = (uint4)((uint)counter, (uint)(counter >> 32), 0, 0);
  for (int round = 0; round < ROUNDS; ++round) {
    uint high0 = mul_hi(MUL0, c.s0), low0 = MUL0 * c.s0;
    uint high1 = mul_hi(MUL1, c.s2), low1 = MUL1 * c.s2;
    c = (uint4)(high1 ^ c.s1 ^ k0, low1, high0 ^ c.s3 ^ k1, low0);
    k0 += KEY0;
    k1 += KEY1;
  }
  return c;
}
)"},
    {"floor_div", R"(static $T floor_div_$T($T x, $T y) {
  if (y == 0) return x / y;
  $T m = fmod(x, y), d = (x - m) / y;
  if (m != 0 && (y < 0) != (m < 0)) d -= 1;
  if (d == 0) return copysign(($T)0, x / y);
  $T f = floor(d);
  return d - f > ($T)0.5f ? f + 1 : f;
}
)"},
    {"mod", R"(static $T mod_$T($T x, $T y) {
  $T r = fmod(x, y);
  if (r == 0) return copysign(($T)0, y);
  return (r < 0) != (y < 0) ? r + y : r;
}
)"},
    {"sigmoid", R"(static $T sigmoid_$T($T x) {
  $T e = exp(-fabs(x));
  return x >= 0 ? 1 / (1 + e) : x < 0 ? e / (1 + e) : x;
}
)"},
    {"softplus", R"(static $T softplus_$T($T x) {
  return isnan(x) ? x : fmax(x, ($T)0) + log1p(exp(-fabs(x)));
}
)"},
    // By squaring. Negative exponents give 0, but for bases 1 and -1.
    {"int_pow", R"(static $T int_pow_$T($T base, $T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base != ($T)-1 ? 0 : exponent & 1 ? -1 : 1;
  $W result = 1, x = ($W)base;
  for ($W n = ($W)exponent; n; n >>= 1, x *= x)
    if (n & 1) result *= x;
  return ($T)result;
}
)"},
    // Adding 0.5 rounds subnormal halves at their last bit.
    {"round_half", R"(static float round_half(float x) {
  uint bits = as_uint(x), magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return x;
  if (magnitude >= 0x477ff000) return copysign(INFINITY, x);
  if (magnitude < 0x38800000) return copysign((fabs(x) + 0.5f) - 0.5f, x);
  return as_float((bits + 0xfff + ((bits >> 13) & 1)) & 0xffffe000);
}
)"},
    {"bfloat", R"(static ushort bfloat(float x) {
  uint bits = as_uint(x);
  if (isnan(x)) return (ushort)((bits >> 16) | 0x40);
  return (ushort)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
)"},
    {"round_bfloat", R"(static float round_bfloat(float x) {
  return as_float((uint)bfloat(x) << 16);
}
)"},
    // By a number that is known before (divisor_of); a shift below 0 means that n may be too large.
    {"divided", R"(static long divided(long n, long by, uint factor, int shift) {
  return shift < 0 ? n / by : (long)((mul_hi((uint)n, factor) + (uint)n) >> shift);
}
)"},
    {"to_int", R"(static int to_int_$T($T x) {
  return x >= ($T)-0x1p31f && x < ($T)0x1p31f ? (int)x : INT_MIN;
}
)"},
    {"to_long", R"(static long to_long_$T($T x) {
  return x >= ($T)-0x1p63f && x < ($T)0x1p63f ? (long)x : LONG_MIN;
}
)"},
    {"to_ulong", R"(static ulong to_ulong_$T($T x) {
  return x >= ($T)0x1p63f && x < ($T)0x1p64f ? (ulong)x : (ulong)to_long_$T(x);
}
)"},
};

}  // namespace

std::string opencl_helper(const std::string& name) {
  for (const Helper& h : kHelpers) {
    if (h.name != name) continue;
    std::string constants;
    if (name == "philox")
      constants = fmt::format(
          "#define ROUNDS {}\n#define MUL0 {:#x}u\n#define MUL1 {:#x}u\n#define KEY0 {:#x}u\n"
          "#define KEY1 {:#x}u\n",
          kPhiloxRounds, kPhiloxMul0, kPhiloxMul1, kPhiloxKey0, kPhiloxKey1);
    return constants + h.text;
  }
  internal_error(__FILE__, fmt::format("no helper {}", name));
}

}  // namespace snug
