// Convolutions of networks in parts of one thread each, beside oneDNN's own threads. From the root
// of a built tree:
//
//   g++ -O2 -std=c++20 -fopenmp -Isrc benchmarks/convolution_parts.cpp -Lbuild -lsnug -lfmt -ldnnl
//       -Wl,-rpath,$PWD/build -o /tmp/convolution_parts
//   /tmp/convolution_parts [NETWORK [THREADS]]
//
// Per shape and direction the best of several runs in turn, in ms, with what reordering filters
// takes on both sides, and the ratio. oneDNN alone works on images with channels last, and does
// gradients by images with stride 1 as forward convolutions.
#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <dnnl.hpp>

#include "backend/native/blas_buffers.h"
#include "backend/native/conv.h"
#include "backend/onednn/routines.h"
#include "base/pool.h"
#include "network_convolutions.h"
#include "ops/rows.h"

namespace {

using namespace snug;
using native::ConvKind;
using Shape = NetworkConvolution;
using Tag = dnnl::memory::format_tag;
using Clock = std::chrono::steady_clock;

int threads = 2;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
std::int64_t out_size(const Shape& s) {
  return (s.size + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
}

ArgDesc dense(const Dims& shape) {
  ArgDesc a{DType::F32, shape, shape};
  std::int64_t step = 1;
  for (std::size_t k = shape.size(); k-- > 0; step *= shape[k]) a.strides[k] = step;
  return a;
}

/// As a function does it.
class Ours {
 public:
  Ours(const Shape& s, ConvKind kind) {
    const std::int64_t pad = s.kernel / 2, out = out_size(s);
    node_.op = &ops::conv2d;
    node_.attrs = Attrs{{"pad", Attrs::Ints{pad, pad, pad, pad}},
                        {"stride", Attrs::Ints{s.stride, s.stride}},
                        {"dilation", Attrs::Ints{1, 1}},
                        {"flip", false},
                        {"groups", std::int64_t{1}}};
    const ArgDesc x = dense({s.images, s.size, s.size, s.in}),
                  y = dense({s.images, out, out, s.out}),
                  w = dense({s.out, s.in, s.kernel, s.kernel});
    CallSite site;
    site.node = &node_;
    site.threads = threads;
    site.in = kind == ConvKind::Forward     ? std::vector{x, w}
              : kind == ConvKind::GradInput ? std::vector{w, y}
                                            : std::vector{x, y};
    site.out = {kind == ConvKind::Forward ? y : kind == ConvKind::GradInput ? x : w};
    call_ = kind == ConvKind::Forward     ? onednn::prepare_conv2d_last(site)
            : kind == ConvKind::GradInput ? onednn::prepare_conv2d_grad_input_last(site)
                                          : onednn::prepare_conv2d_grad_weight_last(site);
    for (int i = 0; i < 3; ++i)
      memory_[i].assign(product((i < 2 ? site.in[i] : site.out[0]).shape), 0.5F);
    workspace_.assign(call_->workspace / sizeof(float) + 16, 0);
    call_->make_ready();
  }
  double time() {
    const auto bytes = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
    std::byte* const in[] = {bytes(memory_[0]), bytes(memory_[1])};
    std::byte* const out[] = {bytes(memory_[2])};
    RunArgs args;
    args.in = in, args.out = out;
    args.workspace = bytes(workspace_);
    args.workspace += (64 - reinterpret_cast<std::uintptr_t>(args.workspace) % 64) % 64;
    const auto began = Clock::now();
    call_->run(args);
    return seconds_since(began);
  }

 private:
  Node node_;
  std::unique_ptr<PreparedCall> call_;
  std::vector<float> memory_[3], workspace_;
};

/// oneDNN by itself.
class Alone {
 public:
  Alone(const Shape& given, ConvKind kind) {
    omp_set_num_threads(threads);
    Shape s = given;
    const bool turned = kind == ConvKind::GradInput && s.stride == 1;
    if (turned) std::swap(s.in, s.out), kind = ConvKind::Forward;
    const dnnl::memory::dim out = out_size(s), pad = s.kernel / 2;
    const dnnl::memory::dim rest = (out - 1) * s.stride + s.kernel - s.size - pad;
    const dnnl::memory::dims filters{s.out, s.in, s.kernel, s.kernel}, stride{s.stride, s.stride},
        low{pad, pad}, high{rest, rest};
    const auto f32 = dnnl::memory::data_type::f32;
    const auto direct = dnnl::algorithm::convolution_direct;
    const dnnl::memory::desc x({s.images, s.in, s.size, s.size}, f32, Tag::nhwc),
        y({s.images, s.out, out, out}, f32, Tag::nhwc), any(filters, f32, Tag::any),
        plain(filters, f32, Tag::oihw);
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, direct, x, any, y, stride, low, high}, cpu());
    dnnl::memory::desc wanted = forward.weights_desc();
    dnnl::primitive conv;
    const bool by_filters = kind == ConvKind::GradWeight;
    int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (kind == ConvKind::Forward) {
      conv = dnnl::convolution_forward(forward);
    } else if (kind == ConvKind::GradInput) {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {direct, x, any, y, stride, low, high}, cpu(), forward);
      conv = dnnl::convolution_backward_data(pd);
      wanted = pd.weights_desc();
      names[0] = DNNL_ARG_DIFF_SRC, names[2] = DNNL_ARG_DIFF_DST;
    } else {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {direct, x, any, y, stride, low, high}, cpu(), forward);
      conv = dnnl::convolution_backward_weights(pd);
      wanted = pd.diff_weights_desc();
      names[1] = DNNL_ARG_DIFF_WEIGHTS, names[2] = DNNL_ARG_DIFF_DST;
    }
    const dnnl::memory user = filled(plain), inside = filled(wanted);
    if (!by_filters)
      add(dnnl::reorder(user, inside), {{DNNL_ARG_FROM, user}, {DNNL_ARG_TO, inside}});
    add(conv, {{names[0], filled(x)}, {names[1], inside}, {names[2], filled(y)}});
    if (by_filters)
      add(dnnl::reorder(inside, user), {{DNNL_ARG_FROM, inside}, {DNNL_ARG_TO, user}});
  }
  double time() {
    omp_set_num_threads(threads);
    const auto began = Clock::now();
    for (auto& [primitive, arguments] : steps_) primitive.execute(queue_, arguments);
    queue_.wait();
    return seconds_since(began);
  }

 private:
  using Arguments = std::unordered_map<int, dnnl::memory>;
  static dnnl::engine& cpu() {
    static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
  }
  static dnnl::memory filled(const dnnl::memory::desc& d) {
    dnnl::memory m(d, cpu());
    auto* p = static_cast<float*>(m.get_data_handle());
    std::fill_n(p, d.get_size() / sizeof(float), 0.5F);
    return m;
  }
  void add(const dnnl::primitive& primitive, const Arguments& arguments) {
    steps_.emplace_back(primitive, arguments);
  }

  std::vector<std::pair<dnnl::primitive, Arguments>> steps_;
  dnnl::stream queue_{cpu()};
};

