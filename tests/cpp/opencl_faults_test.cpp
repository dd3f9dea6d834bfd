// What remains when an OpenCL device fails: between the library and us stand entries that fail at
// the call that a test wants, on a device that is well.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "backend/devices.h"
#include "backend/opencl/opencl_context.h"
#include "backend/opencl/opencl_device.h"
#include "backend/opencl/opencl_library.h"
#include "base/driver_work.h"
#include "compile.h"
#include "error_of.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using testing::error_of;

/// The call that fails, of those that are counted since it was set; 0: none.
struct Failing {
  std::atomic<std::uint64_t> calls = 0, at = 0;
  std::atomic<cl_int> code = CL_OUT_OF_RESOURCES;

  void set(std::uint64_t call, cl_int with = CL_OUT_OF_RESOURCES) {
    at = call, code = with, calls = 0;
  }
  bool now() { return ++calls == at; }
} failing;

/// Stands in for an entry, in place of which it is put.
template <auto entry>
struct Counted;
template <class R, class... Args, R (*OpenClLibrary::*entry)(Args...)>
struct Counted<entry> {
  static inline R (*real)(Args...) = nullptr;

  static R call(Args... args) {
    if (!failing.now()) return real(args...);
    if constexpr (std::is_same_v<R, cl_int>) {
      return failing.code;
    } else {  // what creates something tells by its last argument
      *std::get<sizeof...(Args) - 1>(std::tuple(args...)) = failing.code;
      return nullptr;
    }
  }
  static void put(bool in) {
    OpenClLibrary& all = opencl_entries();
    if (!real) real = all.*entry;
    all.*entry = in ? call : real;
  }
};

void count_commands(bool in) {
  using L = OpenClLibrary;
  Counted<&L::clEnqueueNDRangeKernel>::put(in), Counted<&L::clEnqueueReadBuffer>::put(in);
  Counted<&L::clEnqueueWriteBuffer>::put(in), Counted<&L::clEnqueueFillBuffer>::put(in);
  Counted<&L::clEnqueueCopyBuffer>::put(in), Counted<&L::clEnqueueMarkerWithWaitList>::put(in);
  Counted<&L::clEnqueueBarrierWithWaitList>::put(in), Counted<&L::clFlush>::put(in);
}
void count_creations(bool in) {
  using L = OpenClLibrary;
  Counted<&L::clCreateBuffer>::put(in), Counted<&L::clCreateCommandQueue>::put(in);
  Counted<&L::clCreateKernel>::put(in), Counted<&L::clBuildProgram>::put(in);
  Counted<&L::clCreateProgramWithSource>::put(in), Counted<&L::clEnqueueMapBuffer>::put(in);
}

/// Commands whose end nobody hears of, or that end badly.
struct Late {
  static inline std::atomic<cl_int> status = CL_COMPLETE;
  static inline decltype(&clGetEventInfo) real = nullptr;
  static cl_int call(cl_event event, cl_event_info what, std::size_t size, void* value,
                     std::size_t* got) {
    const cl_int code = real(event, what, size, value, got);
    if (status != CL_COMPLETE) *static_cast<cl_int*>(value) = status;
    return code;
  }
  static void put(cl_int what) {
    if (!real) real = opencl_entries().clGetEventInfo;
    status = what;
    opencl_entries().clGetEventInfo = what == CL_COMPLETE ? real : call;
  }
};

class OpenClFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (found().devices.empty()) GTEST_SKIP() << "no OpenCL device";
    use_new_device();
  }
  void TearDown() override {
    if (found().devices.empty()) return;
    failing.set(0);
    count_commands(false);
    count_creations(false);
    Late::put(CL_COMPLETE);
    set_devices(nullptr);
  }
  static const OpenClSearch& found() {
    static const OpenClSearch all = find_opencl_devices();
    return all;
  }
  /// Functions that are made from now on are there.
  void use_new_device() {
    device = std::make_shared<OpenClDevice>(found().devices[0]);
    set_devices(host_and({device}), [](std::uint32_t, const Node&) { return DeviceId{1}; });
  }
  static void use_host() { set_devices(host_only()); }

  std::shared_ptr<OpenClDevice> device;
};

