// Rows on an OpenCL device against the reference. All functions of a test are made before the first
// is called, so that their kernels are compiled together.
#include <gtest/gtest.h>

#include "backend/opencl/find_devices.h"
#include "conformance.h"

namespace snug {
namespace {

using namespace testing;

class OpenClConformance : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    static const bool there = !find_opencl_devices().devices.empty();
    if (!there) GTEST_SKIP() << "no OpenCL device";
  }

  void add(std::string what, const std::vector<Expr>& inputs, const Expr& output,
           std::vector<Array> values) {
    cases_.push_back({std::move(what), function(inputs, output, {.device = "opencl:0"}),
                      function(inputs, output, {.mode = Mode::Reference}), std::move(values)});
  }
  void run() {
    ASSERT_FALSE(cases_.empty());
    for (Case& c : cases_)
      compare(c.there.call(c.values)[0], c.reference.call(c.values)[0], c.what);
  }

 private:
  struct Case {
    std::string what;
    Function there, reference;
    std::vector<Array> values;
  };
  std::vector<Case> cases_;
};

TEST_P(OpenClConformance, ElementwiseRows) {
  const DType dtype = GetParam();
  for (const OpDef* op : elementwise_ops()) {
    std::vector<Expr> inputs;
    std::vector<Array> values;
    for (int i = 0; i < op->arity; ++i) {
      const DType t = op->name == "switch" && i == 0 ? DType::Bool : dtype;
      // The last of several stretches along the first axis.
      const bool stretches = i > 0 && i + 1 == op->arity;
      inputs.push_back(tensor(t, 2, fmt::format("x{}", i), stretches ? 1 : 0));
      values.push_back(sample(*op, t, {stretches ? 1 : 7, 37}, 10 + i));
    }
    try {
      add(std::string(op->name), inputs, apply(*op, inputs, sample_attrs(*op)), values);
    } catch (const Error&) {  // the row says which dtypes it takes
    }
  }
  run();
}

TEST_P(OpenClConformance, Reductions) {
  const DType dtype = GetParam();
  using Reduce = Expr (*)(const Expr&, const Axes&);
  const std::pair<const char*, Reduce> reductions[] = {
      {"sum", [](const Expr& x, const Axes& axes) { return sum(x, axes); }},
      {"mean", [](const Expr& x, const Axes& axes) { return mean(x, axes); }},
      {"prod", [](const Expr& x, const Axes& axes) { return prod(x, axes); }},
      {"max", [](const Expr& x, const Axes& axes) { return max(x, axes); }},
      {"min", [](const Expr& x, const Axes& axes) { return min(x, axes); }},
      {"argmax", [](const Expr& x, const Axes& axes) { return argmax(x, axes); }},
      {"any", [](const Expr& x, const Axes& axes) { return any(ne(x, 0), axes); }},
      {"all", [](const Expr& x, const Axes& axes) { return all(ne(x, 0), axes); }},
  };
  const Expr x = tensor(dtype, 3, "x");
  for (const auto& [name, reduce] : reductions)
    for (const std::vector<std::int64_t>& axes : {std::vector<std::int64_t>{0}, {2}, {0, 1, 2}}) {
      if (std::string_view(name) == "argmax" && axes.size() > 1) continue;
      try {
        add(fmt::format("{} over {}", name, fmt::join(axes, ", ")), {x}, reduce(x, axes),
            {sample(*elementwise_ops().front(), dtype, {3, 5, 70}, 4)});
      } catch (const Error&) {  // of this dtype there is none
      }
    }
  run();
}

INSTANTIATE_TEST_SUITE_P(DTypes, OpenClConformance,
                         ::testing::Values(DType::Bool, DType::I8, DType::I32, DType::I64,
                                           DType::F16, DType::F32, DType::F64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace snug
