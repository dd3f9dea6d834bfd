// Convolutions of random shapes and their gradients, against the same by columns and a product.
// From the root of a built tree:
//
//   g++ -O2 -std=c++20 -Isrc benchmarks/convolution_sweep.cpp -Lbuild -lsnug -lfmt
//       -Wl,-rpath,$PWD/build -o /tmp/convolution_sweep
//   /tmp/convolution_sweep [FIRST [COUNT [WORST]]]
//
// Shapes number FIRST and on are timed on one thread: as a function runs them (channels last), and
// by plain columns of the image and OpenBLAS (channels first). The least processor time of several
// runs in turn.// Prints how the ratios are spread and the WORST of them; ends early after 100 s.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <random>

#include "backend/native/blas_buffers.h"
#include "backend/native/conv.h"
#include "backend/native/conv_last.h"
#include "backend/onednn/routines.h"
#include "ops/rows.h"

namespace {

using namespace snug;
using native::ConvKind;
using Clock = std::chrono::steady_clock;
using Pair = std::array<std::int64_t, 2>;  // rows, columns

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of this thread: what others take of the machine does not count.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Shape {
  std::int64_t n = 1, c = 1, o = 1, groups = 1;
  Pair in{}, taps{1, 1}, out{}, pad{}, stride{1, 1}, dilation{1, 1};

  std::int64_t products() const {
    return n * o * (c / groups) * out[0] * out[1] * taps[0] * taps[1];
  }
  std::int64_t columns() const { return c * out[0] * out[1] * taps[0] * taps[1]; }
  std::string describe() const {
    return fmt::format(
        "x {},{},{},{} w {},{},{},{} pad {},{} stride {},{} dilation {},{} groups {}", n, c, in[0],
        in[1], o, c / groups, taps[0], taps[1], pad[0], pad[1], stride[0], stride[1], dilation[0],
        dilation[1], groups);
  }
};

/// Of all kinds that libraries treat apart: wide filters, one row of taps, many channels with few
/// pixels, groups, depthwise, dilation, strides beyond the filter, three or odd numbers of
/// channels.
Shape random_shape(unsigned seed) {
  std::mt19937 engine(seed);
  const auto pick = [&](std::initializer_list<std::int64_t> from) {
    return from.begin()[engine() % from.size()];
  };
  for (;;) {
    Shape s;
    s.n = pick({1, 1, 2, 4, 8, 16, 32, 50, 64});
    const std::int64_t few = pick({1, 2, 3, 3, 5, 7, 8, 13, 16, 17, 20, 30, 32, 48, 64, 65, 96});
    const std::int64_t out = pick({1, 2, 3, 5, 8, 10, 16, 20, 30, 32, 33, 64, 96, 100, 128});
    s.c = few, s.o = out;
    s.in = {pick({7, 14, 16, 28, 32, 56, 64, 100}), pick({7, 14, 16, 28, 32, 56, 64, 100})};
    s.taps = {pick({1, 2, 3, 3, 5, 7}), pick({1, 2, 3, 3, 5, 7})};
    switch (engine() % 8) {
      case 0:  // as wide as the images, or nearly
        s.in[1] = pick({50, 80, 100, 128, 160, 300});
        s.taps[1] = std::max<std::int64_t>(1, s.in[1] - pick({0, 0, 0, 1, 5, 20}));
        break;
      case 1:  // along one axis
        s.taps = {1, pick({3, 5, 9, 15, 25, 64})};
        if (engine() % 2) std::swap(s.taps[0], s.taps[1]);
        if (engine() % 2) s.in[0] = s.taps[0] == 1 ? 1 : s.in[0];
        break;
      case 2:  // many channels, few pixels
        s.c = pick({256, 384, 512, 1000, 1024, 2048}), s.o = pick({10, 64, 256, 500, 512, 1024});
        s.in = {pick({1, 2, 4, 7}), pick({1, 2, 4, 7})};
        s.taps = {pick({1, 3}), pick({1, 3})};
        s.n = pick({1, 1, 2, 8, 32});
        break;
      case 3:  // groups
        s.groups = pick({2, 3, 4, 8, 32});
        s.c = s.groups * pick({1, 2, 3, 4, 8, 16}), s.o = s.groups * pick({1, 2, 3, 4, 8, 16});
        break;
      case 4:  // depthwise
        s.c = s.o = s.groups = pick({3, 8, 16, 30, 32, 64, 100, 128, 256});
        break;
      case 5: s.dilation = {pick({1, 2, 3, 4}), pick({2, 3, 4})}; break;
      case 6:  // strides beyond the filter
        s.taps = {pick({1, 1, 2, 3}), pick({1, 1, 2, 3})};
        s.stride = {s.taps[0] + pick({0, 1, 2}), s.taps[1] + pick({0, 1, 2})};
        break;
      default: s.stride = {pick({1, 1, 2, 4}), pick({1, 1, 2, 4})};
    }
    bool good = true;
    for (int k = 0; k < 2; ++k) {
      const std::int64_t reach = (s.taps[k] - 1) * s.dilation[k];
      s.pad[k] = pick({0, 0, reach / 2, reach / 2, reach});
      const std::int64_t free = s.in[k] + 2 * s.pad[k] - reach - 1;
      good = good && free >= 0;
      s.out[k] = free / s.stride[k] + 1;
    }
    if (good && s.products() >= 100'000 && s.products() <= 300'000'000 && s.columns() <= 16'000'000)
      return s;
  }
}

/// One call with its memory.
struct Run {
  std::unique_ptr<PreparedCall> call;
  std::vector<float> memory[3], workspace;

  Run(const CallSite& site, std::unique_ptr<PreparedCall> prepared) : call(std::move(prepared)) {
    for (int i = 0; i < 3; ++i) {
      const Dims& shape = (i < 2 ? site.in[i] : site.out[0]).shape;
      memory[i].resize(product(shape));
      for (std::size_t k = 0; k < memory[i].size(); ++k) memory[i][k] = float(k % 13) - 6;
    }
    workspace.resize(call->workspace / sizeof(float) + 16);
    call->make_ready();
  }
  double time() {
    const auto bytes = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
    std::byte* const in[] = {bytes(memory[0]), bytes(memory[1])};
    std::byte* const out[] = {bytes(memory[2])};
    RunArgs args;
    args.in = in, args.out = out;
    const auto start = bytes(workspace);
    args.workspace = start + (64 - reinterpret_cast<std::uintptr_t>(start) % 64) % 64;
    const double began = processor_seconds();
    call->run(args);
    return processor_seconds() - began;
  }
};

ArgDesc dense(const Dims& shape) {
  ArgDesc a{DType::F32, shape, shape};
  std::int64_t step = 1;
  for (std::size_t k = shape.size(); k-- > 0; step *= shape[k]) a.strides[k] = step;
  return a;
}

CallSite site_of(const Shape& s, ConvKind kind, const Node& node, bool last) {
  const auto images = [&](std::int64_t channels, const Pair& size) {
    return dense(last ? Dims{s.n, size[0], size[1], channels}
                      : Dims{s.n, channels, size[0], size[1]});
  };
  const ArgDesc x = images(s.c, s.in), y = images(s.o, s.out),
                w = dense({s.o, s.c / s.groups, s.taps[0], s.taps[1]});
  CallSite site;
  site.node = &node;
  site.in = kind == ConvKind::Forward     ? std::vector{x, w}
            : kind == ConvKind::GradInput ? std::vector{w, y}
                                          : std::vector{x, y};
  site.out = {kind == ConvKind::Forward ? y : kind == ConvKind::GradInput ? x : w};
  return site;
}

struct Row {
  double ratio, ours, columns, last;
  std::string what;
};

Row measure(const Shape& s, unsigned seed, ConvKind kind) {
  Node node;
  node.op = &ops::conv2d;
  node.attrs = Attrs{{"pad", Attrs::Ints{s.pad[0], s.pad[0], s.pad[1], s.pad[1]}},
                     {"stride", Attrs::Ints{s.stride[0], s.stride[1]}},
                     {"dilation", Attrs::Ints{s.dilation[0], s.dilation[1]}},
                     {"flip", true},
                     {"groups", s.groups}};
  const CallSite last = site_of(s, kind, node, true), plain = site_of(s, kind, node, false);
  Run ours(last, kind == ConvKind::Forward     ? onednn::prepare_conv2d_last(last)
                 : kind == ConvKind::GradInput ? onednn::prepare_conv2d_grad_input_last(last)
                                               : onednn::prepare_conv2d_grad_weight_last(last));
  Run columns(plain, native::prepare_conv(plain, kind));
  Run columns_last(last, native::prepare_conv_last(last, kind));
  const auto began = Clock::now();
  double best = 1e9, other = 1e9, third = 1e9;
  for (int k = 0; k < 1 || (k < 30 && seconds_since(began) < 0.1); ++k) {
    best = std::min(best, ours.time());
    other = std::min(other, columns.time());
    third = std::min(third, columns_last.time());
  }
  const char* const names[] = {"forward", "by images", "by filters"};
  return {best / other, best * 1e3, other * 1e3, third * 1e3,
          fmt::format("{:5} {:10} {}", seed, names[static_cast<int>(kind)], s.describe())};
}

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int k, unsigned otherwise) {
    return count > k ? static_cast<unsigned>(std::atoi(arguments[k])) : otherwise;
  };
  const unsigned first = argument(1, 0), shapes = argument(2, 200), worst = argument(3, 20);
  const native::BlasBuffers buffers(1);
  const auto began = Clock::now();
  std::vector<Row> rows;
  unsigned seed = first;
  for (; seed < first + shapes && seconds_since(began) < 100; ++seed) {
    const Shape s = random_shape(seed);
    for (const ConvKind kind : {ConvKind::Forward, ConvKind::GradInput, ConvKind::GradWeight})
      rows.push_back(measure(s, seed, kind));
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ratio > b.ratio; });
  double logs = 0;
  for (const Row& r : rows) logs += std::log(r.ratio);
  const auto above = [&](double limit) {
    return std::count_if(rows.begin(), rows.end(), [&](const Row& r) { return r.ratio > limit; });
  };
  fmt::print(
      "{} calls of shapes {} to {}: time by that of columns {:.3f} in the geometric mean,\n"
      "above 1 in {}, above 1.5 in {}, above 2 in {}\n\n ratio       ms  columns  columns of "
      "channels last\n",
      rows.size(), first, seed - 1, std::exp(logs / rows.size()), above(1), above(1.5), above(2));
  for (std::size_t k = 0; k < std::min<std::size_t>(worst, rows.size()); ++k)
    fmt::print("{:6.2f} {:8.3f} {:8.3f} {:8.3f}  {}\n", rows[k].ratio, rows[k].ours,
               rows[k].columns, rows[k].last, rows[k].what);
}
