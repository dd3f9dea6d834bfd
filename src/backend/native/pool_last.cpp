// Pooling of float32 images (batch, rows, columns, channels): loops over channels are vectors.
#include <algorithm>
#include <limits>

#include "backend/native/call.h"
#include "backend/native/parallel.h"
#include "backend/native/pool_axis.h"
#include "backend/native/routines.h"
#include "backend/native/vectors.h"

namespace snug::native {
namespace {

struct Shape {
  std::int64_t images, channels;
  PoolAxis y, x;
  std::int64_t image() const { return y.size * x.size * channels; }
  std::int64_t pooled() const { return y.windows * x.windows * channels; }
  std::int64_t work() const { return images * pooled() * y.window * x.window; }

  /// Calls f(place of the window among all of the image, its rows, its columns) for the windows of
  /// row `oy`; places are those of channel 0.
  template <class F>
  void windows_of_row(std::int64_t oy, F&& f) const {
    for (std::int64_t ox = 0; ox < x.windows; ++ox) f((oy * x.windows + ox) * channels, oy, ox);
  }
  /// Calls f(place in the image, cell) for every cell of window (oy, ox) that lies inside.
  template <class F>
  void cells(std::int64_t oy, std::int64_t ox, F&& f) const {
    for (std::int64_t ky = y.first(oy); ky < y.last(oy); ++ky)
      for (std::int64_t kx = x.first(ox); kx < x.last(ox); ++kx)
        f(((y.start(oy) + ky) * x.size + x.start(ox) + kx) * channels, ky * x.window + kx);
  }
};

class PoolLastCall : public Call {
 public:
  PoolLastCall(const CallSite& site, PoolKind kind)
      : Call(site), kind_(kind), attrs_(site.node->attrs) {
    if (kind == PoolKind::Average || kind == PoolKind::AverageGrad) divide_ = divide_of(attrs_);
  }

  void run(const RunArgs& args) const override {
    const bool back = kind_ == PoolKind::Unpool || kind_ == PoolKind::AverageGrad;
    const Dims &in_shape = in(args, 0).shape, &out_shape = out(args, 0).shape;
    if (product(out_shape) == 0) return;
    const Shape s = shape(back ? out_shape : in_shape, back ? in_shape : out_shape);
    if (kind_ == PoolKind::Max && attrs_.has("without_index"))
      maxima<NoIndex>(s, reinterpret_cast<const float*>(args.in[0]),
                      reinterpret_cast<float*>(args.out[0]), nullptr);
    else if (s.y.window * s.x.window <= 256)
      run_with<std::uint8_t>(args, s);
    else
      run_with<std::int32_t>(args, s);
  }

 private:
  Shape shape(const Dims& image, const Dims& pooled) const {
    const Attrs::Ints &window = attrs_.ints("window"), &stride = attrs_.ints("stride"),
                      &pad = attrs_.ints("pad");
    return {image[0],
            image[3],
            {image[1], pooled[1], window[0], stride[0], pad[0], pad[1]},
            {image[2], pooled[2], window[1], stride[1], pad[2], pad[3]}};
  }

  template <class I>
  void run_with(const RunArgs& args, const Shape& s) const {
    const auto* const from = reinterpret_cast<const float*>(args.in[0]);
    auto* const to = reinterpret_cast<float*>(args.out[0]);
    switch (kind_) {
      case PoolKind::Max: return maxima(s, from, to, reinterpret_cast<I*>(args.out[1]));
      case PoolKind::Take: return take(s, from, reinterpret_cast<const I*>(args.in[1]), to);
      case PoolKind::Unpool: return unpool(s, from, reinterpret_cast<const I*>(args.in[1]), to);
      case PoolKind::Average: return average(s, from, to);
      case PoolKind::AverageGrad: return spread(s, from, to);
    }
  }

  /// Calls f(image, row of windows) on all threads.
  template <class F>
  void every_row(const Shape& s, F&& f) const {
    parallel_ranges(s.images * s.y.windows, s.work(), threads_,
                    [&](std::int64_t row, std::int64_t end) {
                      for (; row < end; ++row) f(row / s.y.windows, row % s.y.windows);
                    });
  }
  /// Calls f(image, row of windows) in order for each image, whose gradient starts from 0.
  template <class F>
  void every_image(const Shape& s, float* out, F&& f) const {
    parallel_ranges(s.images, s.images * s.image() + s.work(), threads_,
                    [&](std::int64_t n, std::int64_t end) {
                      for (; n < end; ++n) {
                        std::fill_n(out + n * s.image(), s.image(), 0.0f);
                        for (std::int64_t oy = 0; oy < s.y.windows; ++oy) f(n, oy);
                      }
                    });
  }

