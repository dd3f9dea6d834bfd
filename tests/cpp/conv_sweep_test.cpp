// Convolutions of random shapes and their gradients, against loops in double. Every buffer and
// workspace starts as NaN and ends at a page nobody may touch, so that what a library reads without
// having written it, or writes past its place, shows. DNNL_MAX_CPU_ISA=AVX2 runs another set of
// oneDNN's implementations.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "fenced_run.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using Triple = std::array<std::int64_t, 3>;

struct Conv {
  int axes = 2;
  std::int64_t n = 1, c = 1, o = 1, groups = 1;
  Triple in{1, 1, 1}, taps{1, 1, 1}, out{1, 1, 1};  // unused axes first, of size 1
  Triple low{}, high{}, stride{1, 1, 1}, dilation{1, 1, 1};
  bool flip = true;
  DType dtype = DType::F32;

  Dims sizes(std::int64_t a, std::int64_t b, const Triple& rest) const {
    Dims d{a, b};
    for (int k = 3 - axes; k < 3; ++k) d.push_back(rest[k]);
    return d;
  }
  Dims x() const { return sizes(n, c, in); }
  Dims w() const { return sizes(o, c / groups, taps); }
  Dims y() const { return sizes(n, o, out); }
  std::int64_t products() const {
    return n * o * (c / groups) * out[0] * out[1] * out[2] * taps[0] * taps[1] * taps[2];
  }
  ConvOptions options() const {
    ConvOptions result{.flip = flip, .groups = groups};
    for (int k = 3 - axes; k < 3; ++k) {
      result.pad.insert(result.pad.end(), {low[k], high[k]});
      result.subsample.push_back(stride[k]);
      result.dilation.push_back(dilation[k]);
    }
    return result;
  }
  std::string describe() const {
    return fmt::format(
        "{} x {} w {} pad {},{},{} {},{},{} stride {},{},{} dilation {},{},{} groups {}{}",
        name_of(dtype), describe_shape(x()), describe_shape(w()), low[0], low[1], low[2], high[0],
        high[1], high[2], stride[0], stride[1], stride[2], dilation[0], dilation[1], dilation[2],
        groups, flip ? " flipped" : "");
  }

  /// Calls f(element of x, of w, of y) for every product.
  template <class F>
  void each(F&& f) const {
    const std::int64_t gi = c / groups, go = o / groups, all_taps = taps[0] * taps[1] * taps[2];
    const std::int64_t image = in[0] * in[1] * in[2], plane = out[0] * out[1] * out[2];
    for (std::int64_t p = 0; p < plane; ++p)
      for (std::int64_t t = 0; t < all_taps; ++t) {
        const Triple at{p / out[2] / out[1], p / out[2] % out[1], p % out[2]};
        const Triple tap{t / taps[2] / taps[1], t / taps[2] % taps[1], t % taps[2]};
        std::int64_t pixel = 0;
        bool inside = true;
        for (int k = 0; k < 3; ++k) {
          const std::int64_t i = at[k] * stride[k] + tap[k] * dilation[k] - low[k];
          inside = inside && i >= 0 && i < in[k];
          pixel = pixel * in[k] + i;
        }
        if (!inside) continue;
        const std::int64_t stored = flip ? all_taps - 1 - t : t;
        for (std::int64_t b = 0; b < n; ++b)
          for (std::int64_t k = 0; k < o; ++k)
            for (std::int64_t i = 0; i < gi; ++i)
              f((b * c + k / go * gi + i) * image + pixel, (k * gi + i) * all_taps + stored,
                (b * o + k) * plane + p);
      }
  }
};

