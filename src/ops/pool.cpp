#include <cmath>
#include <optional>

#include "base/spelling.h"
#include "ops/batch_rules.h"
#include "ops/rules.h"

/// Pooling over the last axes, as many as `window` has. attrs: window, stride, pad (low and high of
/// every axis), partial (a window that begins inside the padded images and ends beyond them
/// counts), mode (of averages) and without_index (of max_pool: its second output is empty, since
/// nobody reads it). Every window has a cell inside the images, since pads are smaller than the
/// window.
namespace snug::ops {
namespace {

struct Pool {
  Attrs::Ints window, stride, pad;
  bool partial;
  std::size_t axes() const { return window.size(); }
  std::int64_t cells() const { return product(window); }

  static std::int64_t product(const Attrs::Ints& sizes) {
    std::int64_t n = 1;
    for (std::int64_t s : sizes) n *= s;
    return n;
  }
};

Pool pool_of(const Attrs& a) {
  return {a.ints("window"), a.ints("stride"), a.ints("pad"), a.flag("partial")};
}

/// Reads and checks the attributes.
Pool checked_pool(const Infer& f) {
  const Pool p = pool_of(f.attrs);
  if (p.axes() < 1 || p.axes() > 3)
    f.error(Fault::Value, fmt::format("the window has 1 to 3 axes, not {}", p.axes()));
  if (p.stride.size() != p.axes() || p.pad.size() != 2 * p.axes())
    f.error(Fault::Value, fmt::format("a window of {0} axes has {0} strides and {1} pads, not {2} "
                                      "and {3}",
                                      p.axes(), 2 * p.axes(), p.stride.size(), p.pad.size()));
  constexpr std::int64_t kLargest = 1
                                    << 20;  // of one axis: the cells of a window have int32 numbers
  std::int64_t cells = 1;
  for (std::size_t k = 0; k < p.axes(); ++k) {
    if (p.window[k] < 1 || p.stride[k] < 1 || p.window[k] > kLargest || p.stride[k] > kLargest)
      f.error(Fault::Value,
              fmt::format("windows ({}) and strides ({}) are from 1 to {}",
                          fmt::join(p.window, ", "), fmt::join(p.stride, ", "), kLargest));
    for (std::size_t side = 0; side < 2; ++side)
      if (p.pad[2 * k + side] < 0 || p.pad[2 * k + side] >= p.window[k])
        f.error(Fault::Value,
                fmt::format("a pad of {} does not go with a window of {}", p.pad[2 * k + side],
                            p.window[k]),
                "a pad is at least 0 and smaller than the window");
    cells *= p.window[k];
    if (cells > INT32_MAX)
      f.error(Fault::Value, fmt::format("a window of {} cells is too large", cells));
  }
  return p;
}

/// The number of windows on axis k of the window; `x` is the size of the images there.
SizeId window_count(Infer& f, const Pool& p, std::size_t k, SizeId x) {
  SizeTable& t = f.sizes;
  f.require_at_most(t.one(), x, "the images have no element");
  const SizeId padded = t.add(x, t.constant(p.pad[2 * k] + p.pad[2 * k + 1]));
  const SizeId window = t.constant(p.window[k]), stride = t.constant(p.stride[k]);
  if (!p.partial) {
    f.require_at_most(
        window, padded,
        fmt::format("the window of {} is larger than the padded images", p.window[k]),
        fmt::format("with {} a part of a window is enough", switched("ignore_border", false)));
    return t.add(t.floor_div(t.sub(padded, window), stride), t.one());
  }
  const SizeId beyond = t.constant(std::min(p.window[k], p.stride[k]) - 1);
  const SizeId room = t.max(t.sub(t.add(padded, beyond), window), t.zero());
  return t.add(t.floor_div(room, stride), t.one());
}

/// The type of pooled images of type `x`.
Type pooled(Infer& f, const Pool& p, const Type& x, DType dtype) {
  if (x.dims.size() < p.axes())
    f.error(Fault::Type, fmt::format("a window of {} axes does not go with images of {} dimensions",
                                     p.axes(), x.ndim()));
  Type out = x;
  out.dtype = dtype;
  const std::size_t first = x.dims.size() - p.axes();
  for (std::size_t k = 0; k < p.axes(); ++k) {
    out.dims[first + k] = window_count(f, p, k, x.dims[first + k]);
    out.broadcast &= static_cast<std::uint8_t>(~(1u << (first + k)));
  }
  return out;
}

void require_shape(Infer& f, const Type& found, const Type& wanted, const std::string& name) {
  if (found.dims.size() != wanted.dims.size())
    f.error(Fault::Type,
            fmt::format("{} has {} dimensions, not {}", name, found.ndim(), wanted.ndim()));
  for (std::size_t k = 0; k < wanted.dims.size(); ++k)
    f.require_equal(found.dims[k], wanted.dims[k],
                    fmt::format("{} has another size on axis {}", name, k));
}

/// Of the cell of the maximum in its window.
DType index_dtype(const Pool& p) { return p.cells() <= 256 ? DType::U8 : DType::I32; }

void require_index(Infer& f, const Pool& p, std::size_t i) {
  if (f.in(i).dtype != index_dtype(p))
    f.error(Fault::Type, fmt::format("the cells of a window of {} have numbers in {}, not {}",
                                     p.cells(), name_of(index_dtype(p)), name_of(f.in(i).dtype)));
}

/// The result has the shape of the images, which is the last input; input 0 has that of the result
/// of pooling.
Type unpooled(Infer& f, const Pool& p, std::size_t shape_input) {
  Type out = type_from_shape(f, shape_input, f.in(0).dtype);
  require_shape(f, f.in(0), pooled(f, p, out, out.dtype), "the gradient");
  return out;
}

// ---- reference ----

/// Calls visit(place in the pooled images, place in the images, cell of the window) for every cell
/// of every window that lies inside, and `finish(place in the pooled images, cells with padding)`
/// after each window.
template <class F, class G>
void visit_windows(const Pool& p, const Dims& x, const Dims& y, F&& visit, G&& finish) {
  const std::size_t first = x.size() - p.axes();
  Counter at(y);
  const std::int64_t windows = snug::product(y);
  for (std::int64_t k = 0; k < windows; ++k, at.next()) {
    Counter cell(Dims(std::span<const std::int64_t>(p.window)));
    std::int64_t padded_cells = 0;
    for (std::int64_t c = 0; c < p.cells(); ++c, cell.next()) {
      Dims place = at.at;
      bool inside = true, padded = true;
      for (std::size_t a = 0; a < p.axes(); ++a) {
        const std::int64_t i = at.at[first + a] * p.stride[a] - p.pad[2 * a] + cell.at[a];
        inside &= i >= 0 && i < x[first + a];
        padded &= i < x[first + a] + p.pad[2 * a + 1];
        place[first + a] = i;
      }
      padded_cells += padded;
      if (inside) visit(k, flat(x, place), c);
    }
    finish(k, padded_cells);
  }
}
template <class F>
void visit_windows(const Pool& p, const Dims& x, const Dims& y, F&& visit) {
  visit_windows(p, x, y, visit, [](std::int64_t, std::int64_t) {});
}

void max_pool_reference(const ReferenceArgs& r) {
  const RefTensor& x = *r.x[0];
  std::int64_t window = -1, best = 0;
  visit_windows(pool_of(r.attrs), x.shape, r.y[0].shape,
                [&](std::int64_t k, std::int64_t i, std::int64_t cell) {
                  const auto larger = [&] {
                    if (x.dtype == DType::U64)
                      return static_cast<std::uint64_t>(x.i[i]) >
                             static_cast<std::uint64_t>(x.i[best]);
                    if (!x.floating()) return x.i[i] > x.i[best];
                    return x.f[i] > x.f[best] || (std::isnan(x.f[i]) && !std::isnan(x.f[best]));
                  };
                  if (k == window && !larger()) return;
                  window = k;
                  best = i;
                  r.y[0].set(k, x.at(i));
                  if (!r.attrs.has("without_index")) r.y[1].i[k] = cell;
                });
}

void max_unpool_reference(const ReferenceArgs& r) {
  visit_windows(pool_of(r.attrs), r.y[0].shape, r.x[0]->shape,
                [&](std::int64_t k, std::int64_t i, std::int64_t cell) {
                  if (r.x[1]->i[k] == cell) r.y[0].f[i] += r.x[0]->f[k];
                });
}

void max_pool_take_reference(const ReferenceArgs& r) {
  visit_windows(pool_of(r.attrs), r.x[0]->shape, r.y[0].shape,
                [&](std::int64_t k, std::int64_t i, std::int64_t cell) {
                  if (r.x[1]->i[k] == cell) r.y[0].f[k] = r.x[0]->f[i];
                });
}

/// What the sum of a window is divided by: its cells in the images, or with their padding.
double divisor(const std::string& mode, std::int64_t inside, std::int64_t padded) {
  if (mode == "sum") return 1;
  return static_cast<double>(mode == "average_inc_pad" ? padded : inside);
}

void average_pool_reference(const ReferenceArgs& r) {
  std::int64_t inside = 0;
  visit_windows(
      pool_of(r.attrs), r.x[0]->shape, r.y[0].shape,
      [&](std::int64_t k, std::int64_t i, std::int64_t) {
        r.y[0].f[k] += r.x[0]->f[i];
        ++inside;
      },
      [&](std::int64_t k, std::int64_t padded) {
        r.y[0].f[k] /= divisor(r.attrs.text("mode"), inside, padded);
        inside = 0;
      });
}

void average_pool_grad_reference(const ReferenceArgs& r) {
  std::vector<std::int64_t> window;
  visit_windows(
      pool_of(r.attrs), r.y[0].shape, r.x[0]->shape,
      [&](std::int64_t, std::int64_t i, std::int64_t) { window.push_back(i); },
      [&](std::int64_t k, std::int64_t padded) {
        const double by =
            divisor(r.attrs.text("mode"), static_cast<std::int64_t>(window.size()), padded);
        for (std::int64_t i : window) r.y[0].f[i] += r.x[0]->f[k] / by;
        window.clear();
      });
}

// ---- gradients ----

/// The attributes of the pooling, with the broadcast pattern of the images.
Attrs with_broadcast(const Attrs& attrs, const Expr& like) {
  Attrs out = attrs;
  out.set("broadcast", std::int64_t{like.type().broadcast});
  return out;
}
Attrs without_broadcast(const Attrs& attrs) {
  Attrs out = attrs;
  out.erase("broadcast");
  return out;
}

Expr unpool(const Expr& dy, const Expr& index, const Expr& x, const Attrs& attrs) {
  return apply(ops::max_unpool, {dy, index, snug::shape(x)}, with_broadcast(attrs, x));
}

/// A mode of averages.
void require_mode(const Infer& f) {
  const std::string& mode = f.attrs.text("mode");
  if (mode != "average_inc_pad" && mode != "average_exc_pad" && mode != "sum")
    f.error(Fault::Value, fmt::format("there is no mode '{}'", mode),
            "choose 'average_inc_pad', 'average_exc_pad' or 'sum'");
}

}  // namespace

const OpDef max_pool = {
    .name = "max_pool",
    .doc =
        "The largest element of every window, and the number of its cell in the window in C order; "
        "nan is the largest, of equal elements the first counts.",
    .outputs = 2,
    .infer =
        [](Infer& f) {
          const Pool p = checked_pool(f);
          if (f.in(0).dtype == DType::Bool)
            f.error(Fault::Type, "bools have no maximum here", "cast them to an integer type");
          f.out(pooled(f, p, f.in(0), f.in(0).dtype));
          Type index = pooled(f, p, f.in(0), index_dtype(p));
          if (f.attrs.has("without_index")) {
            index.dims[0] = f.sizes.zero();
            index.broadcast &= static_cast<std::uint8_t>(~1u);
          }
          f.out(std::move(index));
        },
    .grad = [](const GradArgs& g) -> Exprs { return {unpool(g.dy[0], g.y[1], g.x[0], g.attrs)}; },
    .reference = max_pool_reference,
    .batch = batch_windows,
};

const OpDef max_unpool = {
    .name = "max_unpool",
    .doc =
        "The gradient of max_pool by the images, of the given shape: every number goes to the cell "
        "of its window that is given, where they add up.",
    .arity = 3,
    .size_inputs_from = 2,
    .infer =
        [](Infer& f) {
          const Pool p = checked_pool(f);
          require_float(f, 0);
          require_index(f, p, 1);
          require_shape(f, f.in(1), f.in(0), "the index");
          f.out(unpooled(f, p, 2));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(ops::max_pool_take, {g.dy[0], g.x[1]}, without_broadcast(g.attrs)), {}, {}};
    },
    .reference = max_unpool_reference,
    .batch = batch_windows_sized,
};

