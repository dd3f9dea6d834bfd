#pragma once
#include <random>
#include <utility>
#include <vector>

#include "graph/capture.h"
#include "ops/functions.h"
#include "reference/interpret_graph.h"

/// Runs expressions by the reference interpreter, for tests of ops and gradients.
namespace snug::testing {

using Givens = std::vector<std::pair<Expr, Array>>;

inline std::vector<Array> run(const std::vector<Expr>& outputs, const Givens& given) {
  std::vector<Expr> inputs;
  for (const auto& [x, value] : given) inputs.push_back(x);
  Captured c = capture({inputs, outputs, {}, {}, false});
  std::vector<RefTensor> values;
  for (std::size_t i = 0; i < c.graph.inputs().size(); ++i)
    values.push_back(RefTensor::from(i < given.size() ? given[i].second
                                                      : c.graph.inputs()[i].shared->get_value()));
  std::vector<Array> out;
  std::vector<RefTensor> results = interpret(c.graph, values);
  for (std::size_t i = 0; i < outputs.size(); ++i) out.push_back(results[i].to_array());
  return out;
}

inline Array run(const Expr& output, const Givens& given = {}) {
  return run(std::vector<Expr>{output}, given)[0];
}

inline std::vector<double> values(const Array& a) {
  std::vector<double> v;
  for (std::int64_t k = 0; k < a.size(); ++k) v.push_back(a.at_double(k));
  return v;
}
inline std::vector<std::int64_t> shape_of(const Array& a) {
  return {a.shape.begin(), a.shape.end()};
}

inline Array random_array(DType dtype, const Dims& shape, unsigned seed, double low = -2,
                          double high = 2) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> d(low, high);
  Array a = Array::empty(dtype, shape);
  for (std::int64_t k = 0; k < a.size(); ++k)
    is_float(dtype) ? a.set_double(k, d(rng))
                    : a.set_int(k, static_cast<std::int64_t>(std::llround(d(rng))));
  return a;
}

/// 0, 1, 2, ... in a shape: the value tells where an element came from.
inline Array counted(const Dims& shape, DType dtype = DType::F64) {
  Array a = Array::empty(dtype, shape);
  for (std::int64_t k = 0; k < a.size(); ++k)
    is_float(dtype) ? a.set_double(k, static_cast<double>(k)) : a.set_int(k, k);
  return a;
}
inline Array ints(const std::vector<std::int64_t>& v) {
  return Array::from(v, {static_cast<std::int64_t>(v.size())});
}

}  // namespace snug::testing
