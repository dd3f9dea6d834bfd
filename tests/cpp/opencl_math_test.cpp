// The accuracy of the functions that kernels of OpenCL devices are made of.
#include <fmt/format.h>

#include "backend/opencl/opencl_device.h"
#include "backend/opencl/opencl_kernels.h"
#include "base/special.h"
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

/// A special function, the host's, which is called with the parameter first.
struct Special {
  Prim prim;
  double (*of_one)(double) = nullptr;
  double (*of_two)(double, double) = nullptr;
  double operator()(double x, double y) const { return of_one ? of_one(x) : of_two(x, y); }
};
const Special kSpecials[] = {
    {Prim::Gamma, special::gamma},
    {Prim::Gammaln, special::gammaln},
    {Prim::Digamma, special::digamma},
    {Prim::Trigamma, special::trigamma},
    {Prim::Erfinv, special::erfinv},
    {Prim::Erfcinv, special::erfcinv},
    {Prim::J0, special::j0},
    {Prim::J1, special::j1},
    {Prim::I0, special::i0},
    {Prim::I1, special::i1},
    {Prim::Polygamma, {}, special::polygamma},
    {Prim::Gammainc, {}, special::gammainc},
    {Prim::Gammaincc, {}, special::gammaincc},
    {Prim::Betaln, {}, special::betaln},
    {Prim::Jv, {}, special::jv},
    {Prim::Iv, {}, special::iv},
};

/// Pairs of which the first is also the argument of functions of one number.
template <class T>
std::pair<std::vector<T>, std::vector<T>> special_samples() {
  std::vector<T> x, y;
  const double inf = HUGE_VAL;
  const double edges[] = {0,       -0.0,  1,     -1,     2,   -2,   3,     -3,
                          0.5,     -0.5,  1.5,   -2.5,   8,   20,   171.5, 1e-300,
                          -1e-300, 1e-30, 1e300, -1e300, inf, -inf, NAN};
  for (const double a : edges)
    for (const double b : edges) x.push_back(static_cast<T>(a)), y.push_back(static_cast<T>(b));
  std::mt19937_64 rng(11);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(rng);
  };
  const auto add = [&](double a, double b) {
    x.push_back(static_cast<T>(a)), y.push_back(static_cast<T>(b));
  };
  for (int i = 0; i < 3000; ++i) {
    add(real(-9, 9), real(-9, 9));
    add(real(0, 2), real(0, 20));
    add(i % 9, real(-9, 9));
    add(i % 201, real(0.1, 400));
    add(real(-170, 171), real(0, 200));
    add(std::pow(10, real(-20, 20)), std::pow(10, real(-3, 3)));
    add(1 - std::pow(10, real(-16, 0)), std::pow(10, real(-3, 3)));
    const double large = std::pow(10, real(2, 6));
    add(large, large + real(-8, 8) * std::sqrt(large));
  }
  return {x, y};
}

TEST_F(OpenClMath, SpecialFunctions) {
  if (!any_device()->found().fp64) GTEST_SKIP() << "no float64";
  std::vector<Prim> which;
  for (const Special& f : kSpecials) which.push_back(f.prim);
  const auto [x, y] = special_samples<double>();
  const auto [single_x, single_y] = special_samples<float>();
  Functions<double> functions(which, x.size(), true);
  Functions<float> singles(which, x.size(), false);
  for (std::size_t k = 0; k < which.size(); ++k) {
    const std::vector<double> got = functions.apply(k, x, y);
    const std::vector<float> single = singles.apply(k, single_x, single_y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = kSpecials[k](x[i], y[i]);
      const auto text = [&] {
        return fmt::format("{}({}, {}) = {}, not {}", name_of(which[k]), x[i], y[i], got[i], want);
      };
      if (std::isinf(want) && which[k] == Prim::Polygamma) {
        ASSERT_TRUE(std::isinf(got[i])) << text();  // the host has not always the right sign
      } else if (std::isnan(want) || std::isinf(want) || want == 0) {
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got[i]) : got[i] == want) << text();
      } else {
        // Bessel functions lose digits with their order.
        const bool bessel = which[k] == Prim::Jv || which[k] == Prim::Iv;
        const double relative = bessel ? std::fmax(3e-13, std::fabs(x[i]) * 3e-15) : 3e-13;
        ASSERT_LE(std::fabs(got[i] - want), relative * std::fabs(want) + 3e-15) << text();
      }
      const double exact = kSpecials[k](single_x[i], single_y[i]);
      if (std::isinf(exact)) continue;
      ASSERT_LE(ulps(single[i], exact), 1) << name_of(which[k]) << " of " << single_x[i] << ", "
                                           << single_y[i] << ": " << single[i] << ", not " << exact;
    }
  }
}

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
