#include "backend/native/conv.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>

#include "backend/native/blas_buffers.h"
#include "backend/native/call.h"
#include "backend/native/conv_loops.h"
#include "backend/native/conv_unfold.h"
#include "backend/native/gemm.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "base/elements.h"

namespace snug::native {
namespace {

/// A kernel of one tap that moves over every element: the columns are the image.
bool pointwise(const ConvShape& s) {
  return s.taps() == 1 && s.sd == 1 && s.sh == 1 && s.sw == 1 && s.od == s.d && s.oh == s.h &&
         s.ow == s.w && s.front == 0 && s.top == 0 && s.left == 0;
}

const std::byte* bytes(const void* p) { return static_cast<const std::byte*>(p); }
std::byte* target(void* p) { return static_cast<std::byte*>(p); }

/// Forward, lines of y that are done together: few enough that their columns stay in caches.
constexpr std::int64_t kLineColumns = 1 << 16;  // elements
std::int64_t lines_at_once(const ConvShape& s) {
  const std::int64_t line = std::max<std::int64_t>(s.group_in() * s.taps() * s.ow, 1);
  return std::clamp<std::int64_t>(kLineColumns / line, 1, std::max<std::int64_t>(s.lines(), 1));
}
std::int64_t parts_of_lines(const ConvShape& s) {
  return (s.lines() + lines_at_once(s) - 1) / lines_at_once(s);
}

/// y = w . columns, lines [from, to) of one image and group.
template <class T>
void forward_lines(const ConvShape& s, std::int64_t n, std::int64_t group, std::int64_t from,
                   std::int64_t to, const T* x, const T* w, T* y, T* columns, int threads) {
  const std::int64_t plane = s.plane(), depth = s.group_in() * s.taps(), at = from * s.ow;
  x += (n * s.c + group * s.group_in()) * s.image();
  if (!pointwise(s)) unfold(s, x, columns, from, to, threads);
  Gemm g;
  g.dtype = std::is_same_v<T, double> ? DType::F64 : DType::F32;
  g.m = s.group_out(), g.n = (to - from) * s.ow, g.k = depth;
  g.a = bytes(w + group * s.group_out() * depth), g.a_row = depth, g.a_col = 1;
  g.b = bytes(pointwise(s) ? x + at : columns), g.b_row = pointwise(s) ? plane : g.n, g.b_col = 1;
  g.c = target(y + (n * s.o + group * s.group_out()) * plane + at), g.c_row = plane, g.c_col = 1;
  blas_gemm(g, threads);
}

/// A gradient of one image and group; `columns` has group_in * taps * plane elements unless
/// pointwise.
template <class T>
void gradient(ConvKind kind, const ConvShape& s, std::int64_t n, std::int64_t group, const T* in0,
              const T* in1, T* out, T* columns, int threads) {
  const std::int64_t plane = s.plane(), depth = s.group_in() * s.taps();
  const std::int64_t x_at = (n * s.c + group * s.group_in()) * s.image();
  const std::int64_t w_at = group * s.group_out() * depth;
  const std::int64_t y_at = (n * s.o + group * s.group_out()) * plane;
  Gemm g;
  g.dtype = std::is_same_v<T, double> ? DType::F64 : DType::F32;
  if (kind == ConvKind::GradInput) {  // columns = w^T . dy
    T* const to = pointwise(s) ? out + x_at : columns;
    g.m = depth, g.n = plane, g.k = s.group_out();
    g.a = bytes(in0 + w_at), g.a_row = 1, g.a_col = depth;
    g.b = bytes(in1 + y_at), g.b_row = plane, g.b_col = 1;
    g.c = target(to), g.c_row = plane, g.c_col = 1;
    blas_gemm(g, threads);
    if (!pointwise(s)) fold(s, columns, out + x_at, threads);
    return;
  }
  // dw += dy . columns^T
  if (!pointwise(s)) unfold(s, in0 + x_at, columns, 0, s.lines(), threads);
  g.m = s.group_out(), g.n = depth, g.k = plane;
  g.a = bytes(in1 + y_at), g.a_row = plane, g.a_col = 1;
  g.b = bytes(pointwise(s) ? in0 + x_at : columns), g.b_row = 1, g.b_col = plane;
  g.c = target(out + w_at), g.c_row = depth, g.c_col = 1;
  blas_gemm(g, threads, n > 0);
}

/// Unfolding serves a dtype and sizes that BLAS has.
bool unfolds(const ConvShape& s, DType dtype) {
  return (dtype == DType::F32 || dtype == DType::F64) &&
         std::max({s.group_in() * s.taps(), s.plane(), s.o}) <= INT_MAX;
}

/// Padding takes no part: a nan or an infinity that meets it counts for nothing, in oneDNN as in
/// our loops. Columns hold zeros there, and 0 * nan is nan, so such products go by loops.
template <class T>
bool meets_padding(ConvKind kind, const ConvShape& s, const T* other) {
  if (kind == ConvKind::GradInput) return false;  // its columns hold no padding
  if (s.front + s.back + s.top + s.bottom + s.left + s.right == 0) return false;
  const std::int64_t count =
      kind == ConvKind::Forward ? s.o * s.group_in() * s.taps() : s.n * s.o * s.plane();
  return !std::all_of(other, other + count, [](T v) { return std::isfinite(v); });
}

/// Lines of images forward, whole images backward.
std::int64_t part_count(ConvKind kind, const ConvShape& s) {
  return kind == ConvKind::Forward ? s.n * parts_of_lines(s) : s.n;
}
/// How many parts are done at a time, each by one thread; a part by itself is shared by all. The
/// images of a weight's gradient add up in order.
std::int64_t parts_at_once(ConvKind kind, const ConvShape& s, int threads) {
  return kind != ConvKind::GradWeight && part_count(kind, s) >= threads ? threads : 1;
}

/// Not less for larger sizes, so that what is planned for a bound serves.
std::uint64_t columns_bytes(ConvKind kind, const ConvShape& s, DType dtype) {
  if (!unfolds(s, dtype) || pointwise(s)) return 0;
  const std::int64_t depth = s.group_in() * s.taps(), all = depth * s.plane();
  const std::int64_t part = std::max(kLineColumns, depth * s.ow);
  return align64(size_of(dtype) * (kind == ConvKind::Forward ? std::min(all, part) : all));
}

class ConvCall : public Call {
 public:
  ConvCall(const CallSite& site, ConvKind kind)
      : Call(site), kind_(kind), attrs_(site.node->attrs) {
    const ConvShape s = attrs_.sizes(kind, in_[0], in_[1], out_[0]);
    workspace = columns_bytes(kind, s, out_[0].dtype) * parts_at_once(kind, s, threads_);
    if (unfolds(s, out_[0].dtype)) blas_buffers = s.work() < kParallelWork ? 1 : threads_;
  }

