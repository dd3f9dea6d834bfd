#pragma once
#include <cstdint>

namespace snug::native {

/// c (m, n) = a (m, k) . b (k, n), or c += a . b. Steps are in elements; rows of b and c are
/// packed.
template <class T>
struct NarrowProduct {
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, c_row = 0;
  bool add = false;
  /// An element of c is a sum over pieces of so many terms, each summed from its first term on: it
  /// depends neither on the other rows and columns nor on the instructions.
  std::int64_t depth = 64;
};

// On one thread, each in a file compiled for its instructions.
void narrow_avx2(const NarrowProduct<float>& p);
void narrow_avx2(const NarrowProduct<double>& p);
void narrow_avx512(const NarrowProduct<float>& p);
void narrow_avx512(const NarrowProduct<double>& p);

}  // namespace snug::native
