#include "base/dtype.h"

#include <array>
#include <bit>
#include <cmath>

namespace snug {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kNames = {
    "bool",   "int8",    "int16",    "int32",   "int64",   "uint8",     "uint16",    "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
constexpr std::array<std::string_view, kDTypeCount> kShortNames = {
    "b8",  "i8",  "i16",  "i32", "i64", "u8",  "u16", "u32",
    "u64", "f16", "bf16", "f32", "f64", "c64", "c128"};

DType signed_of_bytes(std::int64_t bytes) {
  return bytes == 1 ? DType::I8 : bytes == 2 ? DType::I16 : bytes == 4 ? DType::I32 : DType::I64;
}

}  // namespace

std::string_view name_of(DType t) { return kNames[static_cast<int>(t)]; }
std::string_view short_name_of(DType t) { return kShortNames[static_cast<int>(t)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kNames[i] == name) return static_cast<DType>(i);
  return std::nullopt;
}

DType to_float(DType t) {
  if (is_continuous(t)) return t;
  return size_of(t) <= 2 ? DType::F32 : DType::F64;
}

DType complex_of(DType t) {
  if (is_complex(t)) return t;
  return size_of(to_float(t)) <= 4 ? DType::C64 : DType::C128;
}

DType upcast(DType a, DType b) {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) return complex_of(upcast(real_of(a), real_of(b)));
  if (a > b) std::swap(a, b);
  if (a == DType::Bool) return b;
  if (is_float(b)) {
    if (is_float(a)) {
      if (a == DType::F16 && b == DType::BF16) return DType::F32;
      return size_of(a) > size_of(b) ? a : b;
    }
    // An integer needs a float with at least twice its bytes (16-bit ones fit float32).
    std::int64_t bytes = size_of(a);
    if (size_of(b) == 2) return bytes == 1 ? b : bytes == 2 ? DType::F32 : DType::F64;
    if (b == DType::F32 && bytes >= 4) return DType::F64;
    return b;
  }
  bool sa = is_signed_int(a), sb = is_signed_int(b);
  if (sa == sb) return size_of(a) >= size_of(b) ? a : b;
  DType s = sa ? a : b, u = sa ? b : a;
  if (size_of(s) > size_of(u)) return s;
  if (u == DType::U64) return DType::F64;
  return signed_of_bytes(2 * size_of(u));
}

float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bfloat(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<std::uint16_t>(bits >> 16);
}

float half_to_float(std::uint16_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  std::uint32_t exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) {
    float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  std::uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | (mantissa << 13));
}

std::uint16_t float_to_half(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | ((magnitude >> 13) & 0x3ff);
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to infinity
  if (magnitude < 0x38800000) {  // subnormal: adding 0.5 lets the hardware round at the last bit
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000);
  }
  std::uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<std::uint16_t>((magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

}  // namespace snug