void measure(const char* network) {
  const native::BlasBuffers buffers(threads);
  double logs = 0, worst = 0, sums[2] = {0, 0};
  int rows = 0;
  for (const Shape& s : kNetworkConvolutions) {
    if (network && std::strcmp(network, s.network) != 0) continue;
    fmt::print("{:10} {} x {} {:4}->{:<4} {:3} k{} s{}", s.network, s.count, s.images, s.in, s.out,
               s.size, s.kernel, s.stride);
    for (const ConvKind kind : {ConvKind::Forward, ConvKind::GradInput, ConvKind::GradWeight}) {
      if (kind == ConvKind::GradInput && s.in <= 3) {  // nobody asks for it
        fmt::print("{:26}", "");
        continue;
      }
      Ours ours(s, kind);
      Alone alone(s, kind);
      double best = 1e9, other = 1e9;
      const auto began = Clock::now();
      for (int k = 0; k < 2 || (k < 20 && seconds_since(began) < 0.25); ++k) {
        best = std::min(best, ours.time());
        other = std::min(other, alone.time());
      }
      fmt::print("  {:8.2f} {:8.2f} {:5.2f}", best * 1e3, other * 1e3, best / other);
      logs += std::log(best / other);
      worst = std::max(worst, best / other);
      sums[0] += s.count * best, sums[1] += s.count * other;
      ++rows;
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  fmt::print(
      "{} calls, {} threads: ratio {:.3f} in the geometric mean, {:.2f} at worst; sums {:.1f} "
      "and {:.1f} ms\n",
      rows, threads, std::exp(logs / rows), worst, sums[0] * 1e3, sums[1] * 1e3);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2) threads = std::atoi(arguments[2]);
  const char* const network =
      count > 1 && std::strcmp(arguments[1], "all") != 0 ? arguments[1] : nullptr;
  pool_threads(threads);
  measure(network);
}
