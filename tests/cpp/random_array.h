#pragma once
#include <cmath>
#include <random>

#include "base/array.h"

/// Arrays for tests, the same in every run.
namespace snug {

inline Array random_array(const Dims& shape, unsigned seed, double low = -1, double high = 1,
                          DType dtype = DType::F32) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> u(low, high);
  Array a = Array::empty(dtype, shape);
  for (std::int64_t i = 0; i < a.size(); ++i) a.set_double(i, u(engine));
  return a;
}

/// int32 in [0, high].
inline Array random_integers(const Dims& shape, unsigned seed, int high) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> u(0, high);
  Array a = Array::empty(DType::I32, shape);
  for (std::int64_t i = 0; i < a.size(); ++i) a.set_int(i, u(engine));
  return a;
}

}  // namespace snug
