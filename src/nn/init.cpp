#include "nn/init.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/functions.h"

namespace snug::nn {
namespace {

using Kind = Initialiser::Kind;
using Scale = Initialiser::Scale;

/// A vector of `n` numbers without its parts along the `before` ones; false if nothing is left.
bool make_orthogonal(double* row, const double* before, std::int64_t count, std::int64_t n) {
  for (int pass = 0; pass < 2; ++pass)  // the second takes out what rounding left
    for (std::int64_t k = 0; k < count; ++k) {
      double along = 0;
      for (std::int64_t i = 0; i < n; ++i) along += row[i] * before[k * n + i];
      for (std::int64_t i = 0; i < n; ++i) row[i] -= along * before[k * n + i];
    }
  double length = 0;
  for (std::int64_t i = 0; i < n; ++i) length += row[i] * row[i];
  length = std::sqrt(length);
  for (std::int64_t i = 0; i < n; ++i) row[i] /= length;
  return length > 1e-12;
}

Array orthogonal_array(const std::string& name, const Dims& shape, double gain, DType dtype,
                       std::uint64_t seed) {
  if (shape.size() < 2)
    fail(Fault::Value,
         fmt::format("orthogonal: {} has {} dimensions, at least 2 are needed", name, shape.size()),
         "give a vector another initialiser");
  const std::int64_t rows = shape[0], columns = product(shape) / std::max<std::int64_t>(rows, 1);
  const std::int64_t count = std::min(rows, columns), n = std::max(rows, columns);
  Array vectors = Recipe{DType::F64, {count, n}, Recipe::Kind::Normal, 0, 1, seed}.make();
  double* v = vectors.typed<double>();
  for (std::int64_t k = 0; k < count; ++k)
    if (!make_orthogonal(v + k * n, v, k, n))
      internal_error("orthogonal", "random vectors are dependent");
  Array out = Array::empty(dtype, shape);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      out.set_double(r * columns + c, gain * (rows <= columns ? v[r * n + c] : v[c * n + r]));
  return out;
}

Recipe recipe_of(const Initialiser& i, const Dims& shape, const Fans& fans, std::uint64_t seed) {
  Recipe r{default_float(), shape, Recipe::Kind::Constant, i.a, i.b, seed};
  if (i.kind == Kind::Constant) return r;
  r.kind = i.kind == Kind::Uniform ? Recipe::Kind::Uniform : Recipe::Kind::Normal;
  if (i.scale == Scale::None) return r;
  const double fan = i.scale == Scale::In ? fans.in : (fans.in + fans.out) / 2;
  const double deviation = i.b / std::sqrt(std::max(fan, 1.0));
  r.b = i.kind == Kind::Uniform ? std::sqrt(3.0) * deviation : deviation;
  r.a = i.kind == Kind::Uniform ? -r.b : 0;
  return r;
}

}  // namespace

Expr Initialiser::make(const std::string& name, const Dims& shape, const Fans& fans,
                       std::uint64_t seed) const {
  Expr variable;
  if (kind == Kind::Value) {
    if (!(array.shape == shape))
      fail(Fault::Shape, fmt::format("{}: the value given has the shape {}, the parameter {}", name,
                                     describe_shape(array.shape), describe_shape(shape)));
    variable = shared(array.to(default_float()), name);
  } else if (kind == Kind::Orthogonal) {
    variable = shared(orthogonal_array(name, shape, b, default_float(), seed), name);
  } else {
    variable = shared(recipe_of(*this, shape, fans, seed), name);
  }
  variable->type.shape = shape;
  return variable;
}

namespace init {

Initialiser zeros() { return constant(0); }
Initialiser ones() { return constant(1); }
Initialiser constant(double value) { return {Kind::Constant, Scale::None, value}; }
Initialiser uniform(double low, double high) { return {Kind::Uniform, Scale::None, low, high}; }
Initialiser normal(double mean, double deviation) {
  return {Kind::Normal, Scale::None, mean, deviation};
}
Initialiser glorot_uniform(double gain) { return {Kind::Uniform, Scale::Average, 0, gain}; }
Initialiser glorot_normal(double gain) { return {Kind::Normal, Scale::Average, 0, gain}; }
Initialiser he_uniform() { return {Kind::Uniform, Scale::In, 0, std::sqrt(2.0)}; }
Initialiser he_normal() { return {Kind::Normal, Scale::In, 0, std::sqrt(2.0)}; }
Initialiser lecun_uniform() { return {Kind::Uniform, Scale::In}; }
Initialiser lecun_normal() { return {Kind::Normal, Scale::In}; }
Initialiser orthogonal(double gain) { return {Kind::Orthogonal, Scale::None, 0, gain}; }
Initialiser value(const Array& array) { return {Kind::Value, Scale::None, 0, 1, array}; }

Initialiser named(const std::string& name) {
  const std::pair<const char*, Initialiser> kAll[] = {
      {"zeros", zeros()},
      {"ones", ones()},
      {"uniform", uniform()},
      {"normal", normal()},
      {"glorot_uniform", glorot_uniform()},
      {"glorot_normal", glorot_normal()},
      {"he_uniform", he_uniform()},
      {"he_normal", he_normal()},
      {"lecun_uniform", lecun_uniform()},
      {"lecun_normal", lecun_normal()},
      {"orthogonal", orthogonal()},
  };
  std::vector<std::string> known;
  for (const auto& [known_name, initialiser] : kAll) {
    if (known_name == name) return initialiser;
    known.push_back(known_name);
  }
  const std::string near = nearest(name, known);
  fail(Fault::Value, fmt::format("there is no initialiser '{}'", name),
       near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                    : fmt::format("did you mean '{}'?", near));
}

}  // namespace init
}  // namespace snug::nn
