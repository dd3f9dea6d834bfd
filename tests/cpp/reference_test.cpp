#include <gtest/gtest.h>

#include "graph_text.h"
#include "ops/functions.h"

namespace snug::testing {
namespace {

const double kInf = std::numeric_limits<double>::infinity();

RefTensor floats(std::vector<double> values, Dims shape, DType dtype = DType::F32) {
  RefTensor t = RefTensor::zeros(dtype, shape);
  t.f = std::move(values);
  return t;
}
RefTensor ints(std::vector<std::int64_t> values, Dims shape, DType dtype = DType::I64) {
  RefTensor t = RefTensor::zeros(dtype, shape);
  t.i = std::move(values);
  return t;
}
RefTensor run(const std::string& text, std::vector<RefTensor> inputs) {
  return interpret(graph_from(text).graph, inputs)[0];
}

TEST(Reference, BroadcastsByType) {
  RefTensor y = run("x: float32 (n, 1)\ny: float32 (1, m)\nreturn x * y\n",
                    {floats({1, 2}, {2, 1}), floats({3, 4, 5}, {1, 3})});
  EXPECT_EQ(y.shape, (Dims{2, 3}));
  EXPECT_EQ(y.f, (std::vector<double>{3, 4, 5, 6, 8, 10}));
}

TEST(Reference, IntegersWrap) {
  RefTensor y = run("x: int8 (n)\nreturn x + 100, x * x\n", {ints({100, -100}, {2}, DType::I8)});
  EXPECT_EQ(y.i, (std::vector<std::int64_t>{-56, 0}));
}

TEST(Reference, EmptyArrays) {
  EXPECT_EQ(run("x: float32 (n, m)\nreturn tanh(x)\n", {floats({}, {0, 3})}).shape, (Dims{0, 3}));
  RefTensor s = run("x: float32 (n, m)\nreturn sum(x, axis=[0])\n", {floats({}, {0, 2})});
  EXPECT_EQ(s.f, (std::vector<double>{0, 0}));
  EXPECT_EQ(run("x: float32 (n)\nreturn prod(x, axis=[0])\n", {floats({}, {0})}).f[0], 1);
}

TEST(Reference, Reductions) {
  RefTensor x = floats({1, 5, -2, 5, 0, 7}, {2, 3});
  EXPECT_EQ(run("x: float32 (n, m)\nreturn sum(x, axis=[1])\n", {x}).f,
            (std::vector<double>{4, 12}));
  EXPECT_EQ(run("x: float32 (n, m)\nreturn max(x, axis=[0])\n", {x}).f,
            (std::vector<double>{5, 5, 7}));
  EXPECT_EQ(run("x: float32 (n, m)\nreturn min(x, axis=[0, 1])\n", {x}).f[0], -2);
  EXPECT_EQ(run("x: float32 (n, m)\nreturn argmax(x, axis=[0, 1])\n", {x}).i[0], 5);
  EXPECT_EQ(run("x: float32 (n, m)\nreturn argmin(x, axis=[1])\n", {x}).i,
            (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(run("x: float32 (n, m)\nreturn any(gt(x, 6.0), axis=[1])\n", {x}).i,
            (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(run("x: float32 (n, m)\nreturn all(gt(x, -1.0), axis=[1])\n", {x}).i,
            (std::vector<std::int64_t>{0, 1}));
}

TEST(Reference, ReductionsPassNanOn) {
  RefTensor x = floats({1, std::nan(""), kInf}, {3});
  EXPECT_TRUE(std::isnan(run("x: float32 (n)\nreturn max(x, axis=[0])\n", {x}).f[0]));
  EXPECT_EQ(run("x: float32 (n)\nreturn argmax(x, axis=[0])\n", {x}).i[0], 1);
}

TEST(Reference, AccumulatorsWrapAsTheirDtype) {
  RefTensor x = ints({200, 100}, {2}, DType::U8);
  EXPECT_EQ(run("x: uint8 (n)\nreturn sum(x, axis=[0])\n", {x}).i[0], 44);
  EXPECT_EQ(run("x: uint8 (n)\nreturn sum(x, uint64, axis=[0])\n", {x}).i[0], 300);
}

TEST(Reference, ShapeErrorsComeFirstAndShowTheShapes) {
  Graph g = graph_from("x: float32 (n, m)\ny: float32 (m, k)\nreturn dot(x, y)\n").graph;
  try {
    interpret(g, {RefTensor::zeros(DType::F32, {32, 10}), RefTensor::zeros(DType::F32, {4, 10})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Shape);
    EXPECT_NE(e.message().find("(32, 10) and (4, 10)"), std::string::npos) << e.message();
  }
}

TEST(Reference, WrongInputs) {
  Graph g = graph_from("x: float32 (n, 1)\nreturn tanh(x)\n").graph;
  EXPECT_THROW(interpret(g, {}), Error);
  EXPECT_THROW(interpret(g, {floats({1}, {1, 1}, DType::F64)}), Error);
  EXPECT_THROW(interpret(g, {floats({1}, {1})}), Error);
  EXPECT_THROW(interpret(g, {floats({1, 2}, {1, 2})}), Error);
}

TEST(Reference, SizesDecidedByValues) {
  Expr x = fvector("x"), n = lscalar("n");
  std::vector<Expr> picked = nonzero(x);
  std::vector<Expr> inputs{x, n}, outputs{picked[0] + 1, arange(n), arange(sum(picked[0]))};
  auto y = interpret(capture({inputs, outputs, {}, {}, false}).graph,
                     {floats({0, 2, 0, 3}, {4}), ints({3}, {})});
  EXPECT_EQ(y[0].i, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(y[1].i, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(y[2].i, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(Reference, ErrorsOfNodesHaveTheirOrigin) {
  Expr x = fvector("x"), i = lvector("i");
  std::vector<Expr> inputs{x, i}, outputs{subtensor(x, {IndexItem(i)})};
  Graph g = capture({inputs, outputs, {}, {}, false}).graph;
  try {
    interpret(g, {floats({1, 2}, {2}), ints({5}, {1})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Index);
    EXPECT_NE(describe(e.origin()).find("reference_test.cpp"), std::string::npos) << e.what();
  }
}

TEST(Reference, LoopsCarryStatesAndStackOutputs) {
  Expr x = dmatrix("x"), s = dvector("s"), scale = dscalar("scale");
  LoopResult r = loop(
      [&](const Expr& k, const std::vector<Expr>& e, const std::vector<Expr>& state) {
        Expr next = state[0] + e[0] * scale;
        return LoopStep{{next}, {next * cast(k, DType::F64)}};
      },
      {x}, {s});
  std::vector<Expr> inputs{x, s, scale}, outputs{r.states[0], r.outputs[0]};
  Graph g = capture({inputs, outputs, {}, {}, false}).graph;
  auto y = interpret(g, {floats({1, 2, 3, 4}, {2, 2}, DType::F64),
                         floats({10, 20}, {2}, DType::F64), floats({2}, {}, DType::F64)});
  EXPECT_EQ(y[0].f, (std::vector<double>{18, 32}));
  EXPECT_EQ(y[1].f, (std::vector<double>{0, 0, 18, 32}));
  y = interpret(g, {floats({}, {0, 2}, DType::F64), floats({10, 20}, {2}, DType::F64),
                    floats({2}, {}, DType::F64)});
  EXPECT_EQ(y[0].f, (std::vector<double>{10, 20}));
  EXPECT_EQ(y[1].shape, (Dims{0, 2}));
}

TEST(Reference, UpdatesComeAfterOutputs) {
  Ref<SharedVariable> w(new SharedVariable(Array::scalar(2.0), "w"));
  Expr we{Ref<Variable>(w)}, x = dscalar("x");
  std::vector<Expr> inputs{x}, outputs{x * we};
  std::vector<std::pair<Expr, Expr>> updates{{we, we + x}};
  auto y = interpret(capture({inputs, outputs, updates, {}, false}).graph,
                     {floats({3}, {}, DType::F64), floats({2}, {}, DType::F64)});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].f[0], 6);
  EXPECT_EQ(y[1].f[0], 5);
}

TEST(Reference, ShowsEachNode) {
  std::size_t nodes = 0;
  InterpretOptions options;
  options.on_node = [&](std::uint32_t, std::span<const RefTensor> y) {
    ++nodes;
    EXPECT_EQ(y.size(), 1u);
  };
  interpret(graph_from("x: float32 (n)\nreturn tanh(exp(x))\n").graph, {floats({1}, {1})}, options);
  EXPECT_EQ(nodes, 2u);
}

}  // namespace
}  // namespace snug::testing
