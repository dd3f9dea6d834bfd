#include "backend/native/conv.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>

#include "backend/native/blas_buffers.h"
#include "backend/native/call.h"
#include "backend/native/conv_loops.h"
#include "backend/native/conv_unfold.h"
#include "backend/native/elements.h"
#include "backend/native/gemm.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"

namespace snug::native {
namespace {

/// A kernel of one tap that moves over every element: the columns are the image.
bool pointwise(const ConvShape& s) {
  return s.taps() == 1 && s.sd == 1 && s.sh == 1 && s.sw == 1 && s.od == s.d && s.oh == s.h &&
         s.ow == s.w && s.front == 0 && s.top == 0 && s.left == 0;
}

/// One image and group; `columns` has group_in * taps * plane elements unless pointwise.
template <class T>
void unfolded(ConvKind kind, const ConvShape& s, std::int64_t n, std::int64_t group, const T* in0,
              const T* in1, T* out, T* columns, int threads) {
  const std::int64_t plane = s.plane(), depth = s.group_in() * s.taps();
  const std::int64_t x_at = (n * s.c + group * s.group_in()) * s.image();
  const std::int64_t w_at = group * s.group_out() * depth;
  const std::int64_t y_at = (n * s.o + group * s.group_out()) * plane;
  const auto bytes = [](const T* p) { return reinterpret_cast<const std::byte*>(p); };
  const auto target = [](T* p) { return reinterpret_cast<std::byte*>(p); };
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
  if (!pointwise(s)) unfold(s, in0 + x_at, columns, threads);
  const T* const from = pointwise(s) ? in0 + x_at : columns;
  if (kind == ConvKind::Forward) {  // y = w . columns
    g.m = s.group_out(), g.n = plane, g.k = depth;
    g.a = bytes(in1 + w_at), g.a_row = depth, g.a_col = 1;
    g.b = bytes(from), g.b_row = plane, g.b_col = 1;
    g.c = target(out + y_at), g.c_row = plane, g.c_col = 1;
  } else {  // dw += dy . columns^T
    g.m = s.group_out(), g.n = depth, g.k = plane;
    g.a = bytes(in1 + y_at), g.a_row = plane, g.a_col = 1;
    g.b = bytes(from), g.b_row = 1, g.b_col = plane;
    g.c = target(out + w_at), g.c_row = depth, g.c_col = 1;
  }
  blas_gemm(g, threads, kind == ConvKind::GradWeight && n > 0);
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

/// Whole images per thread; the images of a weight's gradient add up in order instead.
std::int64_t images_at_once(ConvKind kind, const ConvShape& s, int threads) {
  return kind != ConvKind::GradWeight && s.n >= threads ? threads : 1;
}

std::uint64_t columns_bytes(const ConvShape& s, DType dtype) {
  if (!unfolds(s, dtype) || pointwise(s)) return 0;
  return align64(s.group_in() * s.taps() * s.plane() * size_of(dtype));
}

class ConvCall : public Call {
 public:
  ConvCall(const CallSite& site, ConvKind kind)
      : Call(site), kind_(kind), attrs_(site.node->attrs) {
    const ConvShape s = attrs_.sizes(kind, in_[0], in_[1], out_[0]);
    workspace = columns_bytes(s, out_[0].dtype) * images_at_once(kind, s, threads_);
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
    const std::uint64_t columns = columns_bytes(s, result.dtype);
    const std::int64_t at_once = images_at_once(kind_, s, threads_);
    const bool unfold = unfolds(s, result.dtype) && columns * at_once <= workspace;
    visit(result.dtype, [&](auto tag) {
      using T = decltype(tag);
      const T* const a = reinterpret_cast<const T*>(args.in[0]);
      const T* const b = reinterpret_cast<const T*>(args.in[1]);
      T* const c = reinterpret_cast<T*>(args.out[0]);
      if constexpr (std::is_floating_point_v<T>)
        if (unfold && !meets_padding(kind_, s, b))
          return parallel_slots(
              s.n, s.work(), BlasBuffers::threads_for(static_cast<int>(at_once)),
              [&](std::int64_t slot, std::int64_t n, std::int64_t end) {
                T* const buffer = reinterpret_cast<T*>(args.workspace + slot * columns);
                for (; n < end; ++n)
                  for (std::int64_t group = 0; group < s.groups; ++group)
                    unfolded(kind_, s, n, group, a, b, c, buffer, at_once > 1 ? 1 : threads_);
              });
      switch (kind_) {
        case ConvKind::Forward: return loop_forward(s, false, a, b, c, threads_);
        case ConvKind::GradInput: return loop_grad_input(s, false, a, b, c, threads_);
        case ConvKind::GradWeight: return loop_grad_weight(s, false, a, b, c, threads_);
      }
    });
  }

 private:
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
