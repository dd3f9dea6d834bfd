#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"

namespace snug {

// Storage types that C++ has no arithmetic for.
struct Bool {
  std::uint8_t value;
};
struct Half {
  std::uint16_t bits;
};
struct BFloat {
  std::uint16_t bits;
};

/// The arithmetic of a dtype: `Acc` holds sums and products. Integers wrap around (in unsigned
/// types, where that is defined), bool adds by or and multiplies by and, 16-bit floats compute in
/// float.
template <class T>
struct Element {
  using Acc = std::conditional_t<std::is_floating_point_v<T>, T,
                                 std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;
  static Acc load(T x) { return static_cast<Acc>(x); }
  static T store(Acc x) { return static_cast<T>(x); }
  static Acc add(Acc a, Acc b) { return a + b; }
  static Acc mul(Acc a, Acc b) { return a * b; }
};
template <>
struct Element<Bool> {
  using Acc = std::uint8_t;
  static Acc load(Bool x) { return x.value != 0; }
  static Bool store(Acc x) { return {x}; }
  static Acc add(Acc a, Acc b) { return a | b; }
  static Acc mul(Acc a, Acc b) { return a & b; }
};
template <>
struct Element<Half> {
  using Acc = float;
  static Acc load(Half x) { return half_to_float(x.bits); }
  static Half store(Acc x) { return {float_to_half(x)}; }
  static Acc add(Acc a, Acc b) { return a + b; }
  static Acc mul(Acc a, Acc b) { return a * b; }
};
template <>
struct Element<BFloat> {
  using Acc = float;
  static Acc load(BFloat x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
  static BFloat store(Acc x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    if (x != x) return {static_cast<std::uint16_t>(u >> 16 | 0x40)};
    return {static_cast<std::uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16)};
  }
  static Acc add(Acc a, Acc b) { return a + b; }
  static Acc mul(Acc a, Acc b) { return a * b; }
};

/// Calls f(T{}) with the storage type of a dtype.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Bool: return f(Bool{});
    case DType::I8: return f(std::int8_t{});
    case DType::I16: return f(std::int16_t{});
    case DType::I32: return f(std::int32_t{});
    case DType::I64: return f(std::int64_t{});
    case DType::U8: return f(std::uint8_t{});
    case DType::U16: return f(std::uint16_t{});
    case DType::U32: return f(std::uint32_t{});
    case DType::U64: return f(std::uint64_t{});
    case DType::F16: return f(Half{});
    case DType::BF16: return f(BFloat{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    case DType::C64:
    case DType::C128: break;  // graphs have none
  }
  internal_error("visit", "unknown dtype");
}

/// Calls f(T{}) with an unsigned type of that many bytes, for routines that only move elements.
template <class F>
decltype(auto) visit_bytes(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    case 8: return f(std::uint64_t{});
  }
  internal_error("visit_bytes", fmt::format("no element type of {} bytes", bytes));
}

}  // namespace snug
