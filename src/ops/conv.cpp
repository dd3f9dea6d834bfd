#include "base/origin_marks.h"
#include "ops/batch_rules.h"
#include "ops/rules.h"

/// Convolutions over the last axes, 2 or 3 of them. attrs: pad (low and high of every axis), stride
/// and dilation (of every axis), flip, groups; where the padding follows from the size that filters
/// have at a call, border: "half" or "full".
namespace snug::ops {
namespace {

struct Conv {
  Attrs::Ints pad, stride, dilation;
  bool flip;
  std::int64_t groups;
  std::string border;  // empty: `pad` says it all
  std::size_t axes() const { return stride.size(); }
};

Conv conv_of(const Attrs& a) {
  return {a.ints("pad"),  a.ints("stride"),    a.ints("dilation"),
          a.flag("flip"), a.integer("groups"), a.has("border") ? a.text("border") : ""};
}

/// Reads and checks the attributes, and that inputs 0 and 1 have the axes they ask for.
Conv checked_conv(const Infer& f, std::size_t axes) {
  Conv c = conv_of(f.attrs);
  if (c.pad.size() != 2 * axes || c.stride.size() != axes || c.dilation.size() != axes)
    f.error(Fault::Value,
            fmt::format("pad has {} entries, stride and dilation have {}", 2 * axes, axes));
  for (std::size_t k = 0; k < axes; ++k)
    if (c.stride[k] < 1 || c.dilation[k] < 1)
      f.error(Fault::Value, fmt::format("strides ({}) and dilations ({}) must be at least 1",
                                        fmt::join(c.stride, ", "), fmt::join(c.dilation, ", ")));
  if (!c.border.empty() && c.border != "half" && c.border != "full")
    f.error(Fault::Value, fmt::format("unknown border mode '{}'", c.border));
  if (c.groups < 1)
    f.error(Fault::Value, fmt::format("there are {} groups, it must be at least 1", c.groups));
  f.require_ndim(0, static_cast<int>(axes) + 2);
  f.require_ndim(1, static_cast<int>(axes) + 2);
  require_float(f, 0);
  require_same_dtype(f, 0, 1);
  return c;
}

/// The size of the output on spatial axis k.
SizeId out_size(SizeTable& t, const Conv& c, std::size_t k, SizeId x, SizeId w) {
  SizeId steps = t.mul(t.sub(w, t.one()), t.constant(c.dilation[k]));
  SizeId reach = t.add(steps, t.one());
  SizeId pads = t.constant(c.pad[2 * k] + c.pad[2 * k + 1]);
  if (c.border == "full") pads = t.mul(steps, t.constant(2));
  if (c.border == "half") pads = t.mul(t.floor_div(reach, t.constant(2)), t.constant(2));
  SizeId room = t.sub(t.add(x, pads), reach);
  return t.add(t.floor_div(room, t.constant(c.stride[k])), t.one());
}

void require_channels(Infer& f, const Conv& c, SizeId x_channels, SizeId w_in, SizeId w_out) {
  SizeTable& t = f.sizes;
  f.require_equal(
      x_channels, t.mul(w_in, t.constant(c.groups)),
      c.groups == 1
          ? "the numbers of channels of the images and the filters differ"
          : fmt::format("the images must have {} times the channels of the filters", c.groups));
  if (c.groups > 1)
    f.require_equal(t.mod(w_out, t.constant(c.groups)), t.zero(),
                    fmt::format("the number of filters is no multiple of {} groups", c.groups));
}

std::uint8_t bit(bool on, unsigned axis) { return static_cast<std::uint8_t>(on ? 1u << axis : 0); }

template <std::size_t Axes>
void conv_rule(Infer& f) {
  const Conv c = checked_conv(f, Axes);
  const Type &x = f.in(0), &w = f.in(1);
  require_channels(f, c, x.dims[1], w.dims[1], w.dims[0]);
  Type out;
  out.dtype = x.dtype;
  out.dims = {x.dims[0], w.dims[0]};
  out.broadcast = bit(x.broadcastable(0), 0) | bit(w.broadcastable(0), 1);
  for (std::size_t k = 0; k < Axes; ++k) {
    SizeId d = out_size(f.sizes, c, k, x.dims[2 + k], w.dims[2 + k]);
    f.require_at_most(f.sizes.zero(), d, "the filters are larger than the padded images");
    out.dims.push_back(d);
  }
  f.out(out);
}

/// The rules of the two gradients: the sizes of input 2 and of the inputs must fit a convolution.
void grad_rule(Infer& f, std::size_t axes, bool by_input) {
  const Conv c = checked_conv(f, axes);
  Type out = type_from_shape(f, 2, f.in(0).dtype);
  if (out.dims.size() != axes + 2)
    f.error(Fault::Type, fmt::format("the shape must have {} sizes", axes + 2));
  const Type& x = by_input ? out : f.in(0);
  const Type& w = by_input ? f.in(0) : out;
  const Type& dy = f.in(1);
  require_channels(f, c, x.dims[1], w.dims[1], w.dims[0]);
  f.require_equal(x.dims[0], dy.dims[0], "batch sizes differ");
  f.require_equal(w.dims[0], dy.dims[1], "the number of filters differs");
  for (std::size_t k = 0; k < axes; ++k)
    f.require_equal(out_size(f.sizes, c, k, x.dims[2 + k], w.dims[2 + k]), dy.dims[2 + k],
                    fmt::format("the gradient has another size on axis {}", 2 + k));
  f.out(out);
}

/// Calls visit(place in x, place in w, place in y) for every product of the convolution.
template <class F>
void visit_conv(const Conv& c, const Dims& x, const Dims& w, const Dims& y, F&& visit) {
  Attrs::Ints low;
  for (std::size_t a = 0; a < c.axes(); ++a) {
    const std::int64_t reach = (w[2 + a] - 1) * c.dilation[a];
    low.push_back(c.border.empty() ? c.pad[2 * a] : c.border == "full" ? reach : (reach + 1) / 2);
  }
  const std::int64_t per_group = y[1] / c.groups, places = snug::product(y);
  Dims tap_shape = w;
  tap_shape[0] = 1;  // all products of one place of y: of the filter's channels and taps
  const std::int64_t taps = snug::product(tap_shape);
  Counter at(y);
  for (std::int64_t k = 0; k < places; ++k, at.next()) {
    Counter tap(tap_shape);
    for (std::int64_t j = 0; j < taps; ++j, tap.next()) {
      Dims from = at.at, by = tap.at;
      from[1] = at.at[1] / per_group * w[1] + tap.at[1];
      by[0] = at.at[1];
      bool inside = true;
      for (std::size_t a = 0; a < c.axes(); ++a) {
        from[2 + a] = at.at[2 + a] * c.stride[a] - low[a] + tap.at[2 + a] * c.dilation[a];
        inside &= from[2 + a] >= 0 && from[2 + a] < x[2 + a];
        if (c.flip) by[2 + a] = w[2 + a] - 1 - tap.at[2 + a];
      }
      if (inside) visit(flat(x, from), flat(w, by), k);
    }
  }
}

/// The attributes of the convolution alone; with the broadcast pattern of a gradient's result.
Attrs conv_attrs(const GradArgs& g) {
  Attrs out;
  for (const Attrs::Item& item : g.attrs.items())
    if (item.name != "broadcast") out.set(item.name, item.value);
  return out;
}
Attrs conv_attrs(const GradArgs& g, const Expr& like) {
  Attrs out = conv_attrs(g);
  out.set("broadcast", std::int64_t{like.type().broadcast});
  return out;
}

/// The three tensors of a convolution. Each op computes one of them from the other two, which are
/// its inputs 0 and 1 in this order.
enum Role : std::uint8_t { kImages, kFilters, kOutput };
constexpr Role first_input(Role result) { return result == kImages ? kFilters : kImages; }
constexpr Role second_input(Role result) { return result == kOutput ? kFilters : kOutput; }

/// Tensor `result` from the other two, in the shape and type of `like`.
Expr from_others(const GradArgs& g, Role result, const Expr (&tensors)[3], const Expr& like) {
  const Expr &a = tensors[first_input(result)], &b = tensors[second_input(result)];
  const bool three = conv_of(g.attrs).axes() == 3;
  if (result == kOutput) return apply(three ? ops::conv3d : ops::conv2d, {a, b}, conv_attrs(g));
  const OpDef& by_images = three ? ops::conv3d_grad_input : ops::conv2d_grad_input;
  const OpDef& by_filters = three ? ops::conv3d_grad_weight : ops::conv2d_grad_weight;
  return apply(result == kImages ? by_images : by_filters, {a, b, snug::shape(like)},
               conv_attrs(g, like));
}

/// The ops are linear in each tensor: a gradient is the op whose result it stands for.
template <Role Result>
Exprs conv_grad(const GradArgs& g) {
  constexpr Role inputs[] = {first_input(Result), second_input(Result)};
  Expr tensors[3];
  tensors[inputs[0]] = g.x[0];
  tensors[inputs[1]] = g.x[1];
  tensors[Result] = g.dy[0];
  Exprs out(g.x.size());
  for (std::size_t k = 0; k < 2; ++k) {
    if (!g.wanted[k]) continue;
    // "conv2d backward by images"
    const OriginId now = current_origin();
    const std::string_view word = word_of(now);
    const OriginOverride origin(
        word.empty() || inputs[k] == kOutput
            ? now
            : with_word(
                  now, fmt::format("{} by {}", word, inputs[k] == kImages ? "images" : "filters")));
    out[k] = from_others(g, inputs[k], tensors, g.x[k]);
  }
  return out;
}

template <Role Result>
void conv_reference(const ReferenceArgs& r) {
  constexpr Role a = first_input(Result), b = second_input(Result);
  Dims shapes[3];
  shapes[a] = r.x[0]->shape;
  shapes[b] = r.x[1]->shape;
  shapes[Result] = r.y[0].shape;
  visit_conv(conv_of(r.attrs), shapes[kImages], shapes[kFilters], shapes[kOutput],
             [&](std::int64_t x, std::int64_t w, std::int64_t y) {
               const std::int64_t at[3] = {x, w, y};
               r.y[0].f[at[Result]] += r.x[0]->f[at[a]] * r.x[1]->f[at[b]];
             });
}

}  // namespace

const OpDef conv2d = {
    .name = "conv2d",
    .doc =
        "A convolution of images (batch, channels, rows, columns) with filters (out, in / "
        "groups, rows, columns); without `flip` a correlation.",
    .arity = 2,
    .infer = conv_rule<2>,
    .grad = conv_grad<kOutput>,
    .reference = conv_reference<kOutput>,
    .batch = batch_images,
};

const OpDef conv2d_grad_input = {
    .name = "conv2d_grad_input",
    .doc = "The gradient of a convolution by its images, of the given shape.",
    .arity = 3,
    .size_inputs_from = 2,
    .infer = [](Infer& f) { grad_rule(f, 2, true); },
    .grad = conv_grad<kImages>,
    .reference = conv_reference<kImages>,
    .batch = batch_images_second,
};

const OpDef conv2d_grad_weight = {
    .name = "conv2d_grad_weight",
    .doc = "The gradient of a convolution by its filters, of the given shape.",
    .arity = 3,
    .size_inputs_from = 2,
    .infer = [](Infer& f) { grad_rule(f, 2, false); },
    .grad = conv_grad<kFilters>,
    .reference = conv_reference<kFilters>,
    .batch = batch_filters,
};

const OpDef conv3d = {
    .name = "conv3d",
    .doc =
        "A convolution of images (batch, channels, and three axes) with filters (out, in / groups, "
        "and three axes); without `flip` a correlation.",
    .arity = 2,
    .infer = conv_rule<3>,
    .grad = conv_grad<kOutput>,
    .reference = conv_reference<kOutput>,
    .batch = batch_images,
};

const OpDef conv3d_grad_input = {
    .name = "conv3d_grad_input",
    .doc = "The gradient of conv3d by its images, of the given shape.",
    .arity = 3,
    .size_inputs_from = 2,
    .infer = [](Infer& f) { grad_rule(f, 3, true); },
    .grad = conv_grad<kImages>,
    .reference = conv_reference<kImages>,
    .batch = batch_images_second,
};

const OpDef conv3d_grad_weight = {
    .name = "conv3d_grad_weight",
    .doc = "The gradient of conv3d by its filters, of the given shape.",
    .arity = 3,
    .size_inputs_from = 2,
    .infer = [](Infer& f) { grad_rule(f, 3, false); },
    .grad = conv_grad<kFilters>,
    .reference = conv_reference<kFilters>,
    .batch = batch_filters,
};

}  // namespace snug::ops
