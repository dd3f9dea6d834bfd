#include "ops/conv_functions.h"

#include "ops/arguments.h"
#include "ops/windows.h"

namespace snug {
namespace {

using Ints = std::vector<std::int64_t>;

/// The rows of convolutions over a number of axes.
struct Rows {
  const OpDef &forward, &grad_input, &grad_weight;
};
Rows rows_of(std::size_t axes) {
  if (axes == 3) return {ops::conv3d, ops::conv3d_grad_input, ops::conv3d_grad_weight};
  return {ops::conv2d, ops::conv2d_grad_input, ops::conv2d_grad_weight};
}

/// A function and the number of axes that it works on.
struct Convolution {
  const char* name;
  std::size_t axes;
};

Ints per_axis(const Convolution& c, const char* what, const Ints& given) {
  if (given.empty()) return Ints(c.axes, 1);
  if (given.size() != c.axes)
    fail(Fault::Value,
         fmt::format("{}: {} has {} entries, not {}", c.name, what, c.axes, given.size()));
  return given;
}

/// Low and high of every axis; empty if they follow from the size of the filters, `kernel`, which
/// is not known (-1).
Ints padding(const Convolution& c, const ConvOptions& o, const Ints& kernel) {
  if (!o.pad.empty()) return both_sides(c.name, o.pad, c.axes);
  Ints pad(2 * c.axes, 0);
  if (o.border_mode == "valid") return pad;
  if (o.border_mode != "half" && o.border_mode != "full") {
    std::string near = nearest(o.border_mode, {"valid", "half", "full"});
    fail(Fault::Value, fmt::format("{}: unknown border mode '{}'", c.name, o.border_mode),
         near.empty() ? "modes are valid, half, full" : fmt::format("did you mean '{}'?", near));
  }
  const Ints dilation = per_axis(c, "dilation", o.dilation);
  for (std::size_t k = 0; k < c.axes; ++k) {
    if (kernel[k] < 0) return {};
    const std::int64_t reach = (kernel[k] - 1) * dilation[k];
    pad[2 * k] = pad[2 * k + 1] = o.border_mode == "full" ? reach : (reach + 1) / 2;
  }
  return pad;
}

/// The attributes of the rows. Where the padding follows from filters whose size is not known now,
/// they have the border mode, and the rows see to it.
Attrs attrs_of(const Convolution& c, const ConvOptions& o, const Ints& kernel) {
  const Ints pad = padding(c, o, kernel);
  Attrs attrs = {{"pad", pad.empty() ? Ints(2 * c.axes, 0) : pad},
                 {"stride", per_axis(c, "subsample", o.subsample)},
                 {"dilation", per_axis(c, "dilation", o.dilation)},
                 {"flip", o.flip},
                 {"groups", o.groups}};
  if (pad.empty()) attrs.set("border", o.border_mode);
  return attrs;
}

/// Low and high padding of axis k, for filters of size `kernel` on it.
std::pair<Expr, Expr> pads_of(const Attrs& attrs, std::size_t k, const Expr& kernel) {
  if (!attrs.has("border"))
    return {int64_constant(attrs.ints("pad")[2 * k]), int64_constant(attrs.ints("pad")[2 * k + 1])};
  const Expr one = int64_constant(1);
  const Expr reach = (kernel - one) * int64_constant(attrs.ints("dilation")[k]);
  const Expr pad =
      attrs.text("border") == "full" ? reach : floor_div(reach + one, int64_constant(2));
  return {pad, pad};
}

/// The last axes of filters, as far as they are known now.
Ints kernel_of(const Convolution& c, const Expr& w) {
  const Dims& shape = w.type().shape;
  return {shape.end() - static_cast<std::ptrdiff_t>(c.axes), shape.end()};
}

void require_dimensions(const Convolution& c, const Expr& images, const Expr& filters) {
  const int ndim = static_cast<int>(c.axes) + 2;
  const bool unshared = c.axes == 2 && filters.ndim() == 6;
  if (images.ndim() == ndim && (filters.ndim() == ndim || unshared)) return;
  fail(Fault::Type, fmt::format("{}: images and filters have {} dimensions, not {} and {}", c.name,
                                ndim, images.ndim(), filters.ndim()));
}

/// Two operands in the float type that holds both.
std::pair<Expr, Expr> in_one_float(const char* what, const Arg& a, const Arg& b) {
  require_expr(what, a.expr);
  require_expr(what, b.expr);
  const DType t = to_float(upcast(a.expr.dtype(), b.expr.dtype()));
  return {cast(a, t), cast(b, t)};
}

// ---- filters of their own for every place ----

/// The products of an unshared convolution have the axes (batch, groups, filters of a group, rows
/// and columns of the result, channels of a group, rows and columns of a filter).
class Unshared {
 public:
  /// `x`: the shape of the images; `rows` and `columns`: of the filters.
  Unshared(const Attrs& attrs, const std::vector<Expr>& x, const Expr& rows, const Expr& columns)
      : groups_(attrs.integer("groups")),
        flip_(attrs.flag("flip")),
        places_{places(attrs, 0, x[2], rows), places(attrs, 1, x[3], columns)} {}

