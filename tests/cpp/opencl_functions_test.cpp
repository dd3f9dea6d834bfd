// Functions whose nodes are on an OpenCL device as far as they can be: the same numbers as on the
// host, memory as planned, and what goes over the bus.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/devices.h"
#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_context.h"
#include "backend/opencl/opencl_device.h"
#include "compile.h"
#include "error_of.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using testing::error_of;

/// The device taken for a card, on which functions are as far as they can be: products in the tiles
/// of cards, rows by groups.
class AsCard {
 public:
  explicit AsCard(const OpenClFound& device) {
    OpenClFound found = device;
    found.gpu = true;
    found.name = "card:0";
    set_devices(host_and({std::make_shared<OpenClDevice>(found)}),
                [](std::uint32_t, const Node&) { return DeviceId{1}; });
  }
  ~AsCard() { set_devices(nullptr); }
};

class OpenClFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    static const bool there = !find_opencl_devices().devices.empty();
    if (!there) GTEST_SKIP() << "no OpenCL device";
  }
  static OpenClDevice& device() {
    return dynamic_cast<OpenClDevice&>(host_and_named("opencl:0")->accelerator(1));
  }

  /// The same function on the host and on the device, on the same arguments.
  static void expect_same(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                          const std::vector<Array>& arguments, double tolerance = 2e-5) {
    const std::vector<Array> host = function(inputs, outputs).call(arguments);
    expect_close(host, function(inputs, outputs, {.device = "opencl:0"}).call(arguments),
                 tolerance);
    const AsCard card(device().found());
    expect_close(host, function(inputs, outputs).call(arguments), tolerance);
  }

  static void expect_close(const std::vector<Array>& host, const std::vector<Array>& got,
                           double tolerance) {
    for (std::size_t k = 0; k < host.size(); ++k) {
      ASSERT_EQ(host[k].shape, got[k].shape);
      double largest = 1e-30;
      for (std::int64_t i = 0; i < host[k].size(); ++i)
        if (std::isfinite(host[k].at_double(i)))
          largest = std::max(largest, std::abs(host[k].at_double(i)));
      for (std::int64_t i = 0; i < host[k].size(); ++i) {
        const double a = host[k].at_double(i), b = got[k].at_double(i);
        if (std::isnan(a) && std::isnan(b)) continue;
        ASSERT_NEAR(a, b, tolerance * largest) << "output " << k << " element " << i;
      }
    }
  }
};

/// A training step of a small network with dropout, labels and updates.
struct Step {
  Expr x = matrix("x"), y = ivector("y");
  Expr w = shared(random_array({12, 9}, 1), "w"), b = shared(random_array({9}, 2), "b"),
       v = shared(random_array({9, 4}, 3), "v");
  RandomStream stream{7};
  std::optional<Function> train;

  explicit Step(const std::string& device, const std::string& memory = {}) {
    const Expr h = dropout(tanh(dot(x, w) + b), 0.25, stream);
    const Expr loss = mean(categorical_crossentropy(softmax(dot(h, v)), y));
    const auto g = grad(loss, w, b, v);
    train.emplace(
        function({x, y}, loss,
                 {.updates = {{w, w - 0.1f * g[0]}, {b, b - 0.1f * g[1]}, {v, v - 0.1f * g[2]}},
                  .memory = memory,
                  .device = device}));
  }
  float run(std::int64_t rows) {
    Array labels = Array::zeros(DType::I32, {rows});
    for (std::int64_t k = 0; k < rows; ++k) labels.set_int(k, (k * 7 + 3) % 4);
    return (*train)(random_array({rows, 12}, 10), labels).item<float>();
  }
};

TEST_F(OpenClFunctions, ATrainingStep) {
  Step host("cpu"), there("opencl:0");
  for (const std::int64_t rows : {64, 64, 13, 1, 64})
    EXPECT_NEAR(host.run(rows), there.run(rows), 1e-5);
  for (const auto& [a, b] : {std::pair(host.w, there.w), {host.b, there.b}, {host.v, there.v}}) {
    const Array here = as_shared(a)->get_value(), other = as_shared(b)->get_value();
    for (std::int64_t k = 0; k < here.size(); ++k)
      EXPECT_NEAR(here.at_double(k), other.at_double(k), 1e-5);
  }
}

TEST_F(OpenClFunctions, ProductsOfAllLayouts) {
  Expr a = matrix("a"), b = matrix("b");
  for (const auto& [m, k, n] : {std::tuple(5, 7, 3), {65, 33, 130}, {1, 100, 70}, {200, 17, 1}}) {
    const Array x = random_array({m, k}, 1), y = random_array({k, n}, 2);
    expect_same({a, b}, {dot(a, b)}, {x, y});
    expect_same({a, b}, {dot(transpose(a), b)}, {random_array({k, m}, 1), y});
    expect_same({a, b}, {dot(a, transpose(b))}, {x, random_array({n, k}, 2)});
    expect_same({a, b}, {dot(transpose(b), transpose(a))}, {x, y});
  }
  Expr c = tensor3("c"), d = tensor3("d");
  expect_same({c, d}, {batched_dot(c, d)},
              {random_array({4, 20, 30}, 1), random_array({4, 30, 40}, 2)});
  Expr e = dmatrix("e");
  expect_same({e}, {dot(e, transpose(e))}, {random_array({40, 50}, 3).to(DType::F64)}, 1e-14);
}

