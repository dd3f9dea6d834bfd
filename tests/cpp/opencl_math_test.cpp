// The accuracy of the functions that kernels of OpenCL devices are made of.
#include <fmt/format.h>

#include "backend/opencl/opencl_device.h"
#include "backend/opencl/opencl_kernels.h"
#include "cpu_kernels.h"
#include "math_truth.h"

namespace snug::test {
namespace {

template <class T>
constexpr DType dtype_of() {
  return sizeof(T) == 4 ? DType::F32 : DType::F64;
}

/// Null if there is none.
OpenClDevice* any_device() {
  static OpenClDevice* const device = [] {
    const OpenClSearch found = find_opencl_devices();
    return found.devices.empty() ? nullptr : new OpenClDevice(found.devices[0]);
  }();
  return device;
}

/// out = p(x, y)
KernelSpec one_function(Prim p, DType t, bool strict) {
  SpecBuilder b;
  b.spec.name = name_of(p);
  b.spec.extents = {kRun};
  b.spec.outer = 1;
  b.spec.strict = strict;
  const int x = b.operand(t, false, {1}), y = b.operand(t, false, {1}),
            out = b.operand(t, true, {1});
  b.store(out, b.op(p, b.load(x), operand_count(p) > 1 ? b.load(y) : 0));
  b.phase(false);
  return b.spec;
}

/// Kernels of some functions for one type, built together.
template <class T>
class Functions {
 public:
  Functions(std::vector<Prim> which, std::size_t most, bool strict) : most_(most) {
    const std::vector<std::int64_t> ints{static_cast<std::int64_t>(most), 1, 1, 1};
    for (const Prim p : which)
      calls_.push_back(any_device()->prepare(one_function(p, dtype_of<T>(), strict), ints));
    for (const auto& c : calls_) c->make_ready();
    for (auto& m : memory_) m = any_device()->allocate(most * sizeof(T), "samples");
  }

  std::vector<T> apply(std::size_t which, const std::vector<T>& x, const std::vector<T>& y) {
    const std::size_t bytes = x.size() * sizeof(T);
    memory_[0]->write(memory_[0]->data(), reinterpret_cast<const std::byte*>(x.data()), bytes);
    memory_[1]->write(memory_[1]->data(), reinterpret_cast<const std::byte*>(y.data()), bytes);
    std::byte* operands[] = {memory_[0]->data(), memory_[1]->data(), memory_[2]->data()};
    const std::int64_t ints[] = {static_cast<std::int64_t>(x.size()), 1, 1, 1};
    RunArgs args;
    args.in = operands;
    args.in_count = 3;
    args.ints = ints;
    const auto queues = any_device()->open(1);
    queues->run(*calls_[which], args);
    queues->finish();
    std::vector<T> out(x.size());
    memory_[2]->read(memory_[2]->data(), reinterpret_cast<std::byte*>(out.data()), bytes);
    return out;
  }

 private:
  std::size_t most_;
  std::vector<std::unique_ptr<PreparedCall>> calls_;
  std::shared_ptr<DeviceMemory> memory_[3];
};

class OpenClMath : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!any_device()) GTEST_SKIP() << "no OpenCL device";
  }

  template <class T>
  static void check(const char* name, const std::vector<T>& got, const std::vector<T>& x,
                    const std::vector<T>& y, double limit, auto&& exact_at) {
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Wide exact = exact_at(i);
      const double e = ulps(got[i], exact);
      if (e > worst) worst = e, where = i;
      if (exact == 0 && got[i] == 0 && !std::isnan(x[i])) {
        EXPECT_EQ(std::signbit(got[i]), std::signbit(exact))
            << name << " of " << x[i] << ", " << y[i];
      }
    }
    if (std::getenv("SNUG_PRINT_ULPS"))
      fmt::print("{:10} {} {:.3f} ULP at {:.17g}, {:.17g}: {:.17g}, not {:.17g}\n", name,
                 name_of(dtype_of<T>()), worst, x[where], y[where], got[where], exact_at(where));
    EXPECT_LE(worst, limit) << name << " of " << name_of(dtype_of<T>()) << " " << x[where] << ", "
                            << y[where] << ": " << got[where];
  }

  template <class T>
  static void check_all(bool strict, double limit, std::size_t every) {
    std::vector<Prim> which;
    for (const Function& f : kFunctions) which.push_back(f.prim);
    const std::vector<T> all = samples<T>();
    std::vector<T> x;
    for (std::size_t i = 0; i < all.size(); i += every) x.push_back(all[i]);
    Functions<T> functions(which, x.size(), strict);
    for (std::size_t k = 0; k < which.size(); ++k)
      check(name_of(which[k]), functions.apply(k, x, x), x, x, limit,
            [&](std::size_t i) { return kFunctions[k].exact(x[i]); });
  }

  template <class T>
  static void check_binary(bool strict, double limit) {
    const auto [x, y] = binary_samples<T>();
    Functions<T> functions({Prim::Pow, Prim::Atan2, Prim::Mod}, x.size(), strict);
    Wide (*const exact[])(Wide, Wide) = {powl, atan2l, remainder_of<T>};
    const char* const names[] = {"pow", "atan2", "mod"};
    for (std::size_t k = 0; k < 3; ++k)
      check(names[k], functions.apply(k, x, y), x, y, k == 2 ? 0 : limit,
            [&, &x = x, &y = y](std::size_t i) { return exact[k](x[i], y[i]); });
  }
};

TEST_F(OpenClMath, SingleWithin4Ulps) { check_all<float>(false, 4, 1); }
TEST_F(OpenClMath, DoubleWithin4Ulps) {
  if (!any_device()->found().fp64) GTEST_SKIP() << "no float64";
  check_all<double>(false, 4, 1);
}
TEST_F(OpenClMath, StrictWithin1Ulp) {
  if (!any_device()->found().fp64) GTEST_SKIP() << "no float64";
  check_all<float>(true, 1, 3);
  check_binary<float>(true, 1);
}
TEST_F(OpenClMath, OfTwoNumbers) {
  check_binary<float>(false, 4);
  if (any_device()->found().fp64) check_binary<double>(false, 4);
}

}  // namespace
}  // namespace snug::test