  Expr images(const Expr& x) const {
    Expr parts = windows_of(x, places_[0], places_[1], true);
    return dimshuffle(grouped(parts, 1), {0, 1, -1, 3, 4, 2, 5, 6});
  }
  Expr filters(const Expr& w) const {
    return dimshuffle(grouped(turned(w), 0), {-1, 0, 1, 2, 3, 4, 5, 6});
  }
  Expr gradient(const Expr& dy) const {
    return dimshuffle(grouped(dy, 1), {0, 1, 2, 3, 4, -1, -1, -1});
  }

  Expr to_result(const Expr& products) const { return joined(sum(products, {5, 6, 7}), 1); }
  Expr to_filters(const Expr& products) const { return turned(joined(sum(products, 0), 0)); }
  Expr to_images(const Expr& products, const Expr& zeros) const {
    Expr parts = dimshuffle(sum(products, 2), {0, 1, 4, 2, 3, 5, 6});
    return add_windows(zeros, places_[0], places_[1], joined(parts, 1));
  }

 private:
  static Expr places(const Attrs& attrs, std::size_t k, const Expr& size, const Expr& kernel) {
    const auto [low, high] = pads_of(attrs, k, kernel);
    const std::int64_t stride = attrs.ints("stride")[k], dilation = attrs.ints("dilation")[k];
    const Expr one = int64_constant(1);
    Expr reach = (kernel - one) * int64_constant(dilation);
    Expr count = floor_div(size + low + high - one - reach, int64_constant(stride));
    return window_places(count + one, kernel, stride, dilation, low);
  }
  Expr turned(const Expr& w) const { return flip_ ? flip(w, {-2, -1}) : w; }

  /// Axis `axis` in groups, and back.
  Expr grouped(const Expr& x, int axis) const {
    std::vector<Expr> sizes = sizes_of(x);
    const auto at = static_cast<std::size_t>(axis);
    sizes[at] = floor_div(sizes[at], int64_constant(groups_));
    sizes.insert(sizes.begin() + axis, int64_constant(groups_));
    return reshape(x, sizes);
  }
  static Expr joined(const Expr& x, int axis) {
    std::vector<Expr> sizes = sizes_of(x);
    const auto at = static_cast<std::size_t>(axis);
    sizes[at] = sizes[at] * sizes[at + 1];
    sizes.erase(sizes.begin() + axis + 1);
    return reshape(x, sizes);
  }

