#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace snug {

enum class DType : std::uint8_t {
  Bool,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F16,
  BF16,
  F32,
  F64,
  C64,   // a pair of float32: real part, imaginary part
  C128,  // a pair of float64
};
inline constexpr int kDTypeCount = 15;

constexpr bool is_float(DType t) { return t >= DType::F16 && t <= DType::F64; }
constexpr bool is_complex(DType t) { return t >= DType::C64; }
constexpr bool is_continuous(DType t) { return t >= DType::F16; }  // has gradients
constexpr bool is_signed_int(DType t) { return t >= DType::I8 && t <= DType::I64; }
constexpr bool is_unsigned_int(DType t) { return t >= DType::U8 && t <= DType::U64; }
constexpr bool is_int(DType t) { return t >= DType::I8 && t <= DType::U64; }  // bool excluded
constexpr bool is_discrete(DType t) { return t <= DType::U64; }               // bool included

constexpr std::int64_t size_of(DType t) {
  constexpr std::int64_t sizes[kDTypeCount] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return sizes[static_cast<int>(t)];
}

/// The dtype of the parts of a complex number; other dtypes are their own.
constexpr DType real_of(DType t) {
  return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t;
}
/// The complex dtype whose parts hold the values of `t`.
DType complex_of(DType t);

/// NumPy's name: "float32". `bfloat16` is ml_dtypes' name.
std::string_view name_of(DType t);
/// One or two letters and a width, for kernel names: "f32".
std::string_view short_name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);

/// Theano's upcast of two array types: int32 with float32 gives float64, int8 with float32 float32.
DType upcast(DType a, DType b);
/// The float or complex type that holds the results of exp and the like: int8 -> float32, int32 ->
/// float64.
DType to_float(DType t);

// Conversions of the 16-bit formats; round to nearest even.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
float bfloat_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat(float value);

}  // namespace snug