const OpDef max_pool_take = {
    .name = "max_pool_take",
    .doc = "The element of every window in the cell that is given; 0 for a cell outside.",
    .arity = 2,
    .infer =
        [](Infer& f) {
          const Pool p = checked_pool(f);
          require_float(f, 0);
          require_index(f, p, 1);
          Type out = pooled(f, p, f.in(0), f.in(0).dtype);
          require_shape(f, f.in(1), out, "the index");
          f.out(std::move(out));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {unpool(g.dy[0], g.x[1], g.x[0], g.attrs), {}};
    },
    .reference = max_pool_take_reference,
    .batch = batch_windows,
};

const OpDef average_pool = {
    .name = "average_pool",
    .doc =
        "The average of every window, counting its cells in the images only or the padding as "
        "well, or the sum.",
    .infer =
        [](Infer& f) {
          const Pool p = checked_pool(f);
          require_mode(f);
          require_float(f, 0);
          f.out(pooled(f, p, f.in(0), f.in(0).dtype));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(ops::average_pool_grad, {g.dy[0], snug::shape(g.x[0])},
                    with_broadcast(g.attrs, g.x[0]))};
    },
    .reference = average_pool_reference,
    .batch = batch_windows,
};

const OpDef average_pool_grad = {
    .name = "average_pool_grad",
    .doc = "The gradient of average_pool by the images, of the given shape.",
    .arity = 2,
    .size_inputs_from = 1,
    .infer =
        [](Infer& f) {
          const Pool p = checked_pool(f);
          require_mode(f);
          require_float(f, 0);
          f.out(unpooled(f, p, 1));
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(ops::average_pool, {g.dy[0]}, without_broadcast(g.attrs)), {}};
    },
    .reference = average_pool_grad_reference,
    .batch = batch_windows_sized,
};

}  // namespace snug::ops
