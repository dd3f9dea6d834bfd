#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backend/native/call.h"
#include "backend/native/parallel.h"
#include "backend/native/pool_axis.h"
#include "backend/native/routines.h"
#include "base/elements.h"

namespace snug::native {
namespace {

/// Planes (all but the last axes) of three axes; missing ones have size 1.
struct PoolShape {
  std::int64_t planes = 1;
  PoolAxis z, y, x;

  std::int64_t image() const { return z.size * y.size * x.size; }
  std::int64_t pooled() const { return z.windows * y.windows * x.windows; }
  std::int64_t cells() const { return z.window * y.window * x.window; }
  std::int64_t rows() const { return planes * z.windows * y.windows; }
  std::int64_t work() const { return planes * pooled() * cells(); }
};

PoolShape pool_shape(const Attrs& attrs, const Dims& image, const Dims& pooled) {
  const Attrs::Ints &window = attrs.ints("window"), &stride = attrs.ints("stride"),
                    &pad = attrs.ints("pad");
  PoolShape s;
  PoolAxis* const axes[] = {&s.z, &s.y, &s.x};
  const std::size_t first = image.size() - window.size();
  for (std::size_t k = 0; k < first; ++k) s.planes *= std::max(image[k], pooled[k]);
  for (std::size_t k = 0; k < window.size(); ++k)
    *axes[3 - window.size() + k] = {image[first + k], pooled[first + k], window[k],
                                    stride[k],        pad[2 * k],        pad[2 * k + 1]};
  return s;
}

/// Calls f(place of the row in the image, first cell of the row in the window) for every row of the
/// image that windows (oz, oy) meet.
template <class F>
void for_rows(const PoolShape& s, std::int64_t oz, std::int64_t oy, F&& f) {
  for (std::int64_t kz = s.z.first(oz); kz < s.z.last(oz); ++kz)
    for (std::int64_t ky = s.y.first(oy); ky < s.y.last(oy); ++ky)
      f(((s.z.start(oz) + kz) * s.y.size + s.y.start(oy) + ky) * s.x.size,
        (kz * s.y.window + ky) * s.x.window);
}

// --- maxima -----------------------------------------------------------------------------------

/// What elements are compared by.
template <class T>
auto key(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return Element<T>::load(value);
}
template <class T>
T lowest() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::lowest();
  else
    return Element<T>::store(-std::numeric_limits<typename Element<T>::Acc>::infinity());
}

/// Windows [first, last) of a row take over an element that is larger than what they have.
template <class T, class I>
void take_larger(const T* in, std::int64_t stride, std::int64_t first, std::int64_t last, T* y,
                 I* index, I cell) {
  for (std::int64_t i = first; i < last; ++i) {
    const T value = in[i * stride], best = y[i];
    const auto a = key(value), b = key(best);
    const bool larger = (a > b) | ((a != a) & (b == b));
    y[i] = larger ? value : best;
    if constexpr (!std::is_same_v<I, NoIndex>) index[i] = larger ? cell : index[i];
  }
}

/// A row of windows.
template <class T, class I>
void max_row(const PoolShape& s, const T* image, std::int64_t oz, std::int64_t oy, T* y, I* index) {
  const std::int64_t first = (s.z.first(oz) * s.y.window + s.y.first(oy)) * s.x.window;
  for (std::int64_t i = 0; i < s.x.windows; ++i) {
    y[i] = lowest<T>();
    if constexpr (!std::is_same_v<I, NoIndex>) index[i] = static_cast<I>(first + s.x.first(i));
  }
  for_rows(s, oz, oy, [&](std::int64_t row, std::int64_t cell) {
    for (std::int64_t kx = 0; kx < s.x.window; ++kx) {
      const auto [begin, end] = s.x.meeting(kx);
      const T* const in = image + row + kx - s.x.low;
      const I number = static_cast<I>(cell + kx);
      // A stride that is known makes it a loop over vectors.
      if (s.x.stride == 1)
        take_larger(in, 1, begin, end, y, index, number);
      else if (s.x.stride == 2)
        take_larger(in, 2, begin, end, y, index, number);
      else
        take_larger(in, s.x.stride, begin, end, y, index, number);
    }
  });
}

/// From a cell of a window to its place along the three axes.
template <class I>
class Cells {
 public:
  using Place = std::array<std::int64_t, 3>;
  explicit Cells(const PoolShape& s) : shape_(s) {}
  Place operator()(I cell) const { return split(cell); }

