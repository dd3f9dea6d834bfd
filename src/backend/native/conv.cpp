#include "backend/native/conv.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "backend/native/call.h"
#include "backend/native/elements.h"
#include "backend/native/gemm.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"

namespace snug::native {
namespace {

/// The tap of the stored weight that meets offset `tap` of the window.
std::int64_t stored_tap(const ConvShape& s, std::int64_t tap) {
  return s.flip ? s.taps() - 1 - tap : tap;
}

// --- loops: any dtype, one output element at a time -------------------------------------------

template <class T>
void loop_forward(const ConvShape& s, const T* x, const T* w, T* y, int threads) {
  using E = Element<T>;
  const std::int64_t gi = s.group_in(), go = s.group_out(), plane = s.h * s.w;
  parallel_ranges(s.n * s.o * s.oh, s.work(), threads, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const std::int64_t oy = row % s.oh, o = row / s.oh % s.o, n = row / s.oh / s.o;
      const T* const image = x + (n * s.c + o / go * gi) * plane;
      const T* const weight = w + o * gi * s.taps();
      for (std::int64_t ox = 0; ox < s.ow; ++ox) {
        typename E::Acc acc{};
        for (std::int64_t ky = 0; ky < s.kh; ++ky) {
          const std::int64_t iy = oy * s.sh - s.top + ky * s.dh;
          if (iy < 0 || iy >= s.h) continue;
          for (std::int64_t kx = 0; kx < s.kw; ++kx) {
            const std::int64_t ix = ox * s.sw - s.left + kx * s.dw;
            if (ix < 0 || ix >= s.w) continue;
            const std::int64_t tap = stored_tap(s, ky * s.kw + kx);
            for (std::int64_t c = 0; c < gi; ++c)
              acc = E::add(acc, E::mul(E::load(image[c * plane + iy * s.w + ix]),
                                       E::load(weight[c * s.taps() + tap])));
          }
        }
        y[row * s.ow + ox] = E::store(acc);
      }
    }
  });
}

template <class T>
void loop_grad_input(const ConvShape& s, const T* w, const T* dy, T* dx, int threads) {
  using E = Element<T>;
  const std::int64_t gi = s.group_in(), go = s.group_out(), plane = s.oh * s.ow;
  parallel_ranges(s.n * s.c * s.h, s.work(), threads, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const std::int64_t iy = row % s.h, c = row / s.h % s.c, n = row / s.h / s.c;
      const std::int64_t first = c / gi * go;  // output channels of this group
      for (std::int64_t ix = 0; ix < s.w; ++ix) {
        typename E::Acc acc{};
        for (std::int64_t ky = 0; ky < s.kh; ++ky) {
          const std::int64_t py = iy + s.top - ky * s.dh;
          if (py < 0 || py % s.sh || py / s.sh >= s.oh) continue;
          for (std::int64_t kx = 0; kx < s.kw; ++kx) {
            const std::int64_t px = ix + s.left - kx * s.dw;
            if (px < 0 || px % s.sw || px / s.sw >= s.ow) continue;
            const std::int64_t tap = stored_tap(s, ky * s.kw + kx);
            const std::int64_t at = py / s.sh * s.ow + px / s.sw;
            for (std::int64_t o = first; o < first + go; ++o)
              acc = E::add(acc, E::mul(E::load(dy[(n * s.o + o) * plane + at]),
                                       E::load(w[(o * gi + c % gi) * s.taps() + tap])));
          }
        }
        dx[row * s.w + ix] = E::store(acc);
      }
    }
  });
}

