#include <cmath>
#include <limits>
#include <numeric>

#include "ops/arguments.h"
#include "ops/conv_functions.h"
#include "ops/windows.h"

namespace snug {

// ---- windows ----

std::vector<Expr> sizes_of(const Expr& x) {
  std::vector<Expr> out;
  for (int k = 0; k < x.ndim(); ++k) out.push_back(shape_i(x, k));
  return out;
}

Expr window_places(const Expr& windows, const Expr& cells, const Arg& step, const Arg& dilation,
                   const Expr& low) {
  Expr first = arange(windows) * step - low;
  return dimshuffle(first, {0, -1}) + dimshuffle(arange(cells) * dilation, {-1, 0});
}

namespace {

/// The indices of all windows into rows and columns, and where they lie inside.
struct WindowIndex {
  Expr rows, columns, inside;

  WindowIndex(const Expr& x, const Expr& row_places, const Expr& column_places) {
    const Expr r = dimshuffle(row_places, {0, -1, 1, -1});
    const Expr c = dimshuffle(column_places, {-1, 0, -1, 1});
    const Expr zero = int64_constant(0), one = int64_constant(1);
    const Expr height = shape_i(x, 2), width = shape_i(x, 3);
    rows = clip(r, zero, height - one);
    columns = clip(c, zero, width - one);
    inside = bit_and(bit_and(ge(r, zero), lt(r, height)), bit_and(ge(c, zero), lt(c, width)));
  }
  std::vector<IndexItem> items() const { return {IndexItem(), IndexItem(), rows, columns}; }
};

void require_images(const char* what, const Expr& x) {
  if (x.ndim() != 4)
    fail(Fault::Type, fmt::format("{}: images have 4 dimensions, not {}", what, x.ndim()));
}

/// An error for a text that is none of those there are.
[[noreturn]] void no_such(const char* what, const char* kind, const std::string& given,
                          const std::vector<std::string>& there_are) {
  const std::string near = nearest(given, there_are);
  fail(Fault::Value, fmt::format("{}: there is no {} '{}'", what, kind, given),
       near.empty() ? fmt::format("choose one of {}", fmt::join(there_are, ", "))
                    : fmt::format("did you mean '{}'?", near));
}

}  // namespace

Expr windows_of(const Expr& x, const Expr& rows, const Expr& columns, bool outside) {
  const WindowIndex index(x, rows, columns);
  if (!outside)
    return subtensor(x, {IndexItem(), IndexItem(), dimshuffle(rows, {0, -1, 1, -1}),
                         dimshuffle(columns, {-1, 0, -1, 1})});
  return switch_(index.inside, subtensor(x, index.items()), typed_number(0, x.dtype()));
}

Expr add_windows(const Expr& images, const Expr& rows, const Expr& columns, const Expr& windows) {
  const WindowIndex index(images, rows, columns);
  return inc_subtensor(images, index.items(),
                       switch_(index.inside, windows, typed_number(0, windows.dtype())));
}

// ---- pooling ----

namespace {

Attrs pool_attrs(const PoolOptions& o) {
  return {{"window", o.window},
          {"stride", o.stride.empty() ? o.window : o.stride},
          {"pad", both_sides("pool", o.pad, o.window.size())},
          {"partial", !o.ignore_border}};
}

void require_pool_mode(const std::string& mode) {
  const std::vector<std::string> modes{"average_exc_pad", "average_inc_pad", "max", "sum"};
  if (std::find(modes.begin(), modes.end(), mode) == modes.end())
    no_such("pool", "mode", mode, modes);
}

/// The smallest number of a dtype.
Expr lowest(DType dtype) {
  if (is_float(dtype)) return typed_number(-std::numeric_limits<double>::infinity(), dtype);
  if (!is_signed_int(dtype)) return typed_number(0, dtype);
  return typed_number(-std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)) - 1), dtype);
}

/// The windows along one axis, in sizes that only a call knows.
struct AxisWindows {
  Expr size, window, stride, pad;
  bool partial;

  Expr padded() const { return size + pad * int64_constant(2); }

  /// What must hold, else there is no pool.
  std::vector<Expr> conditions() const {
    const Expr zero = int64_constant(0);
    std::vector<Expr> out{gt(size, zero), gt(window, pad), gt(stride, zero), ge(pad, zero)};
    if (!partial) out.push_back(ge(padded(), window));
    return out;
  }

