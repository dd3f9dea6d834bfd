// What oneDNN's convolutions take in the layouts that a compiler may choose from, alone.
//
//   g++ -O2 -std=c++17 benchmarks/convolutions.cpp -ldnnl -o /tmp/convolutions && /tmp/convolutions
//
// Per shape and direction, the best of 7 in ms with 2 threads: images channels last; images as
// oneDNN likes them best; and, for gradients by images with stride 1, the forward convolution of
// turned filters that gives the same, channels last. Filters are in the library's own order; what
// turning them costs is not in it. Works with the interfaces of oneDNN 2 and 3.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <vector>

#include "network_convolutions.h"

using namespace dnnl;
using Shape = NetworkConvolution;
using Tag = memory::format_tag;

engine cpu(engine::kind::cpu, 0);
stream queue(cpu);

memory filled(const memory::desc& d) {
  memory m(d, cpu);
  auto* p = static_cast<float*>(m.get_data_handle());
  for (std::size_t i = 0; i < d.get_size() / sizeof(float); ++i) p[i] = float(i % 7) - 3;
  return m;
}

double best_of(primitive p, const std::unordered_map<int, memory>& arguments) {
  double best = 1e9;
  for (int k = 0; k < 7; ++k) {
    auto start = std::chrono::steady_clock::now();
    p.execute(queue, arguments);
    queue.wait();
    std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

enum class Direction { Forward, Images, Filters };

double run(Direction direction, const Shape& s, Tag images) {
  const memory::dim out_size = (s.size + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
  const memory::dims x{s.images, s.in, s.size, s.size}, w{s.out, s.in, s.kernel, s.kernel},
      y{s.images, s.out, out_size, out_size}, stride{s.stride, s.stride},
      pad{s.kernel / 2, s.kernel / 2};
  // What lies beyond the last window is not padding.
  const memory::dim rest = (out_size - 1) * s.stride + s.kernel - s.size - s.kernel / 2;
  const memory::dims after{rest, rest};
  const auto f32 = memory::data_type::f32;
  const auto direct = algorithm::convolution_direct;
  const memory::desc xd(x, f32, images), wd(w, f32, Tag::any), yd(y, f32, images);
#if DNNL_VERSION_MAJOR >= 3
  convolution_forward::primitive_desc forward(cpu, prop_kind::forward_training, direct, xd, wd, yd,
                                              stride, pad, after);
  const auto by_images = [&] {
    return convolution_backward_data::primitive_desc(cpu, direct, xd, wd, yd, stride, pad, after,
                                                     forward);
  };
  const auto by_filters = [&] {
    return convolution_backward_weights::primitive_desc(cpu, direct, xd, wd, yd, stride, pad, after,
                                                        forward);
  };
#else
  convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, direct, xd, wd, yd, stride, pad, after}, cpu);
  const auto by_images = [&] {
    return convolution_backward_data::primitive_desc({direct, xd, wd, yd, stride, pad, after}, cpu,
                                                     forward);
  };
  const auto by_filters = [&] {
    return convolution_backward_weights::primitive_desc({direct, xd, wd, yd, stride, pad, after},
                                                        cpu, forward);
  };
#endif
  if (direction == Direction::Forward)
    return best_of(convolution_forward(forward),
                   {{DNNL_ARG_SRC, filled(forward.src_desc())},
                    {DNNL_ARG_WEIGHTS, filled(forward.weights_desc())},
                    {DNNL_ARG_DST, filled(forward.dst_desc())}});
  if (direction == Direction::Images) {
    auto d = by_images();
    return best_of(convolution_backward_data(d), {{DNNL_ARG_DIFF_SRC, filled(d.diff_src_desc())},
                                                  {DNNL_ARG_WEIGHTS, filled(d.weights_desc())},
                                                  {DNNL_ARG_DIFF_DST, filled(d.diff_dst_desc())}});
  }
  auto d = by_filters();
  return best_of(convolution_backward_weights(d),
                 {{DNNL_ARG_SRC, filled(d.src_desc())},
                  {DNNL_ARG_DIFF_WEIGHTS, filled(d.diff_weights_desc())},
                  {DNNL_ARG_DIFF_DST, filled(d.diff_dst_desc())}});
}

int main() {
  setenv("OMP_NUM_THREADS", "2", 0);
  const version_t* v = version();
  std::printf("oneDNN %d.%d.%d      forward      by images             by filters\n", v->major,
              v->minor, v->patch);
  std::printf("                         last    any    last    any  turned    last    any\n");
  std::vector<double> sum(7);
  const char* network = kNetworkConvolutions[0].network;
  auto total = [&] {
    std::printf("%-10s sum      ", network);
    for (double t : sum) std::printf("%8.1f", t);
    std::printf("\n\n");
    std::fill(sum.begin(), sum.end(), 0);
  };
  for (const Shape& s : kNetworkConvolutions) {
    if (std::string(network) != s.network) {
      total();
      network = s.network;
    }
    const bool first = s.in <= 3;  // nobody asks for its gradient by images
    Shape turned = s;
    std::swap(turned.in, turned.out);
    const double times[] = {
        run(Direction::Forward, s, Tag::nhwc),
        run(Direction::Forward, s, Tag::any),
        first ? 0 : run(Direction::Images, s, Tag::nhwc),
        first ? 0 : run(Direction::Images, s, Tag::any),
        first           ? 0
        : s.stride == 1 ? run(Direction::Forward, turned, Tag::nhwc)
                        : run(Direction::Images, s, Tag::nhwc),
        run(Direction::Filters, s, Tag::nhwc),
        run(Direction::Filters, s, Tag::any),
    };
    std::printf("%d x %d %4d->%-4d %3d k%d s%d", s.count, s.images, s.in, s.out, s.size, s.kernel,
                s.stride);
    for (int k = 0; k < 7; ++k) {
      std::printf("%8.2f", times[k]);
      sum[k] += s.count * times[k];
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  total();
}