  void run(const RunArgs& args) const override {
    const ArgDesc& result = out(args, 0);
    const ConvShape s = attrs_.sizes(kind_, in(args, 0), in(args, 1), result);
    const std::int64_t count = product(result.shape);
    if (count == 0) return;
    if (s.work() == 0) {
      std::memset(args.out[0], 0, count * size_of(result.dtype));
      return;
    }
    const std::uint64_t columns = columns_bytes(kind_, s, result.dtype);
    const std::int64_t at_once = parts_at_once(kind_, s, threads_);
    const bool unfold = unfolds(s, result.dtype) && columns * at_once <= workspace;
    visit(result.dtype, [&](auto tag) {
      using T = decltype(tag);
      const T* const a = reinterpret_cast<const T*>(args.in[0]);
      const T* const b = reinterpret_cast<const T*>(args.in[1]);
      T* const c = reinterpret_cast<T*>(args.out[0]);
      if constexpr (std::is_floating_point_v<T>)
        if (unfold && !meets_padding(kind_, s, b))
          return run_unfolded(s, a, b, c, reinterpret_cast<T*>(args.workspace),
                              static_cast<std::int64_t>(columns / sizeof(T)));
      switch (kind_) {
        case ConvKind::Forward: return loop_forward(s, false, a, b, c, threads_);
        case ConvKind::GradInput: return loop_grad_input(s, false, a, b, c, threads_);
        case ConvKind::GradWeight: return loop_grad_weight(s, false, a, b, c, threads_);
      }
    });
  }