 protected:
  Place split(std::int64_t cell) const {
    const std::int64_t plane = shape_.y.window * shape_.x.window;
    return {cell / plane, cell % plane / shape_.x.window, cell % shape_.x.window};
  }
  const PoolShape& shape_;
};
template <>
class Cells<std::uint8_t> : Cells<std::int32_t> {
 public:
  explicit Cells(const PoolShape& s) : Cells<std::int32_t>(s) {
    for (std::size_t k = 0; k < 256; ++k) {
      const Place p = split(static_cast<std::int64_t>(k));
      for (std::size_t a = 0; a < 3; ++a) table_[k][a] = static_cast<std::int16_t>(p[a]);
    }
  }
  Place operator()(std::uint8_t cell) const {
    const auto& p = table_[cell];
    return {p[0], p[1], p[2]};
  }

 private:
  std::array<std::array<std::int16_t, 3>, 256> table_;
};

/// Calls f(window, place in the image) for the given cell of every window of a plane; cells that
/// lie outside are left out.
template <class I, class F>
void for_cells(const PoolShape& s, const Cells<I>& cells, const I* index, F&& f) {
  std::int64_t window = 0;
  for (std::int64_t oz = 0; oz < s.z.windows; ++oz)
    for (std::int64_t oy = 0; oy < s.y.windows; ++oy)
      for (std::int64_t ox = 0; ox < s.x.windows; ++ox, ++window) {
        if (static_cast<std::int64_t>(index[window]) >= s.cells() || index[window] < 0) continue;
        const auto [kz, ky, kx] = cells(index[window]);
        const std::int64_t z = s.z.start(oz) + kz, y = s.y.start(oy) + ky, x = s.x.start(ox) + kx;
        if (z < 0 || z >= s.z.size || y < 0 || y >= s.y.size || x < 0 || x >= s.x.size) continue;
        f(window, (z * s.y.size + y) * s.x.size + x);
      }
}

// --- averages ---------------------------------------------------------------------------------

template <class T, class Acc>
void average_row(const PoolShape& s, Divide divide, const T* image, std::int64_t oz,
                 std::int64_t oy, T* y, Acc* sums) {
  using E = Element<T>;
  std::fill_n(sums, s.x.windows, Acc{});
  for_rows(s, oz, oy, [&](std::int64_t row, std::int64_t) {
    for (std::int64_t kx = 0; kx < s.x.window; ++kx) {
      const auto [begin, end] = s.x.meeting(kx);
      const T* const in = image + row + kx - s.x.low;
      if (s.x.stride == 1)
        for (std::int64_t i = begin; i < end; ++i) sums[i] += E::load(in[i]);
      else
        for (std::int64_t i = begin; i < end; ++i) sums[i] += E::load(in[i * s.x.stride]);
    }
  });
  const std::int64_t outer = s.z.count(oz, divide) * s.y.count(oy, divide);
  for (std::int64_t i = 0; i < s.x.windows; ++i)
    y[i] = E::store(sums[i] / static_cast<Acc>(outer * s.x.count(i, divide)));
}

/// Adds a row of gradients to the cells of its windows.
template <class T, class Acc>
void spread_row(const PoolShape& s, Divide divide, const T* dy, std::int64_t oz, std::int64_t oy,
                Acc* image, Acc* shares) {
  const std::int64_t outer = s.z.count(oz, divide) * s.y.count(oy, divide);
  for (std::int64_t i = 0; i < s.x.windows; ++i)
    shares[i] = Element<T>::load(dy[i]) / static_cast<Acc>(outer * s.x.count(i, divide));
  for_rows(s, oz, oy, [&](std::int64_t row, std::int64_t) {
    for (std::int64_t kx = 0; kx < s.x.window; ++kx) {
      const auto [begin, end] = s.x.meeting(kx);
      Acc* const out = image + row + kx - s.x.low;
      if (s.x.stride == 1)
        for (std::int64_t i = begin; i < end; ++i) out[i] += shares[i];
      else
        for (std::int64_t i = begin; i < end; ++i) out[i * s.x.stride] += shares[i];
    }
  });
}

// --- the call ---------------------------------------------------------------------------------

/// Threads take different planes or rows of windows, so the result is the same on any number of
/// them. What is added up in another type than it is stored in has its place in the workspace.
class PoolCall : public Call {
 public:
  PoolCall(const CallSite& site, PoolKind kind)
      : Call(site), kind_(kind), attrs_(site.node->attrs) {
    if (kind == PoolKind::Average || kind == PoolKind::AverageGrad) divide_ = divide_of(attrs_);
    workspace = slot_bytes(shape(in_[0].shape, out_[0].shape)) * static_cast<unsigned>(threads_);
  }