/// Shape number `seed`. Some are of kinds that libraries have their own code for: pointwise, with
/// strides, depthwise.
Conv random_conv(unsigned seed) {
  std::mt19937 engine(seed);
  const auto pick = [&](std::initializer_list<std::int64_t> from) {
    return from.begin()[engine() % from.size()];
  };
  for (;;) {
    Conv s;
    s.axes = static_cast<int>(pick({1, 2, 2, 2, 2, 3}));
    const bool pointwise = pick({0, 0, 1}), padded = pick({0, 1}), exact = pick({0, 1});
    s.n = pick({1, 1, 2, 3, 4, 5, 7});
    s.groups = pick({1, 1, 1, 1, 2, 3, 8});
    const std::int64_t gi = pick({1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 32, 40});
    const std::int64_t go = pick({1, 1, 2, 3, 5, 8, 13, 16, 17, 24, 32, 48});
    s.c = gi * s.groups, s.o = go * s.groups;
    s.flip = pick({0, 1});
    s.dtype = pick({0, 0, 0, 0, 1}) ? (pick({0, 1}) ? DType::BF16 : DType::F16) : DType::F32;
    bool good = true;
    for (int k = 3 - s.axes; k < 3; ++k) {
      s.stride[k] = pick({1, 1, 2, 2, 3});
      s.taps[k] = pointwise ? 1 : pick({1, 2, 3, 3, 5});
      s.dilation[k] = pick({1, 1, 1, 2});
      if (padded) s.low[k] = pick({0, 1, 2}), s.high[k] = pick({0, 1, 2});
      s.out[k] = s.axes == 3 ? pick({1, 2, 3, 5}) : pick({1, 2, 3, 5, 6, 8, 12, 14, 17, 28});
      // What is left behind the last window; `exact`: the size is a multiple of the stride.
      const std::int64_t rest =
          exact ? s.stride[k] - 1 : static_cast<std::int64_t>(engine() % s.stride[k]);
      s.in[k] = (s.out[k] - 1) * s.stride[k] + (s.taps[k] - 1) * s.dilation[k] + 1 + rest -
                s.low[k] - s.high[k];
      good = good && s.in[k] >= 1;
    }
    if (good && s.products() <= 400'000) return s;
  }
}

void check(const Conv& s, unsigned seed) {
  const Array xv = random_array(s.x(), seed + 1, -1, 1, s.dtype),
              wv = random_array(s.w(), seed + 2, -1, 1, s.dtype),
              gv = random_array(s.y(), seed + 3, -1, 1, s.dtype);
  const auto doubles = [](const Array& a) {
    std::vector<double> v(static_cast<std::size_t>(a.size()));
    for (std::int64_t i = 0; i < a.size(); ++i) v[i] = a.at_double(i);
    return v;
  };
  // y, the gradient by x, the gradient by w; and the sums of magnitudes.
  const std::vector<double> xd = doubles(xv), wd = doubles(wv), gd = doubles(gv);
  std::array<std::vector<double>, 3> want, sums;
  want[0].resize(gd.size()), want[1].resize(xd.size()), want[2].resize(wd.size());
  sums = want;
  s.each([&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    const double products[] = {xd[xi] * wd[wi], gd[yi] * wd[wi], gd[yi] * xd[xi]};
    const std::int64_t at[] = {yi, xi, wi};
    for (int k = 0; k < 3; ++k) {
      want[k][at[k]] += products[k];
      sums[k][at[k]] += std::fabs(products[k]);
    }
  });

  const Expr x = tensor(s.dtype, s.axes + 2, "x"), w = tensor(s.dtype, s.axes + 2, "w"),
             g = tensor(s.dtype, s.axes + 2, "g");
  const Expr y = (s.axes == 1 ? conv1d : s.axes == 2 ? conv2d : conv3d)(x, w, s.options());
  const std::vector<Expr> grads = Lop({y}, {x, w}, {g});
  const Expr all[] = {y, grads[0], grads[1]};
  // All three in one function, or one of them alone.
  std::vector<int> wanted{0, 1, 2};
  if (seed % 4 > 0) wanted = {static_cast<int>(seed % 4) - 1};
  std::vector<Expr> outputs;
  for (int k : wanted) outputs.push_back(all[k]);
  const double eps = s.dtype == DType::F32 ? 0x1p-24 : s.dtype == DType::F16 ? 0x1p-11 : 0x1p-8;
  for (const int threads : {1, 2}) {
    CompileOptions options;
    options.threads = threads;
    FencedRun run({x, w, g}, outputs, {}, {xv, wv, gv}, options, false);
    for (int again = 0; again < 2; ++again) {
      const std::vector<Array> got = run.run_apart();
      for (std::size_t r = 0; r < got.size(); ++r) {
        const int k = wanted[r];
        ASSERT_EQ(static_cast<std::size_t>(got[r].size()), want[k].size());
        for (std::size_t e = 0; e < want[k].size(); ++e) {
          const double tolerance = eps * (std::fabs(want[k][e]) + 1e-3) + 4e-6 * sums[k][e];
          // Written so that NaN fails.
          ASSERT_TRUE(std::fabs(got[r].at_double(e) - want[k][e]) <= tolerance)
              << "result " << k << " element " << e << " is " << got[r].at_double(e) << ", not "
              << want[k][e] << ", run " << again;
        }
      }
    }
  }
}

class ConvSweep : public ::testing::TestWithParam<unsigned> {};

TEST_P(ConvSweep, OfRandomShapes) {
  const unsigned count = std::getenv("SNUG_LONG") ? 400 : 40;
  for (unsigned k = 0; k < count; ++k) {
    const unsigned seed = GetParam() * 100'000 + k;
    const Conv s = random_conv(seed);
    SCOPED_TRACE(fmt::format("shape {}: {}", seed, s.describe()));
    check(s, seed);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, ConvSweep, ::testing::Range(0u, 8u));

/// 1 x 1 filters with strides and few channels: oneDNN writes past its scratchpad here.
TEST(ConvShapes, PointwiseWithStridesAndFewChannels) {
  for (const std::int64_t c : {1, 3, 8, 15, 16})
    for (const std::int64_t o : {1, 24})
      for (const std::int64_t n : {1, 5})
        for (const auto& [out, stride] : {std::pair{Triple{1, 17, 14}, Triple{1, 1, 2}},
                                          {{1, 12, 8}, {1, 2, 1}},
                                          {{1, 6, 14}, {1, 3, 2}},
                                          {{1, 1, 28}, {1, 2, 2}}}) {
          Conv s{.n = n, .c = c, .o = o, .out = out, .stride = stride};
          for (int k = 0; k < 3; ++k) s.in[k] = out[k] * stride[k];
          SCOPED_TRACE(s.describe());
          check(s, 3);  // the gradient by filters
          if (HasFatalFailure() || HasNonfatalFailure()) return;
        }
}

/// Wide filters, one row of taps, few pixels, small groups: where oneDNN's fast code ends. Large
/// enough to be cut into parts.
const Conv kOddShapes[] = {
    {.n = 6, .c = 1, .o = 20, .in = {1, 16, 60}, .taps = {1, 3, 60}, .out = {1, 14, 1}},
    {.n = 3,
     .c = 2,
     .o = 10,
     .in = {1, 9, 50},
     .taps = {1, 3, 49},
     .out = {1, 9, 50},
     .low = {0, 1, 24},
     .high = {0, 1, 24}},
    {.n = 8, .c = 40, .o = 48, .in = {1, 5, 30}, .taps = {1, 1, 25}, .out = {1, 5, 6}},
    {.n = 1,
     .c = 384,
     .o = 512,
     .in = {1, 2, 3},
     .taps = {1, 3, 3},
     .out = {1, 2, 3},
     .low = {0, 1, 1},
     .high = {0, 1, 1}},
    {.n = 9,
     .c = 12,
     .o = 24,
     .groups = 6,
     .in = {1, 40, 40},
     .taps = {1, 3, 3},
     .out = {1, 40, 40},
     .low = {0, 1, 1},
     .high = {0, 1, 1}},
    {.n = 2,
     .c = 70,
     .o = 72,
     .in = {1, 24, 25},
     .taps = {1, 3, 3},
     .out = {1, 8, 12},
     .stride = {1, 3, 2},
     .dilation = {1, 1, 1}},
};

TEST(ConvShapes, WhereFastCodeEnds) {
  for (const Conv& s : kOddShapes) {
    SCOPED_TRACE(s.describe());
    check(s, 4);  // all three results
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

/// Not a number and infinity where filters and gradients meet padding, which takes no part.
TEST(ConvShapes, PaddingTakesNoPart) {
  for (Conv s : kOddShapes) {
    for (int k = 1; k < 3; ++k) {
      s.low[k] = s.high[k] = 1;
      s.out[k] = (s.in[k] + 2 - s.taps[k]) / s.stride[k] + 1;
    }
    s.n = 1;
    SCOPED_TRACE(s.describe());
    const Array xv = random_array(s.x(), 1);
    Array wv = random_array(s.w(), 2), gv = random_array(s.y(), 3);
    wv.set_double(0, std::nan(""));
    wv.set_double(wv.size() - 1, INFINITY);
    gv.set_double(0, INFINITY);
    std::vector<double> y(gv.size()), dw(wv.size());
    s.each([&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
      y[yi] += xv.at_double(xi) * wv.at_double(wi);
      dw[wi] += xv.at_double(xi) * gv.at_double(yi);
    });
    const Expr x = tensor(s.dtype, 4, "x"), w = tensor(s.dtype, 4, "w"),
               g = tensor(s.dtype, 4, "g");
    const Expr result = conv2d(x, w, s.options());
    const Function f = function({x, w, g}, {result, Lop({result}, {w}, {g})[0]});
    const std::vector<Array> got = f.call({xv, wv, gv});
    const auto expect_same_kind = [](const Array& a, const std::vector<double>& want) {
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(std::isfinite(a.at_double(i)), std::isfinite(want[i])) << i;
        if (std::isfinite(want[i])) {
          ASSERT_NEAR(a.at_double(i), want[i], 1e-3) << i;
        }
      }
    };
    expect_same_kind(got[0], y);
    expect_same_kind(got[1], dw);
  }
}

/// Square images and filters as networks have them, padded by half of the filter.
Conv layer(std::int64_t n, std::int64_t c, std::int64_t o, std::int64_t size, std::int64_t taps,
           std::int64_t stride, std::int64_t groups = 1) {
  Conv s{.n = n, .c = c, .o = o, .groups = groups, .flip = false};
  for (int k = 1; k < 3; ++k) {
    s.in[k] = size, s.taps[k] = taps, s.stride[k] = stride;
    s.low[k] = s.high[k] = taps / 2;
    s.out[k] = (size + 2 * (taps / 2) - taps) / stride + 1;
  }
  return s;
}

/// Parts follow from the sizes, never from the threads. Shapes of VGG, ResNet50, MobileNet and
/// U-Net, for each way to cut: by images, rows and channels, and sums of filters.
TEST(ConvShapes, SameBitsWhateverTheThreads) {
  std::vector<Conv> shapes(std::begin(kOddShapes), std::end(kOddShapes));
  for (const Conv& s :
       {layer(2, 3, 64, 112, 3, 1), layer(2, 64, 64, 56, 3, 1), layer(1, 128, 256, 28, 3, 1),
        layer(8, 3, 64, 64, 7, 2), layer(8, 64, 256, 28, 1, 1), layer(2, 256, 512, 28, 1, 2),
        layer(8, 512, 512, 7, 3, 1), layer(1, 512, 2048, 7, 1, 1), layer(5, 128, 128, 28, 3, 2),
        layer(9, 144, 144, 28, 3, 1, 144), layer(1, 96, 96, 56, 3, 2, 96),
        layer(1, 64, 64, 128, 3, 1), layer(2, 256, 128, 32, 3, 1)})
    shapes.push_back(s);
  for (const Conv& s : shapes) {
    SCOPED_TRACE(s.describe());
    const Expr x = tensor(s.dtype, 4, "x"), w = tensor(s.dtype, 4, "w"),
               g = tensor(s.dtype, 4, "g");
    const Expr y = conv2d(x, w, s.options());
    const std::vector<Expr> grads = Lop({y}, {x, w}, {g});
    const std::vector<Array> arguments{random_array(s.x(), 1), random_array(s.w(), 2),
                                       random_array(s.y(), 3)};
    std::vector<Array> alone;
    for (const int threads : {1, 2, 3}) {
      const Function f = function({x, w, g}, {y, grads[0], grads[1]}, {.threads = threads});
      const std::vector<Array> got = f.call(arguments);
      if (threads == 1) alone = got;
      for (std::size_t k = 0; k < got.size(); ++k)
        ASSERT_EQ(std::memcmp(got[k].data, alone[k].data, static_cast<std::size_t>(got[k].bytes())),
                  0)
            << "result " << k << " with " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace snug