  std::int64_t groups_;
  bool flip_;
  Expr places_[2];
};

// ---- the three ways of a convolution ----

Expr forward(const Convolution& c, const Arg& given_x, const Arg& given_w, const ConvOptions& o) {
  Scope scope(given_x, c.name);
  auto [x, w] = in_one_float(c.name, given_x, given_w);
  require_dimensions(c, x, w);
  const Attrs attrs = attrs_of(c, o, kernel_of(c, w));
  if (w.ndim() != 6) return apply(rows_of(c.axes).forward, {x, w}, attrs);
  const Unshared u(attrs, sizes_of(x), shape_i(w, 4), shape_i(w, 5));
  return u.to_result(u.images(x) * u.filters(w));
}

Expr grad_inputs(const Convolution& c, const Arg& given_dy, const Arg& given_w, const Sizes& shape,
                 const ConvOptions& o) {
  Scope scope(given_dy, c.name);
  auto [dy, w] = in_one_float(c.name, given_dy, given_w);
  require_dimensions(c, dy, w);
  if (shape.ndim() != c.axes + 2)
    fail(Fault::Type, fmt::format("{}: the images have {} dimensions, the shape has {} sizes",
                                  c.name, c.axes + 2, shape.ndim()));
  const Attrs attrs = attrs_of(c, o, kernel_of(c, w));
  if (w.ndim() != 6) return apply(rows_of(c.axes).grad_input, {w, dy, shape.vector}, attrs);
  std::vector<Expr> sizes;
  for (std::size_t k = 0; k < c.axes + 2; ++k)
    sizes.push_back(subtensor(shape.vector, {static_cast<int>(k)}));
  const Unshared u(attrs, sizes, shape_i(w, 4), shape_i(w, 5));
  return u.to_images(u.gradient(dy) * u.filters(w), alloc(typed_number(0, dy.dtype()), sizes));
}

/// The sizes at the end of a shape, -1 where they are not known.
Ints known_sizes(const Expr& shape, std::size_t count) {
  const Variable& v = *shape.get();
  Ints out(count, -1);
  const std::size_t n = v.elements.size();
  for (std::size_t k = 0; k < count && k < n; ++k)
    if (v.elements_known[n - 1 - k]) out[count - 1 - k] = v.elements[n - 1 - k];
  return out;
}

Expr grad_weights(const Convolution& c, const Arg& given_x, const Arg& given_dy, const Sizes& shape,
                  const ConvOptions& o) {
  Scope scope(given_x, c.name);
  auto [x, dy] = in_one_float(c.name, given_x, given_dy);
  const std::size_t ndim = c.axes + 2, sizes = shape.ndim();
  if (static_cast<std::size_t>(x.ndim()) != ndim || static_cast<std::size_t>(dy.ndim()) != ndim)
    fail(Fault::Type, fmt::format("{}: images and gradients have {} dimensions, not {} and {}",
                                  c.name, ndim, x.ndim(), dy.ndim()));
  if (sizes != ndim && (c.axes != 2 || sizes != 6))
    fail(Fault::Type, fmt::format("{}: filters have {} dimensions, not {}", c.name, ndim, sizes));
  const auto filters = [&](std::size_t k) {
    return subtensor(shape.vector, {static_cast<int>(sizes - c.axes + k)});
  };
  const Attrs attrs = attrs_of(c, o, known_sizes(shape.vector, c.axes));
  if (sizes == ndim) return apply(rows_of(c.axes).grad_weight, {x, dy, shape.vector}, attrs);
  const Unshared u(attrs, sizes_of(x), filters(0), filters(1));
  return u.to_filters(u.images(x) * u.gradient(dy));
}

/// Options of a convolution over columns, as one over rows (of which there is one) and columns.
ConvOptions with_rows(const char* what, const ConvOptions& o) {
  ConvOptions out = o;
  const auto extended = [](Ints list, std::int64_t first) {
    if (!list.empty()) list.insert(list.begin(), first);
    return list;
  };
  if (o.pad.size() > 2 || o.subsample.size() > 1 || o.dilation.size() > 1)
    fail(Fault::Value,
         fmt::format("{}: pad has 1 or 2 entries, subsample and dilation have 1", what));
  out.pad = extended(extended(o.pad, 0), 0);
  if (o.pad.size() == 1) out.pad = {0, 0, o.pad[0], o.pad[0]};
  out.subsample = extended(o.subsample, 1);
  out.dilation = extended(o.dilation, 1);
  return out;
}

Expr over_columns(const char* what, const Arg& x, const Arg& w, const ConvOptions& o) {
  Scope scope(x, what);
  require_expr(what, x.expr);
  require_expr(what, w.expr);
  if (x.expr.ndim() != 3 || w.expr.ndim() != 3)
    fail(Fault::Type, fmt::format("{}: images and filters have 3 dimensions, not {} and {}", what,
                                  x.expr.ndim(), w.expr.ndim()));
  Expr y = forward({what, 2}, expand_dims(x, 2), expand_dims(w, 2), with_rows(what, o));
  return subtensor(y, {IndexItem(), IndexItem(), 0});
}

constexpr Convolution kConv2d{"conv2d", 2}, kConv3d{"conv3d", 3};

}  // namespace

std::vector<std::int64_t> both_sides(const char* what, const std::vector<std::int64_t>& pad,
                                     std::size_t axes) {
  if (pad.size() == 2 * axes) return pad;
  if (!pad.empty() && pad.size() != axes)
    fail(Fault::Value,
         fmt::format("{}: pad has {} or {} entries, not {}", what, axes, 2 * axes, pad.size()));
  Ints out(2 * axes, 0);
  for (std::size_t k = 0; k < pad.size(); ++k) out[2 * k] = out[2 * k + 1] = pad[k];
  return out;
}

Expr conv1d(const Arg& x, const Arg& w, const ConvOptions& o) {
  return over_columns("conv1d", x, w, o);
}

Expr causal_conv1d(const Arg& x, const Arg& w, const ConvOptions& o) {
  Scope scope(x);
  require_expr("causal_conv1d", x.expr);
  require_expr("causal_conv1d", w.expr);
  if (x.expr.ndim() != 3 || w.expr.ndim() != 3)
    fail(Fault::Type, fmt::format("causal_conv1d: images and filters have 3 dimensions, not {} "
                                  "and {}",
                                  x.expr.ndim(), w.expr.ndim()));
  const std::int64_t dilation = o.dilation.empty() ? 1 : o.dilation[0];
  const std::int64_t known = w.expr.type().shape[2];
  if (known >= 0) {
    ConvOptions causal = o;
    causal.pad = {(known - 1) * dilation, 0};
    return over_columns("causal_conv1d", x, w, causal);
  }
  const Expr zero = int64_constant(0);
  Expr before = (shape_i(w, 2) - int64_constant(1)) * int64_constant(dilation);
  Expr later =
      pad(x, {zero, zero, zero, zero, before, zero}, "constant", typed_number(0, x.expr.dtype()));
  return over_columns("causal_conv1d", later, w, o);
}

Expr conv2d(const Arg& x, const Arg& w, const ConvOptions& o) { return forward(kConv2d, x, w, o); }
Expr conv3d(const Arg& x, const Arg& w, const ConvOptions& o) { return forward(kConv3d, x, w, o); }

Expr conv2d_grad_inputs(const Arg& dy, const Arg& w, const Sizes& shape, const ConvOptions& o) {
  return grad_inputs({"conv2d_grad_inputs", 2}, dy, w, shape, o);
}
Expr conv2d_grad_weights(const Arg& x, const Arg& dy, const Sizes& shape, const ConvOptions& o) {
  return grad_weights({"conv2d_grad_weights", 2}, x, dy, shape, o);
}
Expr conv3d_grad_inputs(const Arg& dy, const Arg& w, const Sizes& shape, const ConvOptions& o) {
  return grad_inputs({"conv3d_grad_inputs", 3}, dy, w, shape, o);
}
Expr conv3d_grad_weights(const Arg& x, const Arg& dy, const Sizes& shape, const ConvOptions& o) {
  return grad_weights({"conv3d_grad_weights", 3}, x, dy, shape, o);
}

Expr conv2d_transpose(const Arg& x, const Arg& given_w, const ConvOptions& o,
                      const std::vector<Expr>& size) {
  Scope scope(x);
  constexpr Convolution c{"conv2d_transpose", 2};
  require_expr(c.name, x.expr);
  require_expr(c.name, given_w.expr);
  const Expr w = given_w.expr;
  require_dimensions(c, x.expr, w);
  if (w.ndim() != 4)
    fail(Fault::Type, fmt::format("{}: filters have 4 dimensions, not {}", c.name, w.ndim()));
  if (!size.empty() && size.size() != 2)
    fail(Fault::Value, fmt::format("{}: size has 2 entries, not {}", c.name, size.size()));
  const Attrs attrs = attrs_of(c, o, kernel_of(c, w));
  const Expr one = int64_constant(1);
  std::vector<Expr> sizes{shape_i(x, 0), shape_i(w, 1) * int64_constant(o.groups)};
  for (std::size_t k = 0; k < 2; ++k) {
    const auto axis = static_cast<std::int64_t>(2 + k);
    Expr steps = (shape_i(x, axis) - one) * int64_constant(attrs.ints("stride")[k]);
    Expr reach = (shape_i(w, axis) - one) * int64_constant(attrs.ints("dilation")[k]);
    const auto [low, high] = pads_of(attrs, k, shape_i(w, axis));
    sizes.push_back(size.empty() ? steps + reach + one - low - high : size[k]);
  }
  return grad_inputs(c, x, given_w, sizes, o);
}

}  // namespace snug
