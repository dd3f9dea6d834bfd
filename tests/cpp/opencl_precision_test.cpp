// Functions on OpenCL devices with and without float64: what they add up in, and strict math.
#include <gtest/gtest.h>

#include "backend/devices.h"
#include "backend/opencl/emit_opencl.h"
#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_device.h"
#include "compile.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

const OpenClSearch& machine() {
  static const OpenClSearch found = find_opencl_devices();
  return found;
}

/// The first device as if it had no float64; its kernels may not name it.
class WithoutDouble : public OpenClDevice {
 public:
  using OpenClDevice::OpenClDevice;
  std::unique_ptr<PreparedCall> prepare(const KernelSpec& spec,
                                        std::span<const std::int64_t> ints) const override {
    const OpenClText text = emit_opencl(spec, map_kernel(spec, ints, found()));
    std::string all = text.body;
    for (const auto& [name, helper] : text.helpers) all += helper;
    EXPECT_EQ(all.find("double"), std::string::npos) << all;
    ++kernels;
    return OpenClDevice::prepare(spec, ints);
  }
  mutable int kernels = 0;
};

/// All nodes are on such a device, as far as they may be there.
class Chosen {
 public:
  explicit Chosen(bool gpu) {
    OpenClFound found = machine().devices[0];
    found.fp64 = false;
    found.gpu = gpu;
    device = std::make_shared<WithoutDouble>(found);
    set_devices(host_and({device}), [](std::uint32_t, const Node&) { return DeviceId{1}; });
  }
  ~Chosen() { set_devices(nullptr); }
  std::shared_ptr<WithoutDouble> device;
};

class OpenClPrecision : public ::testing::Test {
 protected:
  void SetUp() override {
    if (machine().devices.empty()) GTEST_SKIP() << "no OpenCL device";
  }
};

bool is_there(const Function& f) { return f.explain().find("kernel@1") != std::string::npos; }

TEST_F(OpenClPrecision, SumsWithoutFloat64) {
  const Expr x = matrix("x");
  const std::vector<Expr> outputs = {
      sum(x, {0}),  sum(x, {1}), sum(x),
      mean(x, {1}), var(x, {0}), prod(x + 1.0f, {1}),
      softmax(x),   sum(exp(x)), sum(cast(gt(x, 0.0f), DType::I8), {1}, false, DType::F32)};
  for (const Dims& shape : {Dims{37, 500}, {1, 70000}, {3000, 5}, {1, 1}, {0, 4}}) {
    Array a = random_array(shape, 1);
    const std::vector<Array> host = function({x}, outputs).call({a});
    for (const bool gpu : {false, true}) {
      const Chosen chosen(gpu);
      const Function f = function({x}, outputs);
      EXPECT_TRUE(is_there(f)) << f.explain();
      const std::vector<Array> got = f.call({a});
      EXPECT_GT(chosen.device->kernels, 0);
      for (std::size_t k = 0; k < host.size(); ++k) {
        ASSERT_EQ(host[k].shape, got[k].shape);
        for (std::int64_t i = 0; i < host[k].size(); ++i) {
          const double want = host[k].at_double(i);
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got[k].at_double(i)));
            continue;
          }
          // Of values of at most a few ULP the sums are exact but for their last rounding.
          EXPECT_NEAR(want, got[k].at_double(i), 5e-7 * std::fabs(want) + 1e-12)
              << "output " << k << " element " << i;
        }
      }
    }
  }
}

