#pragma once
#include <string>

#include "base/array.h"
#include "expr/expr.h"

namespace snug::nn {

/// How many values one output of a layer is made of, and how many outputs one value goes into.
struct Fans {
  double in = 1, out = 1;
};

/// How a parameter starts. All but `value` and `orthogonal` are made when first needed.
struct Initialiser {
  enum class Kind : std::uint8_t { Constant, Uniform, Normal, Orthogonal, Value };
  enum class Scale : std::uint8_t { None, In, Average };  // variance b * b divided by these fans

  Kind kind = Kind::Constant;
  Scale scale = Scale::None;
  double a = 0, b = 1;  // Constant: a. Uniform: low, high. Normal: mean, deviation. Others: gain b
  Array array = {};     // Value

  /// A shared variable of the default float type whose sizes are fixed.
  Expr make(const std::string& name, const Dims& shape, const Fans& fans, std::uint64_t seed) const;
};

/// Glorot: variance gain^2 * 2 / (in + out); He: 2 / in; LeCun: 1 / in.
namespace init {
Initialiser zeros();
Initialiser ones();
Initialiser constant(double value);
Initialiser uniform(double low = -0.05, double high = 0.05);
Initialiser normal(double mean = 0, double deviation = 0.05);
Initialiser glorot_uniform(double gain = 1);
Initialiser glorot_normal(double gain = 1);
Initialiser he_uniform();
Initialiser he_normal();
Initialiser lecun_uniform();
Initialiser lecun_normal();
/// Rows or columns, whichever are fewer, are orthogonal and of length `gain`; axes after the first
/// count as one.
Initialiser orthogonal(double gain = 1);
Initialiser value(const Array& array);
/// One of the above by its name, with its defaults.
Initialiser named(const std::string& name);
}  // namespace init

}  // namespace snug::nn