  Expr count() const {
    const Expr zero = int64_constant(0), one = int64_constant(1);
    const Expr step = maximum(stride, one);
    const Expr beyond = partial ? minimum(window, step) - one : zero;
    return floor_div(maximum(padded() + beyond - window, zero), step) + one;
  }
};

/// Pools images along one axis. All modes can go axis by axis.
Expr pool_axis(const Expr& x, std::int64_t axis, const AxisWindows& along,
               const std::string& mode) {
  const bool largest = mode == "max";
  auto before_others = [&](const Expr& e) {  // its axes stand before those behind `axis`
    std::vector<std::int64_t> pattern(static_cast<std::size_t>(e.ndim() + x.ndim() - axis - 1), -1);
    std::iota(pattern.begin(), pattern.begin() + e.ndim(), 0);
    return dimshuffle(e, pattern);
  };
  const Expr zero = int64_constant(0), one = int64_constant(1);
  const Expr places = window_places(along.count(), along.window, along.stride, one, along.pad);
  const Expr inside = bit_and(ge(places, zero), lt(places, along.size));
  const Expr cells =
      switch_(before_others(inside), take(x, clip(places, zero, along.size - one), axis),
              largest ? lowest(x.dtype()) : typed_number(0, x.dtype()));
  if (largest) return max(cells, {axis + 1});
  const Expr total = sum(cells, {axis + 1});
  if (mode == "sum") return total;
  const Expr counted = mode == "average_exc_pad" ? inside : lt(places, along.size + along.pad);
  return total / before_others(cast(sum(counted, {1}), x.dtype()));
}

}  // namespace

Expr pool(const Arg& given, const PoolOptions& o) {
  Scope scope(given, nullptr);
  require_expr("pool", given.expr);
  Attrs attrs = pool_attrs(o);
  if (o.mode == "max") return apply_all(ops::max_pool, {given.expr}, std::move(attrs))[0];
  require_pool_mode(o.mode);
  attrs.set("mode", o.mode);
  return apply(ops::average_pool, {in_float("pool", given)}, std::move(attrs));
}

Expr pool_of_sizes(const Arg& given, const PoolSizes& sizes, bool ignore_border,
                   const std::string& mode) {
  Scope scope(given, nullptr);
  require_expr("pool", given.expr);
  require_pool_mode(mode);
  Expr x = mode == "max" ? given.expr : in_float("pool", given);
  const std::size_t axes = sizes.window.size();
  if (axes < 1 || axes > static_cast<std::size_t>(x.ndim()))
    fail(Fault::Type, fmt::format("pool: a window of {} axes does not go with images of {} "
                                  "dimensions",
                                  axes, x.ndim()));
  for (const std::vector<Expr>* others : {&sizes.stride, &sizes.pad})
    if (!others->empty() && others->size() != axes)
      fail(Fault::Value, fmt::format("pool: a window of {0} axes has {0} strides and {0} pads, not "
                                     "{1}",
                                     axes, others->size()));
  for (std::size_t k = 0; k < axes; ++k) {
    const std::int64_t axis = x.ndim() - static_cast<std::int64_t>(axes - k);
    const Expr& stride = sizes.stride.empty() ? sizes.window[k] : sizes.stride[k];
    const Expr pad = sizes.pad.empty() ? int64_constant(0) : cast(sizes.pad[k], DType::I64);
    const AxisWindows along{shape_i(x, axis), cast(sizes.window[k], DType::I64),
                            cast(stride, DType::I64), pad, !ignore_border};
    x = assert_(x, along.conditions(),
                fmt::format("pool: the window, its stride and its pad do not go together, or not "
                            "with the size of axis {}",
                            axis));
    x = pool_axis(x, axis, along, mode);
  }
  return x;
}

Expr max_pool_same_size(const Arg& given, const std::vector<std::int64_t>& window) {
  Scope scope(given);
  Expr x = in_float("max_pool_same_size", given);
  Attrs attrs = pool_attrs({.window = window});
  std::vector<Expr> found = apply_all(ops::max_pool, {x}, attrs);
  attrs.set("broadcast", std::int64_t{x.type().broadcast});
  return apply(ops::max_unpool, {found[0], found[1], shape(x)}, std::move(attrs));
}