  void run(const RunArgs& args) const override {
    const PoolShape s = shape(in(args, 0).shape, out(args, 0).shape);
    if (product(out(args, 0).shape) == 0) return;
    visit(out(args, 0).dtype, [&](auto tag) { run_as<decltype(tag)>(args, s); });
  }

 private:
  PoolShape shape(const Dims& in, const Dims& out) const {
    const bool back = kind_ == PoolKind::Unpool || kind_ == PoolKind::AverageGrad;
    return pool_shape(attrs_, back ? out : in, back ? in : out);
  }

  /// The accumulated image, unless the result is one.
  std::uint64_t image_bytes(const PoolShape& s) const {
    const bool back = kind_ == PoolKind::Unpool || kind_ == PoolKind::AverageGrad;
    return back && size_of(out_[0].dtype) == 2 ? align64(s.image() * sizeof(float)) : 0;
  }
  std::uint64_t slot_bytes(const PoolShape& s) const {
    const bool row = kind_ == PoolKind::Average || kind_ == PoolKind::AverageGrad;
    return image_bytes(s) + (row ? align64(s.x.windows * sizeof(double)) : 0);
  }

  template <class T>
  void run_as(const RunArgs& args, const PoolShape& s) const {
    const T* const in = reinterpret_cast<const T*>(args.in[0]);
    T* const out = reinterpret_cast<T*>(args.out[0]);
    const bool bytes = s.cells() <= 256;
    const auto index = [&](std::byte* p, auto&& go) {
      bytes ? go(reinterpret_cast<std::uint8_t*>(p)) : go(reinterpret_cast<std::int32_t*>(p));
    };
    if constexpr (!std::is_same_v<T, Bool>)
      if (kind_ == PoolKind::Max) {
        if (attrs_.has("without_index")) return maxima<T, NoIndex>(s, in, out, nullptr);
        return index(args.out[1], [&](auto* i) { maxima(s, in, out, i); });
      }
    if constexpr (std::is_floating_point_v<typename Element<T>::Acc>) {
      switch (kind_) {
        case PoolKind::Max: return;
        case PoolKind::Take: return index(args.in[1], [&](const auto* i) { take(s, in, i, out); });
        case PoolKind::Unpool:
          return index(args.in[1], [&](const auto* i) { unpool(s, in, i, out, args.workspace); });
        case PoolKind::Average: return average(s, in, out, args.workspace);
        case PoolKind::AverageGrad: return average_grad(s, in, out, args.workspace);
      }
    }
    internal_error("pool", fmt::format("no routine for {}", name_of(out_[0].dtype)));
  }

  /// Calls f(slot, plane, oz, oy, place of the row in the pooled images) for every row of windows.
  template <class F>
  void every_row(const PoolShape& s, F&& f) const {
    parallel_slots(s.rows(), s.work(), threads_,
                   [&](std::int64_t slot, std::int64_t row, std::int64_t end) {
                     for (; row < end; ++row)
                       f(slot, row / s.y.windows / s.z.windows, row / s.y.windows % s.z.windows,
                         row % s.y.windows, row * s.x.windows);
                   });
  }

