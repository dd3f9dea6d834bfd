#include <complex>
#include <new>

#include "backend/native/call.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"

#define POCKETFFT_NO_MULTITHREADING
#define POCKETFFT_CACHE_SIZE 16
#include <pocketfft/pocketfft_hdronly.h>

// pocketfft takes memory of its own: tables per length, which it keeps for the lengths used last,
// and scratch for a few lines per thread.

namespace snug::native {
namespace {

enum class Kind : std::uint8_t { Complex, Real, InverseReal };

class FftCall : public Call {
 public:
  FftCall(const CallSite& site, Kind kind)
      : Call(site), kind_(kind), axis_(site.node->attrs.integer("axis")) {
    forward_ = kind == Kind::Real || (kind == Kind::Complex && !site.node->attrs.flag("inverse"));
  }

  void run(const RunArgs& args) const override {
    if (out(args, 0).dtype == DType::F32)
      run_typed<float>(args);
    else
      run_typed<double>(args);
  }

 private:
  template <class T>
  void run_typed(const RunArgs& args) const {
    const Dims &x = in(args, 0).shape, &y = out(args, 0).shape;
    const std::size_t ndim = kind_ == Kind::Real ? x.size() : x.size() - 1;
    std::int64_t before = 1, behind = 1;
    for (std::size_t k = 0; k < ndim; ++k) {
      const auto at = static_cast<std::int64_t>(k);
      if (at != axis_) (at < axis_ ? before : behind) *= x[k];
    }
    const Lines<T> lines{before, behind, x[axis_], y[axis_], args.in[0], args.out[0]};
    const std::int64_t points = std::max(lines.in, lines.out) * before * behind;
    const bool by_rows = before >= behind;
    bool no_memory = false;
    parallel_ranges(by_rows ? before : behind, points, threads_,
                    [&](std::int64_t begin, std::int64_t end) {
                      try {
                        by_rows ? transform(lines, begin, end, 0, behind)
                                : transform(lines, 0, before, begin, end);
                      } catch (const std::bad_alloc&) {
#pragma omp atomic write
                        no_memory = true;
                      }
                    });
    if (no_memory)
      fail(Fault::Memory, fmt::format("fft: there is no memory for a line of {} points", lines.in));
  }

  /// Lines along an axis: how many before and behind it, their lengths.
  template <class T>
  struct Lines {
    std::int64_t before, behind, in, out;
    const std::byte* from;
    std::byte* to;
  };

  /// The lines of [begin, end) before the axis and [first, last) behind it.
  template <class T>
  void transform(const Lines<T>& l, std::int64_t begin, std::int64_t end, std::int64_t first,
                 std::int64_t last) const {
    const std::int64_t in_width = sizeof(T) * (kind_ == Kind::Real ? 1 : 2);
    const std::int64_t out_width = sizeof(T) * (kind_ == Kind::InverseReal ? 1 : 2);
    if (begin == end || first == last || l.in == 0) return;
    auto shape = [&](std::int64_t length) {
      return pocketfft::shape_t{static_cast<std::size_t>(end - begin),
                                static_cast<std::size_t>(length),
                                static_cast<std::size_t>(last - first)};
    };
    auto strides = [&](std::int64_t length, std::int64_t width) {
      return pocketfft::stride_t{length * l.behind * width, l.behind * width, width};
    };
    const std::byte* from = l.from + (begin * l.in * l.behind + first) * in_width;
    std::byte* to = l.to + (begin * l.out * l.behind + first) * out_width;
    const pocketfft::stride_t si = strides(l.in, in_width), so = strides(l.out, out_width);
    const auto* complex_from = reinterpret_cast<const std::complex<T>*>(from);
    auto* complex_to = reinterpret_cast<std::complex<T>*>(to);
    if (kind_ == Kind::Complex)
      pocketfft::c2c(shape(l.in), si, so, {1}, forward_, complex_from, complex_to, T(1));
    else if (kind_ == Kind::Real)
      pocketfft::r2c(shape(l.in), si, so, 1, forward_, reinterpret_cast<const T*>(from), complex_to,
                     T(1));
    else
      pocketfft::c2r(shape(l.out), si, so, 1, forward_, complex_from, reinterpret_cast<T*>(to),
                     T(1));
  }

  Kind kind_;
  std::int64_t axis_;
  bool forward_;
};

}  // namespace

Prepared prepare_fft(const CallSite& site) {
  return std::make_unique<FftCall>(site, Kind::Complex);
}
Prepared prepare_rfft(const CallSite& site) { return std::make_unique<FftCall>(site, Kind::Real); }
Prepared prepare_irfft(const CallSite& site) {
  return std::make_unique<FftCall>(site, Kind::InverseReal);
}

}  // namespace snug::native
