// The accuracy of the math functions, in units in the last place, over dense samples.
#include <fmt/format.h>

#include <bit>

#include "backend/cpu/vector_plan.h"
#include "cpu_kernels.h"

namespace snug::test {
namespace {

using Wide = long double;

struct Function {
  Prim prim;
  Wide (*exact)(Wide);
};

Wide sigmoid(Wide x) {
  Wide e = expl(-fabsl(x));
  return x >= 0 ? 1 / (1 + e) : x < 0 ? e / (1 + e) : x;
}
Wide erfcx(Wide x) {
  if (x < -200) return HUGE_VALL;
  if (x < 100) return expl(x * x) * erfcl(x) * (1 + fmal(x, x, -x * x));
  Wide t = 1 / (2 * x * x);
  return 1 / (x * sqrtl(M_PIl)) * (1 - t * (1 - 3 * t * (1 - 5 * t * (1 - 7 * t))));
}
Wide softplus(Wide x) { return x != x ? x : fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }

const Function kFunctions[] = {
    {Prim::Exp, expl},          {Prim::Expm1, expm1l}, {Prim::Exp2, exp2l},
    {Prim::Log, logl},          {Prim::Log1p, log1pl}, {Prim::Log2, log2l},
    {Prim::Log10, log10l},      {Prim::Tanh, tanhl},   {Prim::Sigmoid, sigmoid},
    {Prim::Softplus, softplus}, {Prim::Erf, erfl},     {Prim::Erfc, erfcl},
    {Prim::Sin, sinl},          {Prim::Cos, cosl},     {Prim::Tan, tanl},
    {Prim::Asin, asinl},        {Prim::Acos, acosl},   {Prim::Atan, atanl},
    {Prim::Sinh, sinhl},        {Prim::Cosh, coshl},   {Prim::Asinh, asinhl},
    {Prim::Acosh, acoshl},      {Prim::Atanh, atanhl}, {Prim::Sqrt, sqrtl},
    {Prim::Erfcx, erfcx},
};

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

/// The distance of a result from the exact value, in ULPs of T at that value.
template <class T>
double ulps(T got, Wide exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : 1e9;
  constexpr int digits = std::numeric_limits<T>::digits;
  constexpr int least = std::numeric_limits<T>::min_exponent - digits;
  if (std::isinf(exact)) return got == static_cast<T>(exact) ? 0 : 1e9;
  int exponent = exact == 0 ? -100000 : static_cast<int>(ilogbl(exact)) + 1 - digits;
  Wide unit = ldexpl(1, std::max(exponent, least));
  // Infinity stands for the number after the largest.
  Wide value = std::isinf(got) ? copysignl(ldexpl(1, std::numeric_limits<T>::max_exponent), got)
                               : static_cast<Wide>(got);
  Wide bound = ldexpl(1, std::numeric_limits<T>::max_exponent);
  if (fabsl(exact) > bound) exact = copysignl(bound, exact);
  return static_cast<double>(fabsl(value - exact) / unit);
}

template <class T>
std::vector<T> samples() {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<T> x;
  // All exponents, both signs.
  Bits step = sizeof(T) == 4 ? Bits{30011} : static_cast<Bits>(0x0000b504f333f9deULL) * 4;
  for (Bits b = 0, previous = 0; b >= previous; previous = b, b += step)
    x.push_back(std::bit_cast<T>(b));
  // Where most arguments are, and near the zeros and limits of the functions.
  std::mt19937_64 rng(3);
  for (double width : {1.0, 10.0, 100.0, 800.0}) {
    std::uniform_real_distribution<double> real(-width, width);
    for (int i = 0; i < 30000; ++i) x.push_back(static_cast<T>(real(rng)));
  }
  for (double center : {1.0, -1.0, 0.5, 1.5707963267948966, 3.141592653589793, 88.7228, -87.3365,
                        -103.97, 709.78, -745.13, 0.9, 4.0, 9.2, 27.2, 1e5, 1e9}) {
    T v = static_cast<T>(center), low = v, high = v;
    for (int i = 0; i < 300; ++i) {
      x.push_back(low = std::nextafter(low, static_cast<T>(-HUGE_VAL)));
      x.push_back(high = std::nextafter(high, static_cast<T>(HUGE_VAL)));
    }
    x.push_back(v);
  }
  using L = std::numeric_limits<T>;
  for (T v : {T(0), -T(0), L::infinity(), -L::infinity(), L::quiet_NaN(), L::max(), L::lowest(),
              L::min(), L::denorm_min(), -L::denorm_min()})
    x.push_back(v);
  return x;
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
  std::vector<T> specials, x, y;
  using L = std::numeric_limits<T>;
  for (T v : {T(0), T(1), T(2), T(3), T(0.5), T(1e10), T(7.25), L::infinity(), L::max(), L::min(),
              L::denorm_min(), T(16777217), T(4503599627370497)}) {
    specials.push_back(v);
    specials.push_back(-v);
  }
  specials.push_back(L::quiet_NaN());
  for (T a : specials)
    for (T c : specials) x.push_back(a), y.push_back(c);
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> base(0, 4), exponent(-60, 60), plain(-50, 50);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(static_cast<T>(i % 2 ? base(rng) : plain(rng)));
    y.push_back(static_cast<T>(i % 3 ? exponent(rng) : std::round(exponent(rng))));
  }
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

/// NumPy's remainder, in the type itself: exact before the sign is mended.
template <class T>
Wide remainder_of(Wide a, Wide b) {
  T x = static_cast<T>(a), y = static_cast<T>(b);
  T r = std::fmod(x, y);
  if (r == 0) return std::copysign(T(0), y);
  return (r < 0) != (y < 0) ? static_cast<T>(r + y) : r;
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
