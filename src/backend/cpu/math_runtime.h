#pragma once
#include <span>
#include <string>

namespace snug {

/// A function that emitted code may call. All have one of two forms:
///   void f(T* out, const T* a, std::uint64_t mask, std::int32_t lanes)
///   void f(T* out, const T* a, const T* b, std::uint64_t mask, std::int32_t lanes)
/// and set out[i] for every bit i of mask. Names: "snug_f32_sin", "snug_f64_fmod" by the C
/// library or base/special.h, and "snug_strict_tanh" (float64, at most 1 ULP).
struct RuntimeSymbol {
  std::string name;
  void* address = nullptr;
};
std::span<const RuntimeSymbol> runtime_symbols();

}  // namespace snug