Expr global_pool(const Arg& x, const std::string& mode) {
  Scope scope(x);
  require_expr("global_pool", x.expr);
  if (x.expr.ndim() < 3)
    fail(Fault::Type,
         fmt::format("global_pool: images have at least 3 dimensions, not {}", x.expr.ndim()));
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.expr.ndim()) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  if (mode == "average") return mean(x, axes);
  if (mode == "max") return max(x, axes);
  if (mode == "sum") return sum(x, axes);
  no_such("global_pool", "mode", mode, {"average", "max", "sum"});
}

// ---- normalisation ----

Expr Coefficient::in(DType dtype) const {
  return expr ? cast(expr, dtype) : typed_number(number, dtype);
}

namespace {

/// What batch normalisation works on: the images and the axes of their statistics.
struct Batch {
  Expr x;
  std::vector<std::int64_t> axes;

  Batch(const Arg& given, const std::vector<std::int64_t>& over)
      : x(in_float("batch_normalization", given)) {
    for (std::int64_t axis : over)
      axes.push_back(normal_axis("batch_normalization", axis, x.ndim()));
    std::sort(axes.begin(), axes.end());
    if (axes.empty() || std::adjacent_find(axes.begin(), axes.end()) != axes.end())
      fail(Fault::Value, "batch_normalization: the axes are not different, or there is none");
  }

  /// A parameter with as many dimensions as x, stretching over the axes.
  Expr parameter(const Expr& given) const {
    require_expr("batch_normalization", given);
    Expr value = given;
    const int kept = x.ndim() - static_cast<int>(axes.size());
    if (value.ndim() == kept && kept != x.ndim()) {
      std::vector<std::int64_t> pattern;
      for (std::int64_t axis = 0, next = 0; axis < x.ndim(); ++axis)
        pattern.push_back(std::binary_search(axes.begin(), axes.end(), axis) ? -1 : next++);
      value = dimshuffle(value, pattern);
    }
    if (value.ndim() != x.ndim())
      fail(Fault::Value,
           fmt::format("batch_normalization: a parameter has {} dimensions, not {}", value.ndim(),
                       x.ndim()),
           fmt::format("give it {} dimensions, or {} for the axes that are not normalised over",
                       x.ndim(), kept));
    return addbroadcast(value, axes);
  }
};

}  // namespace

Expr standardize(const Expr& x, const Expr& mean, const Expr& inverse_deviation,
                 const std::vector<std::int64_t>& axes) {
  Attrs attrs;
  attrs.set("axes", axes);
  return apply(ops::standardize, {x, mean, inverse_deviation}, attrs);
}

BatchNormalization batch_normalization_train(const Arg& given, const Arg& gamma, const Arg& beta,
                                             const std::vector<std::int64_t>& axes,
                                             const Coefficient& epsilon, const Coefficient& factor,
                                             const Expr& running_mean,
                                             const Expr& running_variance) {
  Scope scope(given);
  if (static_cast<bool>(running_mean) != static_cast<bool>(running_variance))
    fail(Fault::Value,
         "batch_normalization_train: give the running mean and the running variance, or neither");
  const Batch b(given, axes);
  const Expr one = typed_number(1, b.x.dtype());
  Expr average = mean(b.x, b.axes, true), variance = var(b.x, b.axes, true);
  Expr inverse = one / sqrt(variance + epsilon.in(b.x.dtype()));
  BatchNormalization out;
  out.out =
      standardize(b.x, average, inverse, b.axes) * b.parameter(gamma.expr) + b.parameter(beta.expr);
  out.mean = average;
  out.inverse_deviation = inverse;
  if (!running_mean) return out;
  const Expr share = factor.in(b.x.dtype()), rest = one - share;
  Expr count = one;
  for (std::int64_t axis : b.axes) count = count * cast(shape_i(b.x, axis), b.x.dtype());
  // A batch of one element has no estimate of the variance; it must not spoil the running one.
  Expr population = variance * (count / maximum(count - one, one));
  out.running_mean = b.parameter(running_mean) * rest + average * share;
  out.running_variance = b.parameter(running_variance) * rest + population * share;
  return out;
}