 private:
  template <class T>
  void run_unfolded(const ConvShape& s, const T* a, const T* b, T* c, T* columns,
                    std::int64_t each) const {
    const std::int64_t at_once = parts_at_once(kind_, s, threads_);
    const auto run = [&](std::int64_t slot, std::int64_t part, std::int64_t end) {
      for (; part < end; ++part)
        run_part(s, part, a, b, c, columns + slot * each, at_once > 1 ? 1 : threads_);
    };
    parallel_slots(part_count(kind_, s), s.work(),
                   BlasBuffers::threads_for(static_cast<int>(at_once)), run);
  }

  template <class T>
  void run_part(const ConvShape& s, std::int64_t part, const T* a, const T* b, T* c, T* columns,
                int threads) const {
    for (std::int64_t group = 0; group < s.groups; ++group) {
      if (kind_ != ConvKind::Forward) {
        gradient(kind_, s, part, group, a, b, c, columns, threads);
        continue;
      }
      const std::int64_t each = parts_of_lines(s), step = lines_at_once(s);
      const std::int64_t from = part % each * step, to = std::min(from + step, s.lines());
      forward_lines(s, part / each, group, from, to, a, b, c, columns, threads);
    }
  }

  ConvKind kind_;
  ConvAttrs attrs_;
};

}  // namespace

ConvAttrs::ConvAttrs(const Attrs& attrs) {
  const auto& pad = attrs.ints("pad");
  const auto& stride = attrs.ints("stride");
  const auto& dilation = attrs.ints("dilation");
  const std::size_t axes = stride.size(), y = axes - 2, x = axes - 1;
  SNUG_CHECK((axes == 2 || axes == 3) && pad.size() == 2 * axes && dilation.size() == axes,
             "convolution: {} pads, {} strides, {} dilations", pad.size(), axes, dilation.size());
  base_.axes = static_cast<int>(axes);
  if (axes == 3)
    base_.front = pad[0], base_.back = pad[1], base_.sd = stride[0], base_.dd = dilation[0];
  base_.top = pad[2 * y], base_.bottom = pad[2 * y + 1];
  base_.left = pad[2 * x], base_.right = pad[2 * x + 1];
  base_.sh = stride[y], base_.sw = stride[x];
  base_.dh = dilation[y], base_.dw = dilation[x];
  base_.flip = attrs.flag("flip");
  base_.groups = attrs.integer("groups");
  if (attrs.has("border")) border_ = attrs.text("border");
}

ConvShape ConvAttrs::sizes(ConvKind kind, const ArgDesc& in0, const ArgDesc& in1,
                           const ArgDesc& out) const {
  const bool forward = kind == ConvKind::Forward;
  const Dims& x = (kind == ConvKind::GradInput ? out : in0).shape;
  const Dims& w = (forward ? in1 : kind == ConvKind::GradInput ? in0 : out).shape;
  const Dims& y = (forward ? out : in1).shape;
  ConvShape s = base_;
  const std::size_t row = s.axes == 3 ? 3 : 2, column = row + 1;
  s.n = std::max(x[0], y[0]), s.c = x[1], s.h = x[row], s.w = x[column];
  s.o = std::max(w[0], y[1]), s.kh = w[row], s.kw = w[column];
  s.oh = y[row], s.ow = y[column];
  if (s.axes == 3) s.d = x[2], s.kd = w[2], s.od = y[2];
  if (!border_.empty()) {
    const auto pad = [&](std::int64_t kernel, std::int64_t dilation) {
      const std::int64_t reach = (kernel - 1) * dilation;
      return border_ == "full" ? reach : (reach + 1) / 2;
    };
    if (s.axes == 3) s.front = s.back = pad(s.kd, s.dd);
    s.top = s.bottom = pad(s.kh, s.dh);
    s.left = s.right = pad(s.kw, s.dw);
  }
  SNUG_CHECK(s.groups > 0, "convolution: {} groups", s.groups);
  return s;
}

Prepared prepare_conv(const CallSite& site, ConvKind kind) {
  return std::make_unique<ConvCall>(site, kind);
}
Prepared prepare_conv2d(const CallSite& site) { return prepare_conv(site, ConvKind::Forward); }
Prepared prepare_conv2d_grad_input(const CallSite& site) {
  return prepare_conv(site, ConvKind::GradInput);
}
Prepared prepare_conv2d_grad_weight(const CallSite& site) {
  return prepare_conv(site, ConvKind::GradWeight);
}

}  // namespace snug::native
