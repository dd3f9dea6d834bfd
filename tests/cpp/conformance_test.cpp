// Every elementwise row x dtypes x shapes: the compiled function against the reference. The op
// table is the test list: adding a row adds its test.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "expr/op_def.h"
#include "snug.h"

namespace snug {
namespace {

constexpr DType kDTypes[] = {DType::Bool, DType::I8,  DType::I32,  DType::I64, DType::U8,
                             DType::U64,  DType::F16, DType::BF16, DType::F32, DType::F64};

Array sample(const OpDef& op, DType dtype, const Dims& shape, unsigned seed) {
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

double tolerance(DType t) {
  return t == DType::F64 ? 1e-12 : t == DType::F32 ? 2e-6 : t == DType::F16 ? 2e-3 : 1.6e-2;
}

void compare(const Array& got, const Array& want, const std::string& what) {
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

class Conformance : public testing::TestWithParam<const OpDef*> {};

TEST_P(Conformance, CompiledAgreesWithReference) {
  const OpDef& op = *GetParam();
  bool ran = false;
  for (DType dtype : kDTypes) {
    std::vector<Expr> inputs, row_inputs;
    Attrs attrs;
    if (op.name == "cast") attrs.set("dtype", DType::F32);
    if (op.name == "grad_clip") attrs.set("lower", -1.0), attrs.set("upper", 1.0);
    if (op.name == "grad_scale") attrs.set("multiplier", 2.0);
    for (int i = 0; i < op.arity; ++i) {
      DType t = op.name == "switch" && i == 0 ? DType::Bool : dtype;
      inputs.push_back(tensor(t, 2, fmt::format("x{}", i)));
      row_inputs.push_back(tensor(t, 2, fmt::format("x{}", i), i == 0 ? 0 : 1));
    }
    Expr y, z;
    try {
      y = apply(op, inputs, attrs);
      z = apply(op, row_inputs, attrs);  // the others stretch along axis 0
    } catch (const Error&) {
      continue;  // the row says which dtypes it takes
    }
    ran = true;
    Function fast = function(inputs, y), slow = function(inputs, y, {.mode = Mode::Reference});
    Function fast_row = function(row_inputs, z),
             slow_row = function(row_inputs, z, {.mode = Mode::Reference});
    for (Dims shape : {Dims{0, 3}, Dims{1, 1}, Dims{3, 5}, Dims{7, 37}}) {
      std::vector<Array> values, rows;
      for (int i = 0; i < op.arity; ++i) {
        values.push_back(sample(op, inputs[i].dtype(), shape, 10 + i));
        rows.push_back(i == 0 ? values[0] : sample(op, inputs[i].dtype(), {1, shape[1]}, 20 + i));
      }
      std::string what = fmt::format("{} {} {}", op.name, name_of(dtype), describe_shape(shape));
      compare(fast.call(values)[0], slow.call(values)[0], what);
      compare(fast_row.call(rows)[0], slow_row.call(rows)[0], what + " broadcast");
      // Strided arguments: every second column of a wider array.
      std::vector<Array> strided = values;
      for (Array& a : strided) {
        Array wide = sample(op, a.dtype, {shape[0], 2 * shape[1]}, 30);
        a = wide;
        a.shape = shape;
        a.strides = {2 * shape[1], 2};
      }
      compare(fast.call(strided)[0], slow.call(strided)[0], what + " strided");
    }
  }
  EXPECT_TRUE(ran) << op.name << " takes no dtype at all";
}

std::vector<const OpDef*> elementwise_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops())
    if (has(*op, kElementwise) && !has(*op, kGenerator)) ops.push_back(op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Rows, Conformance, testing::ValuesIn(elementwise_ops()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace snug