Expr batch_normalization_test(const Arg& given, const Arg& gamma, const Arg& beta, const Arg& mean,
                              const Arg& variance, const std::vector<std::int64_t>& axes,
                              const Coefficient& epsilon) {
  Scope scope(given);
  const Batch b(given, axes);
  Expr deviation = sqrt(b.parameter(variance.expr) + epsilon.in(b.x.dtype()));
  Expr scale = b.parameter(gamma.expr) / deviation;
  return (b.x - b.parameter(mean.expr)) * scale + b.parameter(beta.expr);
}

Expr local_response_normalization(const Arg& given, std::int64_t size, double alpha, double beta,
                                  double k) {
  Scope scope(given);
  Expr x = in_float("local_response_normalization", given);
  if (x.ndim() < 2)
    fail(Fault::Type, fmt::format("local_response_normalization: images have at least 2 "
                                  "dimensions, not {}",
                                  x.ndim()));
  if (size < 1)
    fail(Fault::Value, fmt::format("local_response_normalization: {} channels", size),
         "give at least 1");
  Expr squares = sqr(x);
  Expr lines = x.ndim() > 2 ? flatten(squares, 3) : expand_dims(squares, 2);
  Expr sums = pool(lines, {.window = {size, 1},
                           .stride = {1, 1},
                           .pad = {size / 2, (size - 1) / 2, 0, 0},
                           .mode = "sum"});
  auto c = [&](double v) { return typed_number(v, x.dtype()); };
  return x / pow(c(k) + c(alpha) * reshape(sums, Sizes(shape(x))), c(beta));
}

// ---- parts of images ----

namespace {

/// The windows of images2neibs on one axis.
struct Neighbours {
  Expr places;
  std::vector<Expr> conditions;  // that hold if the sizes go together
};
Neighbours neighbours(const std::string& mode, const Expr& size, const Expr& window,
                      const Expr& step) {
  const Expr zero = int64_constant(0), one = int64_constant(1), two = int64_constant(2);
  Expr low = zero, padding = zero;
  if (mode == "half" || mode == "wrap_centered") low = floor_div(window, two);
  if (mode == "full") low = window - one;
  if (mode == "half" || mode == "full") padding = low * two;
  const Expr room = size + padding - window;
  Neighbours out;
  if (mode != "ignore_borders") out.conditions.push_back(ge(size, window));
  if (mode == "wrap_centered") {
    out.conditions.push_back(eq(mod(window, two), one));
    Expr windows = floor_div(size + step - one, step);
    out.places = mod(window_places(windows, window, step, one, low), size);
    return out;
  }
  if (mode != "ignore_borders") out.conditions.push_back(eq(mod(room, step), zero));
  out.places = window_places(floor_div(room, step) + one, window, step, one, low);
  return out;
}

std::vector<Expr> pair_of(const char* what, const char* name, const std::vector<Expr>& given) {
  if (given.size() != 2)
    fail(Fault::Value, fmt::format("{}: {} has 2 entries, not {}", what, name, given.size()));
  std::vector<Expr> out;
  for (const Expr& e : given) {
    if (e.ndim() != 0 || !is_int(e.dtype()))
      fail(Fault::Type,
           fmt::format("{}: {} are two integers, not {}", what, name, snug::describe(e.type())));
    out.push_back(cast(e, DType::I64));
  }
  return out;
}

}  // namespace

Expr images2neibs(const Arg& x, const std::vector<Expr>& given_shape,
                  const std::vector<Expr>& given_step, const std::string& mode) {
  Scope scope(x);
  constexpr const char* kName = "images2neibs";
  require_expr(kName, x.expr);
  require_images(kName, x.expr);
  const std::vector<std::string> modes{"valid", "ignore_borders", "half", "full", "wrap_centered"};
  if (std::find(modes.begin(), modes.end(), mode) == modes.end())
    no_such(kName, "mode", mode, modes);
  const std::vector<Expr> window = pair_of(kName, "neib_shape", given_shape);
  const std::vector<Expr> step =
      given_step.empty() ? window : pair_of(kName, "neib_step", given_step);
  const Neighbours rows = neighbours(mode, shape_i(x, 2), window[0], step[0]);
  const Neighbours columns = neighbours(mode, shape_i(x, 3), window[1], step[1]);
  std::vector<Expr> conditions = rows.conditions;
  conditions.insert(conditions.end(), columns.conditions.begin(), columns.conditions.end());
  Expr images = x.expr;
  if (!conditions.empty())
    images = assert_(images, conditions,
                     fmt::format("images2neibs: the sizes of the images, of the windows and of the "
                                 "steps do not go with mode '{}'",
                                 mode));
  Expr parts = windows_of(images, rows.places, columns.places, mode == "half" || mode == "full");
  const std::vector<Expr> s = sizes_of(parts);
  return reshape(parts, std::vector<Expr>{s[0] * s[1] * s[2] * s[3], s[4] * s[5]});
}