template <class T>
void loop_grad_weight(const ConvShape& s, const T* x, const T* dy, T* dw, int threads) {
  using E = Element<T>;
  const std::int64_t gi = s.group_in(), go = s.group_out();
  parallel_ranges(s.o * gi * s.taps(), s.work(), threads, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t tap = i % s.taps(), c = i / s.taps() % gi, o = i / s.taps() / gi;
      const std::int64_t window = stored_tap(s, tap), ky = window / s.kw, kx = window % s.kw;
      typename E::Acc acc{};
      for (std::int64_t n = 0; n < s.n; ++n) {
        const T* const image = x + (n * s.c + o / go * gi + c) * s.h * s.w;
        const T* const grad = dy + (n * s.o + o) * s.oh * s.ow;
        for (std::int64_t oy = 0; oy < s.oh; ++oy) {
          const std::int64_t iy = oy * s.sh - s.top + ky * s.dh;
          if (iy < 0 || iy >= s.h) continue;
          for (std::int64_t ox = 0; ox < s.ow; ++ox) {
            const std::int64_t ix = ox * s.sw - s.left + kx * s.dw;
            if (ix < 0 || ix >= s.w) continue;
            acc = E::add(acc, E::mul(E::load(image[iy * s.w + ix]), E::load(grad[oy * s.ow + ox])));
          }
        }
      }
      dw[i] = E::store(acc);
    }
  });
}

// --- unfolding: float32 and float64 -----------------------------------------------------------

/// The output columns [first, last) whose window offset kx lies inside the image.
std::pair<std::int64_t, std::int64_t> inside(std::int64_t offset, std::int64_t stride,
                                             std::int64_t size, std::int64_t count) {
  const std::int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const std::int64_t last = offset >= size ? 0 : (size - 1 - offset) / stride + 1;
  return {std::min(first, count), std::clamp(last, std::min(first, count), count)};
}

/// columns (group_in * taps, oh * ow): per stored tap, the elements of x it meets.
template <class T>
void unfold(const ConvShape& s, const T* x, T* columns, int threads) {
  const std::int64_t rows = s.group_in() * s.taps(), plane = s.oh * s.ow;
  parallel_ranges(rows, rows * plane, threads, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const std::int64_t tap = stored_tap(s, row % s.taps()), c = row / s.taps();
      const std::int64_t dx = tap % s.kw * s.dw - s.left, dy = tap / s.kw * s.dh - s.top;
      const auto [first, last] = inside(dx, s.sw, s.w, s.ow);
      for (std::int64_t oy = 0; oy < s.oh; ++oy) {
        T* const out = columns + row * plane + oy * s.ow;
        const std::int64_t iy = oy * s.sh + dy;
        if (iy < 0 || iy >= s.h) {
          std::fill_n(out, s.ow, T{});
          continue;
        }
        const T* const in = x + (c * s.h + iy) * s.w + dx;
        std::fill_n(out, first, T{});
        for (std::int64_t ox = first; ox < last; ++ox) out[ox] = in[ox * s.sw];
        std::fill_n(out + last, s.ow - last, T{});
      }
    }
  });
}

/// Adds columns back onto the places of x they came from.
template <class T>
void fold(const ConvShape& s, const T* columns, T* x, int threads) {
  const std::int64_t plane = s.oh * s.ow;
  const std::int64_t work = s.group_in() * s.taps() * plane;
  parallel_ranges(s.group_in(), work, threads, [&](std::int64_t c, std::int64_t end) {
    for (; c < end; ++c) {
      std::fill_n(x + c * s.h * s.w, s.h * s.w, T{});
      for (std::int64_t k = 0; k < s.taps(); ++k) {
        const std::int64_t tap = stored_tap(s, k);
        const std::int64_t dx = tap % s.kw * s.dw - s.left, dy = tap / s.kw * s.dh - s.top;
        const auto [first, last] = inside(dx, s.sw, s.w, s.ow);
        for (std::int64_t oy = 0; oy < s.oh; ++oy) {
          const std::int64_t iy = oy * s.sh + dy;
          if (iy < 0 || iy >= s.h) continue;
          const T* const in = columns + (c * s.taps() + k) * plane + oy * s.ow;
          T* const out = x + (c * s.h + iy) * s.w + dx;
          for (std::int64_t ox = first; ox < last; ++ox) out[ox * s.sw] += in[ox];
        }
      }
    }
  });
}