  template <class T, class I>
  void maxima(const PoolShape& s, const T* x, T* y, I* index) const {
    every_row(s, [&](std::int64_t, std::int64_t plane, std::int64_t oz, std::int64_t oy,
                     std::int64_t at) {
      max_row(s, x + plane * s.image(), oz, oy, y + at, index ? index + at : nullptr);
    });
  }

  template <class T, class I>
  void take(const PoolShape& s, const T* x, const I* index, T* y) const {
    const Cells<I> cells(s);
    parallel_ranges(s.planes, s.planes * s.pooled(), threads_,
                    [&](std::int64_t plane, std::int64_t end) {
                      for (; plane < end; ++plane) {
                        const T* const image = x + plane * s.image();
                        T* const to = y + plane * s.pooled();
                        std::fill_n(to, s.pooled(), T{});
                        for_cells(s, cells, index + plane * s.pooled(),
                                  [&](std::int64_t k, std::int64_t at) { to[k] = image[at]; });
                      }
                    });
  }

  /// Calls f(plane, image in Acc, scratch row) for every plane, with an image of zeros, and stores
  /// it.
  template <class T, class F>
  void every_image(const PoolShape& s, T* out, std::byte* space, F&& f) const {
    using E = Element<T>;
    using Acc = typename E::Acc;
    parallel_slots(s.planes, s.planes * (s.image() + s.pooled()), threads_,
                   [&](std::int64_t slot, std::int64_t plane, std::int64_t end) {
                     std::byte* const mine =
                         space + slot * static_cast<std::int64_t>(slot_bytes(s));
                     Acc* const scratch = reinterpret_cast<Acc*>(mine + image_bytes(s));
                     for (; plane < end; ++plane) {
                       T* const to = out + plane * s.image();
                       if constexpr (std::is_same_v<T, Acc>) {
                         std::fill_n(to, s.image(), T{});
                         f(plane, to, scratch);
                       } else {
                         Acc* const image = reinterpret_cast<Acc*>(mine);
                         std::fill_n(image, s.image(), Acc{});
                         f(plane, image, scratch);
                         for (std::int64_t i = 0; i < s.image(); ++i) to[i] = E::store(image[i]);
                       }
                     }
                   });
  }

  template <class T, class I>
  void unpool(const PoolShape& s, const T* dy, const I* index, T* dx, std::byte* space) const {
    const Cells<I> cells(s);
    every_image(s, dx, space, [&](std::int64_t plane, auto* image, auto*) {
      const T* const from = dy + plane * s.pooled();
      for_cells(s, cells, index + plane * s.pooled(),
                [&](std::int64_t k, std::int64_t at) { image[at] += Element<T>::load(from[k]); });
    });
  }

  template <class T>
  void average(const PoolShape& s, const T* x, T* y, std::byte* space) const {
    using Acc = typename Element<T>::Acc;
    const auto row_bytes = static_cast<std::int64_t>(slot_bytes(s));
    every_row(s, [&](std::int64_t slot, std::int64_t plane, std::int64_t oz, std::int64_t oy,
                     std::int64_t at) {
      average_row(s, divide_, x + plane * s.image(), oz, oy, y + at,
                  reinterpret_cast<Acc*>(space + slot * row_bytes));
    });
  }

  template <class T>
  void average_grad(const PoolShape& s, const T* dy, T* dx, std::byte* space) const {
    every_image(s, dx, space, [&](std::int64_t plane, auto* image, auto* shares) {
      const T* from = dy + plane * s.pooled();
      for (std::int64_t oz = 0; oz < s.z.windows; ++oz)
        for (std::int64_t oy = 0; oy < s.y.windows; ++oy, from += s.x.windows)
          spread_row(s, divide_, from, oz, oy, image, shares);
    });
  }

  PoolKind kind_;
  Attrs attrs_;
  Divide divide_ = Divide::No;
};

}  // namespace

Prepared prepare_max_pool(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Max);
}
Prepared prepare_max_unpool(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Unpool);
}
Prepared prepare_max_pool_take(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Take);
}
Prepared prepare_average_pool(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Average);
}
Prepared prepare_average_pool_grad(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::AverageGrad);
}

}  // namespace snug::native