Expr neibs2images(const Arg& neibs, const std::vector<Expr>& neib_shape,
                  const std::vector<Expr>& shape, const std::string& mode) {
  Scope scope(neibs);
  constexpr const char* kName = "neibs2images";
  require_expr(kName, neibs.expr);
  if (neibs.expr.ndim() != 2 || shape.size() != 4)
    fail(Fault::Type, fmt::format("{}: makes images of 4 dimensions of a matrix, not of {} and {}",
                                  kName, shape.size(), snug::describe(neibs.expr.type())));
  if (mode != "valid" && mode != "ignore_borders")
    fail(Fault::Unsupported, fmt::format("{}: windows of mode '{}'", kName, mode),
         "choose 'valid' or 'ignore_borders'");
  const std::vector<Expr> window = pair_of(kName, "neib_shape", neib_shape);
  const Expr rows = floor_div(shape[2], window[0]), columns = floor_div(shape[3], window[1]);
  Expr parts =
      reshape(neibs, std::vector<Expr>{shape[0], shape[1], rows, columns, window[0], window[1]});
  const Expr height = rows * window[0], width = columns * window[1];
  Expr images = reshape(dimshuffle(parts, {0, 1, 2, 4, 3, 5}),
                        std::vector<Expr>{shape[0], shape[1], height, width});
  const Expr zero = int64_constant(0);
  if (mode == "valid") return reshape(images, shape);
  return pad(images, {zero, zero, zero, zero, zero, shape[2] - height, zero, shape[3] - width});
}

// ---- sampling ----

Expr bilinear_kernel(const Arg& ratio, bool normalize) {
  Scope scope(ratio);
  require_expr("bilinear_kernel", ratio.expr);
  const DType t = default_float();
  Expr places = arange(int64_constant(1), ratio.expr * int64_constant(2));
  Expr heights = cast(ratio.expr - abs(places - ratio.expr), t);
  return normalize ? heights / cast(ratio, t) : heights;
}

namespace {

/// Interpolates along one axis: `p` times as many places, of which every q-th stays.
Expr enlarge(const Expr& x, std::int64_t axis, std::int64_t p, std::int64_t q) {
  const Expr size = shape_i(x, axis);
  const Expr last = size - int64_constant(1), one = int64_constant(1);
  const Expr ratio = int64_constant(p), step = int64_constant(q);
  Expr count = floor_div(size * ratio + step - one, step);
  // The place in a row that has its first and last element twice, times p; the triangles of two
  // neighbours meet there.
  Expr at = arange(count) * step + int64_constant(p + p / 2);
  Expr high = floor_div(at, ratio), part = at - high * ratio;
  Expr weight = cast(part + one, x.dtype()) / typed_number(static_cast<double>(p), x.dtype());
  std::vector<std::int64_t> pattern(static_cast<std::size_t>(x.ndim()), -1);
  pattern[static_cast<std::size_t>(axis)] = 0;
  weight = dimshuffle(weight, pattern);
  auto taken = [&](const Expr& places) {
    std::vector<IndexItem> items(static_cast<std::size_t>(axis));
    items.emplace_back(clip(places, int64_constant(0), last));
    return subtensor(x, items);
  };
  return taken(high - one) * weight +
         taken(high - int64_constant(2)) * (typed_number(1, x.dtype()) - weight);
}

}  // namespace