TEST_F(OpenClFunctions, AStepMovesItsBatchAndItsLossAndCreatesNothing) {
  Step step("opencl:0");
  for (const std::int64_t rows : {64, 13, 64, 13}) step.run(rows);
  OpenClContext::Counts& counts = device().context().counts();
  const std::uint64_t in = counts.copied_in, out = counts.copied_out, objects = counts.objects,
                      launches = counts.launches;
  for (const std::int64_t rows : {64, 13, 64, 13}) step.run(rows);
  EXPECT_EQ(counts.objects, objects);
  EXPECT_GT(counts.launches, launches);
  // The host checks labels, which are int64 from then on.
  const std::uint64_t rows = 2 * (64 + 13), batch = rows * 12 * 4, labels = rows * 8;
  EXPECT_LE(counts.copied_in - in, batch + 2 * labels + 64);
  EXPECT_LE(counts.copied_out - out, 4 * (sizeof(float) + 32));
}

TEST_F(OpenClFunctions, MemoryIsWhatIsPlanned) {
  const std::uint64_t before = device().allocated();
  {
    Step step("opencl:0");
    const MemoryReport plan = step.train->memory({{64, 12}, {64}});
    ASSERT_EQ(plan.devices.size(), 1u);
    const MemoryReport::OnDevice& there = plan.devices[0];
    EXPECT_EQ(there.name, "opencl:0");
    step.run(64);
    const std::int64_t stays = there.variables() + there.constants;
    EXPECT_EQ(static_cast<std::int64_t>(device().allocated() - before), stays + there.arena);
    // What another function needs later is the same memory.
    Step other("opencl:0");
    other.run(64);
    EXPECT_EQ(static_cast<std::int64_t>(device().allocated() - before), 2 * stays + there.arena);
  }
  EXPECT_EQ(device().allocated(), before);
}

TEST_F(OpenClFunctions, BudgetsOfTheDevice) {
  // A matrix that is larger than what the function may have there: nothing runs.
  Expr x = matrix("x"), w = shared(Array::zeros(DType::F32, {3000, 3000}), "w");
  const Array rows = Array::zeros(DType::F32, {8, 3000});
  const std::uint64_t launches = device().context().counts().launches;
  for (const char* budget : {"16MiB", "opencl:0=16MiB", "opencl:0=16MiB,cpu=64MiB"}) {
    const auto refused = error_of([&] {
      function({x}, dot(x, w),
               {.shapes = {{x, {8, 3000}}}, .memory = budget, .device = "opencl:0"})(rows);
    });
    EXPECT_EQ(refused.fault(), Fault::Memory);
    EXPECT_NE(refused.message().find("opencl:0"), std::string::npos) << refused.what();
  }
  EXPECT_EQ(device().context().counts().launches, launches);
  EXPECT_NO_THROW(
      function({x}, dot(x, w), {.memory = "opencl:0=48MiB", .device = "opencl:0"})(rows));
  EXPECT_NO_THROW(function({x}, dot(x, w), {.memory = "48MiB"})(rows));
  for (const char* wrong : {"opencl:1=16MiB", "cpu=1GiB,gpu=2GiB", "=3GiB", "cpu=1GiB,"})
    EXPECT_THROW(function({x}, dot(x, w), {.memory = wrong, .device = "opencl:0"}), ValueError)
        << wrong;
}

TEST_F(OpenClFunctions, ConvolutionsWithTheirGradients) {
  Expr x = tensor4("x"), w = tensor4("w");
  struct Case {
    Dims x, w;
    ConvOptions options;
  };
  const Case cases[] = {
      {{2, 3, 9, 8}, {5, 3, 3, 3}, {}},
      {{2, 3, 9, 8}, {5, 3, 3, 3}, {.border_mode = "half", .flip = false}},
      {{1, 4, 11, 10}, {6, 2, 3, 2}, {.pad = {1, 0}, .subsample = {2, 3}, .groups = 2}},
      {{3, 2, 12, 12}, {4, 2, 3, 3}, {.pad = {2, 2}, .dilation = {2, 2}}},
      {{2, 70, 6, 6}, {66, 70, 1, 1}, {}},
  };
  for (const Case& c : cases) {
    const Expr y = conv2d(x, w, c.options);
    const auto g = grad(sum(sqr(y)), x, w);
    expect_same({x, w}, {y, g[0], g[1]}, {random_array(c.x, 1), random_array(c.w, 2)});
  }
}

TEST_F(OpenClFunctions, PaddingTakesNoPart) {
  Expr x = tensor4("x"), w = tensor4("w");
  Array filters = random_array({2, 1, 3, 3}, 2);
  filters.set_double(0, std::nan(""));  // a corner, which meets padding alone at some places
  const Expr y = conv2d(x, w, {.pad = {1, 1}});
  expect_same({x, w}, {y, grad(sum(y), x)}, {random_array({1, 1, 5, 5}, 1), filters});
}

TEST_F(OpenClFunctions, AForkedChildIsTold) {
  Step step("opencl:0");
  step.run(8);
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    try {
      step.run(8);
    } catch (const Error& e) {
      _exit(e.fault() == Fault::Device && e.message().find("fork") != std::string::npos ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace snug