  template <class I>
  void maxima(const Shape& s, const float* x, float* y, I* index) const {
    every_row(s, [&](std::int64_t n, std::int64_t row) {
      const float* const image = x + n * s.image();
      s.windows_of_row(row, [&](std::int64_t at, std::int64_t oy, std::int64_t ox) {
        float* const best = y + n * s.pooled() + at;
        I* const cell_of = index ? index + n * s.pooled() + at : nullptr;
        const Floats lowest = Floats{} - std::numeric_limits<float>::infinity();
        const Ints first =
            Ints{} + static_cast<std::int32_t>(s.y.first(oy) * s.x.window + s.x.first(ox));
        in_lanes(s.channels, [&](std::int64_t c, auto count) {
          Floats top = lowest;
          Ints where = first;
          s.cells(oy, ox, [&](std::int64_t place, std::int64_t cell) {
            Floats a;
            load(a, image + place + c, count);
            const auto larger = (a > top) | ((a != a) & (top == top));
            top = larger ? a : top;
            if constexpr (!std::is_same_v<I, NoIndex>)
              where = larger ? Ints{} + static_cast<std::int32_t>(cell) : where;
          });
          store(top, best + c, count);
          if constexpr (!std::is_same_v<I, NoIndex>) store(where, cell_of + c, count);
        });
      });
    });
  }

  template <class I>
  void take(const Shape& s, const float* x, const I* index, float* y) const {
    every_row(s, [&](std::int64_t n, std::int64_t row) {
      s.windows_of_row(row, [&](std::int64_t at, std::int64_t oy, std::int64_t ox) {
        float* const out = y + n * s.pooled() + at;
        const I* const cell_of = index + n * s.pooled() + at;
        std::fill_n(out, s.channels, 0.0f);
        s.cells(oy, ox, [&](std::int64_t place, std::int64_t cell) {
          const float* const in = x + n * s.image() + place;
          for (std::int64_t c = 0; c < s.channels; ++c)
            out[c] = cell_of[c] == static_cast<I>(cell) ? in[c] : out[c];
        });
      });
    });
  }

  template <class I>
  void unpool(const Shape& s, const float* dy, const I* index, float* dx) const {
    const auto add = [&](bool covered) {
      return [&s, dy, index, dx, covered](std::int64_t n, std::int64_t row) {
        s.windows_of_row(row, [&](std::int64_t at, std::int64_t oy, std::int64_t ox) {
          const float* const from = dy + n * s.pooled() + at;
          const I* const cell_of = index + n * s.pooled() + at;
          in_lanes(s.channels, [&](std::int64_t c, auto count) {
            Floats in, sum = {};
            Ints where;
            load(in, from + c, count);
            load(where, cell_of + c, count);
            s.cells(oy, ox, [&](std::int64_t place, std::int64_t cell) {
              float* const out = dx + n * s.image() + place + c;
              if (!covered) load(sum, out, count);
              store(sum + (where == static_cast<std::int32_t>(cell) ? in : Floats{}), out, count);
            });
          });
        });
      };
    };
    if (s.y.tiles() && s.x.tiles())
      every_row(s, add(true));
    else
      every_image(s, dx, add(false));
  }

  /// What the sum of a window is divided by.
  float divisor(const Shape& s, std::int64_t oy, std::int64_t ox) const {
    return static_cast<float>(s.y.count(oy, divide_) * s.x.count(ox, divide_));
  }

  void average(const Shape& s, const float* x, float* y) const {
    every_row(s, [&](std::int64_t n, std::int64_t row) {
      s.windows_of_row(row, [&](std::int64_t at, std::int64_t oy, std::int64_t ox) {
        float* const out = y + n * s.pooled() + at;
        std::fill_n(out, s.channels, 0.0f);
        s.cells(oy, ox, [&](std::int64_t place, std::int64_t) {
          const float* const in = x + n * s.image() + place;
          for (std::int64_t c = 0; c < s.channels; ++c) out[c] += in[c];
        });
        const float by = divisor(s, oy, ox);
        for (std::int64_t c = 0; c < s.channels; ++c) out[c] /= by;
      });
    });
  }

  void spread(const Shape& s, const float* dy, float* dx) const {
    every_image(s, dx, [&](std::int64_t n, std::int64_t row) {
      s.windows_of_row(row, [&](std::int64_t at, std::int64_t oy, std::int64_t ox) {
        const float* const in = dy + n * s.pooled() + at;
        const float by = divisor(s, oy, ox);
        s.cells(oy, ox, [&](std::int64_t place, std::int64_t) {
          float* const out = dx + n * s.image() + place;
          for (std::int64_t c = 0; c < s.channels; ++c) out[c] += in[c] / by;
        });
      });
    });
  }

  PoolKind kind_;
  Attrs attrs_;
  Divide divide_ = Divide::No;
};

}  // namespace

Prepared prepare_max_pool_last(const CallSite& site) {
  return std::make_unique<PoolLastCall>(site, PoolKind::Max);
}
Prepared prepare_max_unpool_last(const CallSite& site) {
  return std::make_unique<PoolLastCall>(site, PoolKind::Unpool);
}
Prepared prepare_max_pool_take_last(const CallSite& site) {
  return std::make_unique<PoolLastCall>(site, PoolKind::Take);
}
Prepared prepare_average_pool_last(const CallSite& site) {
  return std::make_unique<PoolLastCall>(site, PoolKind::Average);
}
Prepared prepare_average_pool_grad_last(const CallSite& site) {
  return std::make_unique<PoolLastCall>(site, PoolKind::AverageGrad);
}

}  // namespace snug::native