Expr bilinear_upsampling(const Arg& given, const std::vector<std::int64_t>& numerators,
                         const std::vector<std::int64_t>& denominators) {
  Scope scope(given);
  Expr x = in_float("bilinear_upsampling", given);
  require_images("bilinear_upsampling", x);
  if (numerators.size() != 2 || denominators.size() != 2)
    fail(Fault::Value, "bilinear_upsampling: there are two ratios, of rows and columns");
  for (std::size_t k = 0; k < 2; ++k) {
    const std::int64_t p = numerators[k], q = denominators[k];
    if (p < 1 || q < 1)
      fail(Fault::Value,
           fmt::format("bilinear_upsampling: the ratio {} / {} is not positive", p, q));
    const std::int64_t common = std::gcd(p, q);
    x = enlarge(x, static_cast<std::int64_t>(2 + k), p / common, q / common);
  }
  return x;
}

Expr affine_grid(const Arg& given, const Expr& rows, const Expr& columns) {
  Scope scope(given);
  Expr theta = in_float("affine_grid", given);
  if (theta.ndim() != 3)
    fail(Fault::Type,
         fmt::format("affine_grid: theta has 3 dimensions, (batch, 2, 3), not {}", theta.ndim()));
  theta = specify_shape(theta, {-1, 2, 3});
  const DType t = theta.dtype();
  const Expr low = typed_number(-1, t), high = typed_number(1, t);
  // (batch, 2, 1, 1) numbers and (rows, 1) and (1, columns) coordinates.
  Expr y = dimshuffle(linspace(low, high, rows, true, t), {0, -1});
  Expr x = dimshuffle(linspace(low, high, columns, true, t), {-1, 0});
  auto factor = [&](int k) {
    return dimshuffle(subtensor(theta, {IndexItem(), IndexItem(), k}), {0, 1, -1, -1});
  };
  return factor(0) * x + factor(1) * y + factor(2);
}

Expr sample_grid(const Arg& given, const Arg& given_grid, const std::string& border) {
  Scope scope(given);
  constexpr const char* kName = "sample_grid";
  Expr x = in_float(kName, given);
  Expr grid = in_float(kName, given_grid);
  require_images(kName, x);
  if (grid.ndim() != 4)
    fail(Fault::Type, fmt::format("{}: a grid has 4 dimensions, (batch, 2, rows, columns), not {}",
                                  kName, grid.ndim()));
  if (border != "zero" && border != "nearest")
    no_such(kName, "border", border, {"zero", "nearest"});
  grid = specify_shape(cast(grid, x.dtype()), {-1, 2, -1, -1});
  const DType t = x.dtype();
  const Expr one = typed_number(1, t), zero = int64_constant(0);
  // Along axis 2 + k: the two places next to the coordinate and the weight of the second.
  struct Along {
    Expr place[2], weight[2];
  } along[2];
  for (int k = 0; k < 2; ++k) {
    Expr coordinate = subtensor(grid, {IndexItem(), 1 - k});
    const Expr last = shape_i(x, 2 + k) - int64_constant(1);
    Expr at = (coordinate + one) * (cast(last, t) * typed_number(0.5, t));
    Expr low = floor(at), part = at - low;
    // What lies far outside must be a number that an index can be.
    const Expr first_place = cast(clip(low, typed_number(-2, t), cast(last, t) + one), DType::I64);
    along[k].weight[0] = one - part;
    along[k].weight[1] = part;
    for (int side = 0; side < 2; ++side) {
      Expr place = first_place + int64_constant(side);
      if (border == "zero") {
        Expr inside = bit_and(ge(place, zero), le(place, last));
        along[k].weight[side] = switch_(inside, along[k].weight[side], typed_number(0, t));
      }
      along[k].place[side] = clip(place, zero, last);
    }
  }
  Expr image = dimshuffle(arange(shape_i(x, 0)), {0, -1, -1});
  Expr total;
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c) {
      // (batch, rows, columns, channels)
      Expr taken =
          subtensor(dimshuffle(x, {0, 2, 3, 1}), {image, along[0].place[r], along[1].place[c]});
      Expr weight = along[0].weight[r] * along[1].weight[c];
      Expr part = dimshuffle(taken, {0, 3, 1, 2}) * dimshuffle(weight, {0, -1, 1, 2});
      total = total ? total + part : part;
    }
  return total;
}

}  // namespace snug
