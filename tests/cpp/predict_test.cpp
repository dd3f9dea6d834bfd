// Predicted times follow the rates of a device and the shapes of tasks, and nothing else.
#include <gtest/gtest.h>

#include "compile.h"
#include "cost/nodes.h"
#include "cost/tasks.h"
#include "graph/capture.h"
#include "place/place.h"
#include "snug.h"

namespace snug {
namespace {

DeviceInfo device() {
  DeviceInfo d;
  d.cores = 2;
  d.bandwidth = 2e10;
  d.cache_bandwidth = 8e10;
  d.cache_bytes = 2 << 20;
  d.flops = 3e11;
  d.kernel_flops = 1e11;
  d.product_flops = d.conv_flops = 2e11;
  d.filter_flops = 1.5e11;
  d.filter_row_pixels = 100;
  d.depthwise_flops = 4e10;
  d.strided_elements = 5e8;
  d.filter_elements = 1e9;
  d.launch_latency = 2e-7;
  d.parallel_latency = 3e-6;
  d.product_latency = 2e-6;
  return d;
}

/// Predicted seconds of all tasks that compute `output` of inputs with these shapes.
double seconds_of(const std::vector<Expr>& inputs, const std::vector<Dims>& shapes,
                  const Expr& output) {
  const DeviceInfo d = device();
  const std::vector<Expr> outputs{output};
  Captured captured = capture({inputs, outputs, {}, {}, true});
  CompileOptions options;
  options.device = &d;
  CompileTrace trace;
  const std::unique_ptr<Lowered> l = lower(captured.graph, options, trace);
  const SizeTable& table = l->program.graph.sizes();
  std::vector<std::int64_t> symbols;
  for (const Symbol& s : table.symbols()) symbols.push_back(shapes[s.input][s.index]);
  CallKind kind{{}, std::vector<bool>(inputs.size(), false)};
  return instantiate(*l, bound_sizes(table, symbols, symbols), kind, {0}, options, {})
      ->planned->seconds;
}

double product_seconds(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Expr a = matrix(), b = matrix();
  return seconds_of({a, b}, {{m, k}, {k, n}}, dot(a, b));
}

double convolution(std::int64_t from, std::int64_t to, std::int64_t rows) {
  const Expr x = tensor4(), w = tensor4();
  ConvOptions options;
  options.border_mode = "half";
  return seconds_of({x, w}, {{4, from, rows, rows}, {to, from, 3, 3}}, conv2d(x, w, options));
}

double elementwise(std::int64_t n, Expr (*f)(const Expr&)) {
  const Expr x = vector();
  return seconds_of({x}, {{n}}, f(x));
}

TEST(Predict, BandwidthFallsFromCachesToMemory) {
  const DeviceInfo d = device();
  EXPECT_EQ(bandwidth_for(d, 1000), d.cache_bandwidth);
  EXPECT_EQ(bandwidth_for(d, 1e9), d.bandwidth);
  EXPECT_LT(bandwidth_for(d, 1e7), bandwidth_for(d, 5e6));
  DeviceInfo unknown = d;
  unknown.cache_bandwidth = 0;
  EXPECT_EQ(bandwidth_for(unknown, 1000), d.bandwidth);
}

TEST(Predict, SmallProductsRunBelowTheFullRate) {
  const double larger = product_seconds(2048, 2048, 2048);
  EXPECT_NEAR(larger, 2.0 * 2048 * 2048 * 2048 / 2e11, 0.1 * larger);
  const double large = product_seconds(1024, 1024, 1024);
  EXPECT_GT(1024 * product_seconds(1, 1024, 1024), 4 * large);
  EXPECT_GT(product_seconds(64, 64, 64), 2.0 * 64 * 64 * 64 / 2e11 * 2);
  EXPECT_LT(product_seconds(8, 8, 8), 2e-6) << "on one core";
}

TEST(Predict, FewChannelsFillNoVector) {
  const double many = convolution(64, 64, 28);
  EXPECT_GT(64 * convolution(64, 1, 28), 8 * many);
  EXPECT_GT(convolution(1, 64, 28) * 64, 3 * many);
  EXPECT_GT(convolution(512, 512, 1), 512.0 * 512 * 9 / 1e9) << "filters are rearranged";
}

TEST(Predict, GradientsByFiltersOfWideImagesTakeLonger) {
  const auto seconds = [](std::int64_t images, std::int64_t rows, std::int64_t size) {
    const Expr x = tensor4(), w = tensor4(), dy = tensor4();
    ConvOptions options;
    options.border_mode = "half";
    const Expr by_filters = grad(sum(conv2d(x, w, options) * dy), std::vector<Expr>{w})[0];
    const Dims shape{images, 64, rows, rows};
    return seconds_of({x, w, dy}, {shape, {64, 64, size, size}, shape}, by_filters);
  };
  // As many pixels: half the rate at 100 of a row, a third of it at 200.
  EXPECT_NEAR(seconds(1, 200, 3), 1.5 * seconds(4, 100, 3), 0.1 * seconds(1, 200, 3));
  EXPECT_NEAR(seconds(1, 200, 1), seconds(4, 100, 1), 0.02 * seconds(1, 200, 1));
}

TEST(Predict, FunctionsCostMoreThanSums) {
  constexpr std::int64_t kLarge = 1 << 22, kSmall = 1 << 12;
  const auto sum = [](const Expr& x) { return x + x; };
  const auto power = [](const Expr& x) { return pow(x, x); };
  EXPECT_GT(elementwise(kLarge, power), 3 * elementwise(kLarge, sum));
  EXPECT_NEAR(elementwise(kLarge, sum), 8.0 * kLarge / 2e10, 0.1 * elementwise(kLarge, sum));
  EXPECT_LT(elementwise(kSmall, sum), 2e-6);
}

TEST(Predict, OperandsThatLieAcrossCost) {
  const Expr x = matrix(), y = matrix();
  const Dims shape{1000, 1000};
  const double along = seconds_of({x, y}, {shape, shape}, x + y);
  const double across = seconds_of({x, y}, {shape, shape}, x + transpose(y));
  EXPECT_GT(across, along + 0.9e6 / 5e8);
}

}  // namespace
}  // namespace snug
