#include "backend/opencl/opencl_helpers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "backend/opencl/opencl_expr.h"
#include "backend/opencl/opencl_functions.h"
#include "base/error.h"
#include "base/philox.h"
#include "kernel/math_constants.h"

namespace snug {

namespace {

constexpr OpenClHelper kHelpers[] = {
    {"philox", R"($PHILOX_CONSTANTS
static uint4 philox(ulong key, ulong counter) {
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
  $T m = $fmod(x, y), d = (x - m) / y;
  if (m != 0 && (y < 0) != (m < 0)) d -= 1;
  if (d == 0) return copysign(($T)0, x / y);
  $T f = floor(d);
  return d - f > ($T)0.5f ? f + 1 : f;
}
)"},
    {"mod", R"(static $T mod_$T($T x, $T y) {
  $T r = $fmod(x, y);
  if (r == 0) return copysign(($T)0, y);
  return (r < 0) != (y < 0) ? r + y : r;
}
)"},
    // Of sums of two floats; what rounding loses of the first goes to the second.
    {"pair_add", R"(static float2 pair_add(float2 x, float2 y) {
  const float sum = x.s0 + y.s0, of_y = sum - x.s0, lost = (x.s0 - (sum - of_y)) + (y.s0 - of_y);
  return (float2)(sum, x.s1 + (lost + y.s1));
}
)"},
    {"pair_mul", R"(static float2 pair_mul(float2 x, float2 y) {
  const float product = x.s0 * y.s0, lost = fma(x.s0, y.s0, -product);
  return (float2)(product, lost + fma(x.s0, y.s1, x.s1 * y.s0));
}
)"},
    // The second one is no number where the first is none.
    {"pair_value", R"(static float pair_value(float2 x) {
  return isfinite(x.s1) ? x.s0 + x.s1 : x.s0;
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
  return as_float((uint)$bfloat(x) << 16);
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
  return x >= ($T)0x1p63f && x < ($T)0x1p64f ? (ulong)x : (ulong)$to_long(x);
}
)"},
};

std::string philox_constants() {
  return fmt::format(
      "#define ROUNDS {}\n#define MUL0 {:#x}u\n#define MUL1 {:#x}u\n#define KEY0 {:#x}u\n"
      "#define KEY1 {:#x}u",
      kPhiloxRounds, kPhiloxMul0, kPhiloxMul1, kPhiloxKey0, kPhiloxKey1);
}

std::string erf_of_piece() {
  std::string out;
  for (const auto& power : math::kErfOfPiece) {
    out += out.empty() ? "{" : ",\n    {";
    for (const float c : power) out += opencl_literal(DType::F32, {c, 0}) + ", ";
    out.replace(out.size() - 2, 2, "}");
  }
  return out;
}

/// Fills in the text of a function.
class Text {
 public:
  Text(OpenClHelpers& helpers, DType t) : helpers_(helpers), type_(t) {}

  /// Calls are as deep as the deepest function that is called, and one.
  int depth() const { return depth_; }

  std::string fill(std::string_view text) {
    std::string out;
    while (!text.empty()) {
      const std::size_t at = text.find('$');
      out += text.substr(0, at);
      if (at == std::string_view::npos) break;
      text.remove_prefix(at + 1);
      out += value(text);
    }
    return out;
  }

  int add(std::string_view name, std::string& full) {
    const OpenClHelper* found = find_opencl_function(name);
    for (const OpenClHelper& h : kHelpers)
      if (h.name == name) found = &h;
    if (!found) internal_error(__FILE__, fmt::format("no helper {}", name));
    const std::string_view text =
        type_ == DType::F64 && found->of_float64 ? found->of_float64 : found->text;
    full = name;
    if (text.find("$T") != std::string_view::npos) full += "_" + opencl_type(type_);
    std::string filled = fill(text);
    helpers_[fmt::format("{:02} {}", depth_, full)] = std::move(filled);
    return depth_;
  }

 private:
  /// What stands behind a $, which is taken from the text.
  std::string value(std::string_view& text) {
    if (text[0] == '(') return number(bracket(text));
    std::size_t length = 1;
    while (length < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[length])) || text[length] == '_'))
      ++length;
    const std::string_view name = text.substr(0, length);
    text.remove_prefix(length);
    if (name == "T") return opencl_type(type_);
    if (name == "U") return type_ == DType::F64 ? "ulong" : "uint";
    if (name == "I") return type_ == DType::F64 ? "long" : "int";
    if (name == "W") return opencl_wide_type(type_);
    if (name == "PHILOX_CONSTANTS") return philox_constants();
    if (name == "ERF_OF_PIECE") return erf_of_piece();
    if (name == "P") return polynomial(bracket(text));
    if (text.starts_with('(')) return called(name);
    const math::Pair* constant = find_math_constant(name);
    if (!constant) internal_error(__FILE__, fmt::format("no constant {}", name));
    return literal(*constant);
  }

  /// The text in the bracket that begins here.
  static std::string_view bracket(std::string_view& text) {
    const std::size_t end = text.find(')');
    const std::string_view inside = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return inside;
  }

  std::string literal(double value) const {
    const std::string text = opencl_literal(type_, {value, 0});
    return value < 0 ? "(" + text + ")" : text;
  }
  std::string literal(const math::Pair& p) const {
    return literal(type_ == DType::F64 ? p.f64 : p.f32);
  }

  /// "1.5", or "1, 2"; what has no point is an integer.
  std::string number(std::string_view text) const {
    const std::size_t comma = text.find(", ");
    const std::string chosen(comma == std::string_view::npos ? text
                             : type_ == DType::F64           ? text.substr(comma + 2)
                                                             : text.substr(0, comma));
    const bool whole =
        chosen.find_first_of(chosen.starts_with("0x") ? "p" : ".e") == std::string::npos;
    return whole ? chosen : literal(std::strtod(chosen.c_str(), nullptr));
  }

  /// "sine, z"
  std::string polynomial(std::string_view text) const {
    const std::size_t comma = text.find(", ");
    const math::Polynomial* p = find_math_polynomial(text.substr(0, comma));
    if (!p) internal_error(__FILE__, fmt::format("no polynomial {}", text));
    const auto& coefficients = type_ == DType::F64 ? p->f64 : p->f32;
    const double* c = coefficients.end();
    std::string out = literal(*--c);
    while (c != coefficients.begin())
      out = fmt::format("fma({}, {}, {})", out, text.substr(comma + 2), literal(*--c));
    return out;
  }

  std::string called(std::string_view name) {
    std::string full;
    Text inner(helpers_, type_);
    depth_ = std::max(depth_, inner.add(name, full) + 1);
    return full;
  }

  OpenClHelpers& helpers_;
  DType type_;
  int depth_ = 0;
};

}  // namespace

std::string add_helper(OpenClHelpers& helpers, std::string_view name, DType t) {
  std::string full;
  Text(helpers, t).add(name, full);
  return full;
}

}  // namespace snug
