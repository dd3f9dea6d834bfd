#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "expr/op_def.h"
#include "snug.h"

/// What tests of all rows share: samples of their operands, and how results are compared.
namespace snug::testing {

inline Array sample(const OpDef& op, DType dtype, const Dims& shape, unsigned seed) {
  std::mt19937 engine(seed);
  Array a = Array::empty(dtype, shape);
  std::uniform_real_distribution<double> real(op.samples.low, op.samples.high);
  std::int64_t low =
      is_signed_int(dtype) ? op.samples.int_low : std::max<std::int64_t>(op.samples.int_low, 0);
  std::uniform_int_distribution<std::int64_t> whole(low, std::max(low, op.samples.int_high));
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (is_float(dtype))
      a.set_double(i, real(engine));
    else if (dtype == DType::Bool)
      a.set_int(i, whole(engine) & 1);
    else
      a.set_int(i, whole(engine));
  }
  return a;
}

inline double tolerance(DType t) {
  return t == DType::F64 ? 1e-12 : t == DType::F32 ? 2e-6 : t == DType::F16 ? 2e-3 : 1.6e-2;
}

inline void compare(const Array& got, const Array& want, const std::string& what) {
  ASSERT_EQ(got.dtype, want.dtype) << what;
  ASSERT_EQ(got.shape, want.shape) << what;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    if (!is_float(got.dtype)) {
      ASSERT_EQ(got.at_int(i), want.at_int(i)) << what << ", element " << i;
      continue;
    }
    double a = got.at_double(i), b = want.at_double(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::isinf(b)) {
      ASSERT_EQ(a, b) << what << ", element " << i;
      continue;
    }
    ASSERT_NEAR(a, b, tolerance(got.dtype) * (std::abs(b) + 1)) << what << ", element " << i;
  }
}

inline std::vector<const OpDef*> elementwise_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops())
    if (has(*op, kElementwise) && !has(*op, kGenerator)) ops.push_back(op);
  return ops;
}

/// The attributes that a row wants, where it wants any.
inline Attrs sample_attrs(const OpDef& op) {
  Attrs attrs;
  if (op.name == "cast") attrs.set("dtype", DType::F32);
  if (op.name == "grad_clip") attrs.set("lower", -1.0), attrs.set("upper", 1.0);
  if (op.name == "grad_scale") attrs.set("multiplier", 2.0);
  if (op.name == "on_device") attrs.set("device", std::string("cpu"));
  return attrs;
}

}  // namespace snug::testing