/// A training step of a small network.
struct Step {
  Expr x = matrix("x");
  Expr w = shared(random_array({12, 9}, 1), "w"), v = shared(random_array({9, 4}, 3), "v");
  std::optional<Function> train;

  explicit Step(FunctionOptions options = {}) {
    const Expr loss = mean(sqr(dot(tanh(dot(x, w)), v)));
    const auto g = grad(loss, w, v);
    options.updates = {{w, w - 0.1f * g[0]}, {v, v - 0.1f * g[1]}};
    train.emplace(function({x}, loss, options));
  }
  float run() { return (*train)(random_array({16, 12}, 5)).item<float>(); }
  std::vector<Array> values() const {
    return {as_shared(w)->get_value(), as_shared(v)->get_value()};
  }
  void set(const std::vector<Array>& values) {
    as_shared(w)->set_value(values[0]), as_shared(v)->set_value(values[1]);
  }
};

void expect_old_or_error(const Step& step, const std::vector<Array>& old) {
  for (std::size_t k = 0; k < 2; ++k) {
    const Expr& e = k == 0 ? step.w : step.v;
    try {
      EXPECT_TRUE(same_bits(as_shared(e)->get_value(), old[k])) << e.name();
    } catch (const DeviceError& error) {
      EXPECT_NE(error.message().find("the shared variable " + e.name()), std::string::npos)
          << error.message();
    }
  }
}

TEST_F(OpenClFaults, AtAnyCommandOfACallOldValuesOrErrorsAreLeft) {
  Step step;
  const std::vector<Array> start = step.values();
  const float loss = step.run();
  step.set(start);
  step.run();
  const std::vector<Array> old = step.values();
  count_commands(true);
  failing.set(0);
  step.run();
  const std::uint64_t count = failing.calls;
  EXPECT_GT(count, 20u);
  for (std::uint64_t n = 1; n <= count; ++n) {
    SCOPED_TRACE(n);
    failing.set(0);
    step.set(start);
    EXPECT_EQ(step.run(), loss);
    failing.set(n);
    const auto error = error_of([&] { step.run(); });
    EXPECT_EQ(error.fault(), Fault::Device);
    EXPECT_NE(error.message().find("opencl:0: "), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("CL_OUT_OF_RESOURCES (-5)"), std::string::npos)
        << error.message();
    expect_old_or_error(step, old);
  }
}

TEST_F(OpenClFaults, AtAnyCreationOfAFirstCallNothingChanges) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    use_new_device();
    Step step;
    const std::vector<Array> old = step.values();
    count_creations(true);
    failing.set(n);
    bool failed = false;
    try {
      EXPECT_TRUE(std::isfinite(step.run()));  // a program of several is made anew, one by one
    } catch (const Error& e) {
      failed = true;
      EXPECT_TRUE(e.fault() == Fault::Device || e.fault() == Fault::Memory) << e.what();
      EXPECT_NE(e.message().find("opencl:0"), std::string::npos) << e.message();
    }
    const bool last = failing.calls < n;
    count_creations(false);
    if (last) break;
    if (!failed) continue;
    expect_old_or_error(step, old);
    EXPECT_TRUE(std::isfinite(step.run()));
  }
}

