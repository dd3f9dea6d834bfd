// Every elementwise row x dtypes x shapes: the compiled function against the reference. The op
// table is the test list: adding a row adds its test.
#include "conformance.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

using namespace testing;

constexpr DType kDTypes[] = {DType::Bool, DType::I8,  DType::I32,  DType::I64, DType::U8,
                             DType::U64,  DType::F16, DType::BF16, DType::F32, DType::F64};

class Conformance : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(Conformance, CompiledAgreesWithReference) {
  const OpDef& op = *GetParam();
  bool ran = false;
  for (DType dtype : kDTypes) {
    std::vector<Expr> inputs, row_inputs;
    const Attrs attrs = sample_attrs(op);
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

INSTANTIATE_TEST_SUITE_P(Rows, Conformance, ::testing::ValuesIn(elementwise_ops()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace snug
