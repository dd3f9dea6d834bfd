// Functions whose nodes are on an OpenCL device as far as they can be: the same numbers as on the
// host, memory as planned, and what goes over the bus.
#include <gtest/gtest.h>

#include "backend/devices.h"
#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_device.h"
#include "error_of.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

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
    const Function there = function(inputs, outputs, {.device = "opencl:0"});
    const std::vector<Array> got = there.call(arguments);
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

}  // namespace
}  // namespace snug
