#include "place/place.h"

#include <gtest/gtest.h>

#include "graph_text.h"

namespace snug::testing {
namespace {

DeviceInfo cpu() {
  DeviceInfo d;
  d.name = "cpu:0";
  d.bandwidth = 2e10;
  d.flops = 1e11;
  d.launch_latency = 1e-6;
  return d;
}

DeviceInfo gpu() {
  DeviceInfo d;
  d.name = "gpu:0";
  d.kind = DeviceInfo::Kind::Gpu;
  d.bandwidth = 1e12;
  d.flops = 1e13;
  d.launch_latency = 5e-6;
  d.transfer_bandwidth = 1e10;
  d.transfer_latency = 1e-5;
  d.memory_bytes = std::int64_t{8} << 30;
  return d;
}

const Node* find(const Graph& g, std::string_view op) {
  for (const Node& n : g.nodes())
    if (n.op->name == op) return &n;
  return nullptr;
}

TEST(Place, OneDeviceTakesAll) {
  TextGraph t = graph_from("x: float32 (n, m)\nreturn tanh(x)\n");
  PlaceTrace trace;
  Graph g = place(t.graph, {cpu()}, trace);
  EXPECT_EQ(print(g), print(t.graph));
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
    EXPECT_EQ(trace.reason(id), "the only device");
}

TEST(Place, NoDeviceIsAnError) {
  TextGraph t = graph_from("x: float32 (n)\nreturn tanh(x)\n");
  PlaceTrace trace;
  EXPECT_THROW(place(t.graph, {}, trace), Error);
}

TEST(Place, SmallWorkStaysOnTheHost) {
  TextGraph t = graph_from("x: float32 (n, m)\ny: float32 (m, k)\nreturn tanh(dot(x, y))\n");
  PlaceTrace trace;
  Graph g = place(t.graph, {cpu(), gpu()}, trace, {.shapes = {{8, 8}, {8, 8}}});
  EXPECT_EQ(trace.transfers, 0u);
  for (const Node& node : g.nodes()) EXPECT_EQ(node.device, 0);
  std::uint32_t dot = static_cast<std::uint32_t>(find(g, "dot") - g.nodes().data());
  EXPECT_NE(trace.reason(dot).find("cpu:0"), std::string::npos) << trace.reason(dot);
}

TEST(Place, LargeProductsMove) {
  TextGraph t = graph_from("x: float32 (n, m)\ny: float32 (m, k)\nreturn tanh(dot(x, y))\n");
  PlaceTrace trace;
  Graph g = place(t.graph, {cpu(), gpu()}, trace, {.shapes = {{4096, 4096}, {4096, 4096}}});
  verify(g, "place");
  EXPECT_EQ(find(g, "dot")->device, 1);
  EXPECT_EQ(find(g, "tanh")->device, 1);  // it pays to come back once, after the last op
  EXPECT_EQ(trace.transfers, 3u);         // two in, one out
  EXPECT_EQ(g.node(g.outputs()[0]).device, 0);
  std::uint32_t dot = static_cast<std::uint32_t>(find(g, "dot") - g.nodes().data());
  EXPECT_NE(trace.reason(dot).find("less work"), std::string::npos) << trace.reason(dot);
}

TEST(Place, ChainsMoveAsAWholeOrNotAtAll) {
  // Each step alone would not pay for two transfers.
  std::string text = "x: float32 (n, m)\nv0 = tanh(x)\n";
  for (int k = 1; k < 60; ++k) text += fmt::format("v{} = tanh(v{})\n", k, k - 1);
  TextGraph t = graph_from(text + "return v59\n");
  PlaceTrace trace;
  Graph g = place(t.graph, {cpu(), gpu()}, trace, {.shapes = {{2048, 2048}}});
  EXPECT_EQ(trace.transfers, 2u);
  EXPECT_EQ(find(g, "tanh")->device, 1);
  DeviceInfo slow = gpu();
  slow.transfer_bandwidth = 1e7;
  g = place(t.graph, {cpu(), slow}, trace, {.shapes = {{2048, 2048}}});
  EXPECT_EQ(trace.transfers, 0u);
  std::uint32_t tanh = static_cast<std::uint32_t>(find(g, "tanh") - g.nodes().data());
  EXPECT_NE(trace.reason(tanh).find("stays on cpu:0"), std::string::npos) << trace.reason(tanh);
}

TEST(Place, WhatADeviceCannotRunStays) {
  TextGraph t = graph_from("x: float32 (n, m)\ny: float32 (m, k)\nreturn tanh(dot(x, y))\n");
  DeviceInfo d = gpu();
  PlaceHints hints{.shapes = {{4096, 4096}, {4096, 4096}}};
  hints.runs = [](DeviceId, const Graph&, const Node& n) { return n.op->name != "tanh"; };
  PlaceTrace trace;
  Graph g = place(t.graph, {cpu(), d}, trace, hints);
  EXPECT_EQ(find(g, "dot")->device, 1);
  EXPECT_EQ(find(g, "tanh")->device, 0);
  d.memory_bytes = 1024;
  g = place(t.graph, {cpu(), d}, trace, {.shapes = {{4096, 4096}, {4096, 4096}}});
  EXPECT_EQ(find(g, "dot")->device, 0);
}

TEST(Place, SizesCrossFreely) {
  TextGraph t = graph_from(
      "x: float32 (n, m)\ny: float32 (m, k)\nd = dot(x, y)\n"
      "return d * broadcast_to(2.0, shape(d))\n");
  PlaceTrace trace;
  Graph g = place(t.graph, {cpu(), gpu()}, trace, {.shapes = {{4096, 4096}, {4096, 4096}}});
  EXPECT_EQ(find(g, "dot")->device, 1);
  EXPECT_EQ(find(g, "shape")->device, 0);
  verify_placement(g, "test");
}

TEST(Place, TheNumbersStay) {
  TextGraph t =
      graph_from("x: float32 (n, m)\ny: float32 (m, k)\nreturn tanh(dot(x, y)), dot(x, y)\n");
  PlaceTrace trace;
  Graph g = place(t.graph, {cpu(), gpu()}, trace, {.shapes = {{4096, 4096}, {4096, 4096}}});
  EXPECT_GT(trace.transfers, 0u);
  std::mt19937 rng(1);
  std::vector<RefTensor> in{random_tensor(DType::F32, {3, 4}, rng, false),
                            random_tensor(DType::F32, {4, 2}, rng, false)};
  auto a = interpret(t.graph, in), b = interpret(g, in);
  for (std::size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(close(a[k], b[k], 0));
}

TEST(Place, UpdatesGoHome) {
  Expr x = input({DType::F32, {-1, -1}, 0}, "x");
  Ref<SharedVariable> w(new SharedVariable(Recipe{DType::F32, {4096, 4096}}, "w"));
  Expr we{Ref<Variable>(w)};
  Expr y = apply(find_op("dot"), {x, we});
  std::vector<Expr> inputs{x}, outputs{apply(find_op("tanh"), {y})};
  std::vector<std::pair<Expr, Expr>> updates{{we, apply(find_op("dot"), {we, we})}};
  Graph g0 = capture({inputs, outputs, updates, {}, false}).graph;
  PlaceTrace trace;
  Graph g = place(g0, {cpu(), gpu()}, trace, {.shapes = {{4096, 4096}}});
  EXPECT_EQ(g.node(g.inputs()[1].value).device, 1);  // the parameter lives where it is used
  EXPECT_EQ(trace.transfers, 2u);                    // the argument in, the output out
  verify_placement(g, "test");
}

TEST(Place, WhatRebuildsAGraphKeepsItsDevices) {
  Expr x = input({DType::F32, {-1, -1}, 0}, "x");
  Expr w = shared(Array::zeros(DType::F32, {4096, 4096}), "w");
  Expr product = apply(find_op("dot"), {x, w});
  std::vector<Expr> inputs{x}, outputs{apply(find_op("tanh"), {product})};
  const Graph captured = capture({inputs, outputs, {}, {}, false}).graph;
  PlaceTrace trace;
  const Graph placed = place(captured, {cpu(), gpu()}, trace, {.shapes = {{4096, 4096}}});
  ASSERT_EQ(find(placed, "dot")->device, 1);
  std::vector<std::vector<Value>> map;
  Builder b(placed, map);
  for (std::uint32_t id = placed.inputs().size(); id < placed.nodes().size(); ++id)
    b.keep_all(placed, id, map);
  // What is added is where its operand is, and equal nodes of two devices are two.
  const Value on_device = map[placed.inputs()[1].value.node][0];
  const Value here = b.add(find_op("exp"), {on_device}),
              there = b.add_on(0, find_op("exp"), {on_device});
  EXPECT_EQ(b.node(here).device, 1);
  EXPECT_EQ(b.node(there).device, 0);
  EXPECT_NE(here.node, there.node);
  EXPECT_EQ(b.add(find_op("exp"), {on_device}).node, here.node);
  const Graph again = std::move(b).finish_as(placed, map);
  verify_placement(again, "test");
  EXPECT_EQ(again.node(again.inputs()[1].value).device, 1);
  EXPECT_EQ(print(again), print(placed));
}

TEST(Place, WhatFeedsTheHostAloneIsThere) {
  Expr x = input({DType::F32, {-1, -1}, 0}, "x");
  Expr w = shared(Array::zeros(DType::F32, {8, 8}), "w");
  const auto cholesky = [](const Expr& e) {
    return apply(find_op("cholesky"), {e}, {{"lower", true}});
  };
  // A node with a variable of the device is there, and so is what only it reads.
  const Expr here = apply(find_op("tanh"), {apply(find_op("sin"), {x})});
  const Expr there = apply(find_op("cos"), {apply(find_op("exp"), {x})});
  const std::vector<Expr> inputs{x},
      outputs{cholesky(here),
              cholesky(apply(find_op("sqrt"), {apply(find_op("mul"), {there, w})}))};
  const Graph captured = capture({inputs, outputs, {}, {}, false}).graph;
  PlaceTrace trace;
  const Graph placed = place(captured, {cpu(), gpu()}, trace, {.home = DeviceId{1}});
  for (const char* op : {"sin", "tanh", "cholesky"}) EXPECT_EQ(find(placed, op)->device, 0) << op;
  for (const char* op : {"exp", "cos", "mul", "sqrt"}) EXPECT_EQ(find(placed, op)->device, 1) << op;
  EXPECT_EQ(trace.transfers, 2u);  // x goes there, what is factorised comes back
}

TEST(Place, TheCheckerSeesACrossing) {
  TextGraph t = graph_from("x: float32 (n)\nreturn tanh(exp(x))\n");
  std::vector<std::vector<Value>> map;
  Builder b(t.graph, map);
  for (std::uint32_t id = 1; id < t.graph.nodes().size(); ++id) {
    Value v = b.keep(t.graph, id, {{id - 1, 0}});
    if (t.graph.node(id).op->name == "tanh") b.set_device(v.node, 1);
  }
  Graph g = std::move(b).finish({t.graph.outputs()[0]}, {});
  EXPECT_THROW(verify_placement(g, "test"), Error);
}

TEST(HostDevice, KnowsItself) {
  const DeviceInfo& d = host_device();
  EXPECT_EQ(d.name, "cpu:0");
  EXPECT_GE(d.cores, 1);
  EXPECT_GT(d.bandwidth, 1e8);
  EXPECT_GT(d.memory_bytes, std::int64_t{1} << 20);
  EXPECT_FALSE(host_isa().empty());
}

}  // namespace
}  // namespace snug::testing
