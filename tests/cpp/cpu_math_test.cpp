// The accuracy of the math functions, in units in the last place, over dense samples.
#include <fmt/format.h>

#include "backend/cpu/vector_plan.h"
#include "cpu_kernels.h"
#include "math_truth.h"

namespace snug::test {
namespace {

template <class T>
KernelFn compiled(Prim p, bool strict, int bits = 512) {
  SpecBuilder b;
  b.spec.extents = {kRun};
  b.spec.outer = 1;
  b.spec.strict = strict;
  DType t = sizeof(T) == 4 ? DType::F32 : DType::F64;
  int x = b.operand(t, false, {1}), y = b.operand(t, false, {1}), out = b.operand(t, true, {1});
  b.store(out, b.op(p, b.load(x), operand_count(p) > 1 ? b.load(y) : 0));
  b.phase(false);
  return jit(bits).compile(b.spec);
}

template <class T>
std::vector<T> apply(KernelFn f, const std::vector<T>& x, const std::vector<T>& y) {
  std::vector<T> out(x.size());
  auto bytes = [](const T* p) { return reinterpret_cast<std::byte*>(const_cast<T*>(p)); };
  std::byte* operands[] = {bytes(x.data()), bytes(y.data()), bytes(out.data())};
  std::int64_t n = static_cast<std::int64_t>(x.size());
  std::int64_t ints[] = {n, 1, 1, 1};
  f(operands, ints, 0, n);
  return out;
}

template <class T>
void check_function(const Function& f, bool strict, double limit, int bits = 512,
                    std::size_t every = 1) {
  std::vector<T> x;
  static const std::vector<T> all = samples<T>();
  for (std::size_t i = 0; i < all.size(); i += every) x.push_back(all[i]);
  std::vector<T> y = apply<T>(compiled<T>(f.prim, strict, bits), x, x);
  double worst = 0;
  T where = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Wide exact = f.exact(x[i]);
    double e = ulps(y[i], exact);
    if (e > worst) worst = e, where = x[i];
    bool zero = exact == 0 && !std::isnan(x[i]);
    if (zero) {
      EXPECT_EQ(std::signbit(y[i]), std::signbit(exact)) << name_of(f.prim) << " of " << x[i];
    }
  }
  ::testing::Test::RecordProperty(name_of(f.prim), std::to_string(worst));
  if (std::getenv("SNUG_PRINT_ULPS"))
    printf("%-10s %s%s %.3f ULP at %.17g\n", name_of(f.prim), sizeof(T) == 4 ? "f32" : "f64",
           strict ? " strict" : "", worst, static_cast<double>(where));
  EXPECT_LE(worst, limit) << name_of(f.prim) << " of " << where;
}

TEST(CpuMath, SingleWithin4Ulps) {
  for (const Function& f : kFunctions) check_function<float>(f, false, 4);
}
TEST(CpuMath, DoubleWithin4Ulps) {
  for (const Function& f : kFunctions) check_function<double>(f, false, 4);
}
TEST(CpuMath, StrictWithin1Ulp) {
  for (const Function& f : kFunctions) {
    check_function<float>(f, true, 1, 512, 3);
    check_function<double>(f, true, 1, 512, 10);
  }
}
TEST(CpuMath, NarrowerVectorsWithin4Ulps) {
  for (int bits : {256, 128})
    for (const Function& f : kFunctions) {
      check_function<float>(f, false, 4, bits, 7);
      check_function<double>(f, false, 4, bits, 7);
    }
}

template <class T>
void check_binary(Prim p, Wide (*exact)(Wide, Wide), bool strict, double limit) {
  const auto [x, y] = binary_samples<T>();
  std::vector<T> r = apply<T>(compiled<T>(p, strict), x, y);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Wide want = exact(x[i], y[i]);
    double e = ulps(r[i], want);
    worst = std::max(worst, e);
    EXPECT_LE(e, limit) << name_of(p) << "(" << x[i] << ", " << y[i] << ") = " << r[i];
    if (want == 0 && r[i] == 0) {
      EXPECT_EQ(std::signbit(r[i]), std::signbit(want))
          << name_of(p) << "(" << x[i] << ", " << y[i] << ")";
    }
    if (e > limit) return;
  }
  if (std::getenv("SNUG_PRINT_ULPS"))
    printf("%-10s %s%s %.3f ULP\n", name_of(p), sizeof(T) == 4 ? "f32" : "f64",
           strict ? " strict" : "", worst);
}

TEST(CpuMath, PowAndAtan2) {
  for (bool strict : {false, true}) {
    double limit = strict ? 1 : 4;
    check_binary<float>(Prim::Pow, powl, strict, limit);
    check_binary<double>(Prim::Pow, powl, strict, limit);
    check_binary<float>(Prim::Atan2, atan2l, strict, limit);
    check_binary<double>(Prim::Atan2, atan2l, strict, limit);
  }
}

TEST(CpuMath, ModIsExact) {
  check_binary<float>(Prim::Mod, remainder_of<float>, false, 0);
  check_binary<double>(Prim::Mod, remainder_of<double>, false, 0);
}

TEST(CpuMath, LoopsAreVectorCode) {
  if (HostCpu::detect().vector_bits < 512) GTEST_SKIP() << "no 512-bit vectors";
  SpecBuilder b;
  b.spec.extents = {kRun};
  b.spec.outer = 1;
  int x = b.operand(DType::F32, false, {1}), y = b.operand(DType::F32, true, {1});
  b.store(y, b.op(Prim::Exp, b.op(Prim::Tanh, b.load(x))));
  b.phase(false);
  std::string ir = jit().listing(b.spec);
  const std::string vector =
      fmt::format("<{} x float>", 16 * plan_vectors(b.spec, HostCpu::detect()).width);
  EXPECT_NE(ir.find("load " + vector), std::string::npos) << ir;
  EXPECT_NE(ir.find("store " + vector), std::string::npos) << ir;
  EXPECT_EQ(ir.find("fmul float"), std::string::npos) << ir;
  EXPECT_EQ(ir.find("call float @expf"), std::string::npos) << ir;
}

}  // namespace
}  // namespace snug::test