/// A kernel of one tap that moves over every element: the columns are the image.
bool pointwise(const ConvShape& s) {
  return s.taps() == 1 && s.sh == 1 && s.sw == 1 && s.oh == s.h && s.ow == s.w && s.top == 0 &&
         s.left == 0;
}

/// One image and group; `columns` has group_in * taps * oh * ow elements unless pointwise.
template <class T>
void unfolded(ConvKind kind, const ConvShape& s, std::int64_t n, std::int64_t group, const T* in0,
              const T* in1, T* out, T* columns, int threads) {
  const std::int64_t plane = s.oh * s.ow, depth = s.group_in() * s.taps();
  const std::int64_t x_at = (n * s.c + group * s.group_in()) * s.h * s.w;
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
         std::max({s.group_in() * s.taps(), s.oh * s.ow, s.o}) <= INT_MAX;
}

/// Whole images per thread; the images of a weight's gradient add up in order instead.
std::int64_t images_at_once(ConvKind kind, const ConvShape& s, int threads) {
  return kind != ConvKind::GradWeight && s.n >= threads ? threads : 1;
}

std::uint64_t columns_bytes(const ConvShape& s, DType dtype) {
  if (!unfolds(s, dtype) || pointwise(s)) return 0;
  return align64(s.group_in() * s.taps() * s.oh * s.ow * size_of(dtype));
}

class ConvCall : public Call {
 public:
  ConvCall(const CallSite& site, ConvKind kind)
      : Call(site), kind_(kind), attrs_(site.node->attrs) {
    const ConvShape s = attrs_.sizes(kind, in_[0], in_[1], out_[0]);
    workspace = columns_bytes(s, out_[0].dtype) * images_at_once(kind, s, threads_);
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
        if (unfold)
          return parallel_slots(
              s.n, s.work(), static_cast<int>(at_once),
              [&](std::int64_t slot, std::int64_t n, std::int64_t end) {
                T* const buffer = reinterpret_cast<T*>(args.workspace + slot * columns);
                for (; n < end; ++n)
                  for (std::int64_t group = 0; group < s.groups; ++group)
                    unfolded(kind_, s, n, group, a, b, c, buffer, at_once > 1 ? 1 : threads_);
              });
      switch (kind_) {
        case ConvKind::Forward: return loop_forward(s, a, b, c, threads_);
        case ConvKind::GradInput: return loop_grad_input(s, a, b, c, threads_);
        case ConvKind::GradWeight: return loop_grad_weight(s, a, b, c, threads_);
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
  SNUG_CHECK(pad.size() == 4 && stride.size() == 2 && dilation.size() == 2,
             "conv2d: {} pads, {} strides, {} dilations", pad.size(), stride.size(),
             dilation.size());
  base_.top = pad[0], base_.bottom = pad[1], base_.left = pad[2], base_.right = pad[3];
  base_.sh = stride[0], base_.sw = stride[1];
  base_.dh = dilation[0], base_.dw = dilation[1];
  base_.flip = attrs.flag("flip");
  base_.groups = attrs.integer("groups");
}

ConvShape ConvAttrs::sizes(ConvKind kind, const ArgDesc& in0, const ArgDesc& in1,
                           const ArgDesc& out) const {
  const bool forward = kind == ConvKind::Forward;
  const Dims& x = (kind == ConvKind::GradInput ? out : in0).shape;
  const Dims& w = (forward ? in1 : kind == ConvKind::GradInput ? in0 : out).shape;
  const Dims& y = (forward ? out : in1).shape;
  ConvShape s = base_;
  s.n = std::max(x[0], y[0]), s.c = x[1], s.h = x[2], s.w = x[3];
  s.o = std::max(w[0], y[1]), s.kh = w[2], s.kw = w[3];
  s.oh = y[2], s.ow = y[3];
  SNUG_CHECK(s.groups > 0, "conv2d: {} groups", s.groups);
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