/// That a device is lost, and what of it is left.
void expect_lost(Step& step, const OpenClDevice& device, const std::string& first,
                 const std::vector<Array>& kept) {
  EXPECT_TRUE(device.context().is_lost());
  count_commands(true), count_creations(true);
  failing.set(0);
  const Expr there = step.w;
  for (const auto& use : std::initializer_list<std::function<void()>>{
           [&] { step.run(); }, [&] { function({step.x}, tanh(step.x) * 2)(kept[0]); }}) {
    const auto error = error_of(use);
    EXPECT_EQ(error.fault(), Fault::Device) << error.what();
  }
  // What can be known without the device: that the variables have no value, and why.
  for (const Expr& e : {step.w, step.v}) {
    const auto error = error_of([&] { as_shared(e)->get_value(); });
    EXPECT_EQ(error.fault(), Fault::Device);
    EXPECT_NE(error.message().find("the shared variable " + e.name()), std::string::npos);
    EXPECT_NE(error.message().find(first), std::string::npos) << error.message();
    as_shared(e)->restore();
  }
  EXPECT_TRUE(same_bits(step.values()[0], kept[0]));
  EXPECT_EQ(error_of([&] { step.run(); }).fault(), Fault::Device);
  EXPECT_EQ(failing.calls, 0u);  // nobody asked it
  set_devices(host_only());
  Step again;
  again.set(kept);
  EXPECT_TRUE(std::isfinite(again.run()));
  EXPECT_EQ(function({}, step.w * 2)().at_double(0), 2 * kept[0].at_double(0));
}

TEST_F(OpenClFaults, ADeviceThatIsGoneIsLost) {
  for (const std::uint64_t n : {1, 9}) {
    SCOPED_TRACE(n);
    use_new_device();
    Step step({.snapshot = 1});
    step.run();
    const std::vector<Array> kept = step.values();
    Counted<&OpenClLibrary::clEnqueueNDRangeKernel>::put(true);
    failing.set(n, CL_DEVICE_NOT_AVAILABLE);
    const auto error = error_of([&] { step.run(); });
    EXPECT_NE(error.message().find("opencl:0 (" + device->found().model + ") is lost: snug_"),
              std::string::npos)
        << error.message();
    EXPECT_NE(error.message().find("clEnqueueNDRangeKernel: CL_DEVICE_NOT_AVAILABLE (-2)"),
              std::string::npos);
    expect_lost(step, *device, "CL_DEVICE_NOT_AVAILABLE", kept);
    count_commands(false), count_creations(false);
  }
}

TEST_F(OpenClFaults, AKernelThatFailsLate) {
  Step step({.snapshot = 1});
  step.run();
  const std::vector<Array> kept = step.values();
  Late::put(CL_OUT_OF_RESOURCES);
  const auto error = error_of([&] { step.run(); });
  EXPECT_NE(error.message().find("a command failed: CL_OUT_OF_RESOURCES (-5); asked for: snug_"),
            std::string::npos)
      << error.message();
  Late::put(CL_COMPLETE);
  expect_lost(step, *device, "a command failed: CL_OUT_OF_RESOURCES", kept);
}

TEST_F(OpenClFaults, ADeviceThatHangs) {
  Step step({.snapshot = 1});
  step.run();
  const std::vector<Array> kept = step.values();
  device->set_patience(std::chrono::milliseconds(50));
  Late::put(CL_RUNNING);
  const auto error = error_of([&] { step.run(); });
  EXPECT_NE(error.message().find("it has done nothing for 0.05 s; asked for: snug_"),
            std::string::npos)
      << error.message();
  Late::put(CL_COMPLETE);
  expect_lost(step, *device, "it has done nothing", kept);
}

/// A build that hangs until it is told to go on.
std::atomic<bool> go_on;
decltype(&clBuildProgram) real_build;
template <class... Args>
cl_int slow_build(Args... args) {
  go_on.wait(false);
  return real_build(args...);
}

TEST_F(OpenClFaults, ACompilerThatHangs) {
  device->set_patience(std::chrono::milliseconds(50));
  Step step;
  const std::vector<Array> old = step.values();
  go_on = false;
  real_build = opencl_entries().clBuildProgram;
  opencl_entries().clBuildProgram = slow_build;
  const auto error = error_of([&] { step.run(); });
  EXPECT_NE(error.message().find("its compiler has not answered for 0.05 s; asked for: snug_"),
            std::string::npos)
      << error.message();
  EXPECT_TRUE(device->context().is_lost());
  go_on = true;
  go_on.notify_all();
  end_driver_work();
  opencl_entries().clBuildProgram = real_build;
  expect_old_or_error(step, old);
}

}  // namespace
}  // namespace snug