TEST_F(OpenClPrecision, SumsThatCancelWithoutFloat64) {
  // 2^24 + 1 - 2^24 + ..., which float32 loses, and what is no number.
  const Expr x = matrix("x");
  Array a = Array::zeros(DType::F32, {4, 3000});
  for (std::int64_t i = 0; i < 3000; ++i) {
    a.set_double(i, i % 3 == 0 ? 0x1p30 : i % 3 == 1 ? 1 : -0x1p30);
    for (std::int64_t row = 1; row < 4; ++row) a.set_double(row * 3000 + i, 1);
  }
  const double inf = std::numeric_limits<double>::infinity();
  a.set_double(3000 + 7, inf);
  a.set_double(6000 + 7, inf), a.set_double(6000 + 8, -inf);
  a.set_double(9000 + 7, 3e38), a.set_double(9000 + 8, 3e38);
  for (const bool gpu : {false, true}) {
    const Chosen chosen(gpu);
    const Function f = function({x}, {sum(x, {1}), prod(x, {1})});
    EXPECT_TRUE(is_there(f));
    const std::vector<Array> got = f.call({a});
    EXPECT_EQ(got[0].at_double(0), 1000);
    EXPECT_EQ(got[0].at_double(1), inf);
    EXPECT_TRUE(std::isnan(got[0].at_double(2)));
    EXPECT_EQ(got[0].at_double(3), inf);  // in float64 it is 6e38, which rounds to it
    EXPECT_EQ(got[1].at_double(1), inf);
  }
}

TEST_F(OpenClPrecision, GradientsWithoutFloat64) {
  const Expr x = matrix("x"), y = ivector("y"), w = matrix("w");
  const Expr loss = mean(categorical_crossentropy(softmax(dot(tanh(x), w)), y));
  const std::vector<Array> arguments = {random_array({50, 20}, 1), random_integers({50}, 2, 4),
                                        random_array({20, 5}, 3)};
  const std::vector<Expr> outputs = {loss, grad(loss, w)};
  const std::vector<Array> host = function({x, y, w}, outputs).call(arguments);
  for (const bool gpu : {false, true}) {
    const Chosen chosen(gpu);
    const std::vector<Array> got = function({x, y, w}, outputs).call(arguments);
    EXPECT_GT(chosen.device->kernels, 0);
    for (std::size_t k = 0; k < host.size(); ++k)
      for (std::int64_t i = 0; i < host[k].size(); ++i)
        EXPECT_NEAR(host[k].at_double(i), got[k].at_double(i), 1e-6);
  }
}

TEST_F(OpenClPrecision, Float64ItselfStaysOnTheHost) {
  const Expr x = matrix("x");
  const Array a = random_array({20, 30}, 1);
  const std::vector<Expr> outputs = {sum(x, {1}, false, DType::F64), exp(cast(x, DType::F64)),
                                     sqr(x)};
  const std::vector<Array> host = function({x}, outputs).call({a});
  const Chosen chosen(false);
  const Function f = function({x}, outputs);
  EXPECT_TRUE(is_there(f));
  const std::vector<Array> got = f.call({a});
  for (std::size_t k = 0; k < host.size(); ++k)
    for (std::int64_t i = 0; i < host[k].size(); ++i)
      EXPECT_EQ(host[k].at_double(i), got[k].at_double(i)) << "output " << k;
}

TEST_F(OpenClPrecision, StrictMath) {
  const Array a = random_array({1000}, 1, -5, 5);
  const Expr x = vector("x"), d = dvector("d");
  const auto run = [&](const Expr& in, const Expr& out, const Array& value, bool there,
                       const std::string& device) {
    const Function f = function({in}, out, {.device = device, .strict_math = true});
    EXPECT_EQ(is_there(f), there) << f.explain();
    return f.call({value})[0];
  };
  const Array b = a.to(DType::F64);
  const bool fp64 = machine().devices[0].fp64;
  const Array host = run(x, tanh(x), a, false, "cpu");
  const Array device = run(x, tanh(x), a, fp64, "opencl:0");
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double exact = std::tanh(a.at_double(i));
    EXPECT_NEAR(device.at_double(i), exact, 0x1p-24 * std::fabs(exact));
    EXPECT_NEAR(host.at_double(i), exact, 0x1p-24 * std::fabs(exact));
  }
  const Array wide = run(d, tanh(d), b, false, "cpu"), too = run(d, tanh(d), b, false, "opencl:0");
  for (std::int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(wide.at_double(i), too.at_double(i));
  // What are no functions are there all the same.
  if (fp64) run(d, d * 2.0 + 1.0, b, true, "opencl:0");
  const Chosen chosen(false);
  EXPECT_FALSE(is_there(function({x}, tanh(x), {.strict_math = true})));
  EXPECT_TRUE(is_there(function({x}, sqr(x), {.strict_math = true})));
}

}  // namespace
}  // namespace snug
