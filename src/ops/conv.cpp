#include "ops/batch_rules.h"
#include "ops/rules.h"

/// attrs: pad (top, bottom, left, right), stride and dilation (rows, columns), flip, groups.
namespace snug::ops {
namespace {

struct Conv {
  Attrs::Ints pad, stride, dilation;
  bool flip;
  std::int64_t groups;
};

Conv conv_of(const Attrs& a) {
  return {a.ints("pad"), a.ints("stride"), a.ints("dilation"), a.flag("flip"), a.integer("groups")};
}

void check_attrs(const Infer& f, const Conv& c) {
  if (c.pad.size() != 4 || c.stride.size() != 2 || c.dilation.size() != 2)
    f.error(Fault::Value, "pad has 4 entries, stride and dilation have 2");
  for (std::size_t k = 0; k < 2; ++k)
    if (c.stride[k] < 1 || c.dilation[k] < 1)
      f.error(Fault::Value,
              fmt::format("strides ({}, {}) and dilations ({}, {}) must be at least 1", c.stride[0],
                          c.stride[1], c.dilation[0], c.dilation[1]));
  if (c.groups < 1)
    f.error(Fault::Value, fmt::format("there are {} groups, it must be at least 1", c.groups));
}

/// The size of the output on spatial axis k (0: rows, 1: columns).
SizeId out_size(SizeTable& t, const Conv& c, std::size_t k, SizeId x, SizeId w) {
  SizeId reach = t.add(t.mul(t.sub(w, t.one()), t.constant(c.dilation[k])), t.one());
  SizeId room = t.sub(t.add(x, t.constant(c.pad[2 * k] + c.pad[2 * k + 1])), reach);
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

void conv2d_rule(Infer& f) {
  Conv c = conv_of(f.attrs);
  check_attrs(f, c);
  f.require_ndim(0, 4);
  f.require_ndim(1, 4);
  require_float(f, 0);
  require_same_dtype(f, 0, 1);
  const Type &x = f.in(0), &w = f.in(1);
  require_channels(f, c, x.dims[1], w.dims[1], w.dims[0]);
  Type out;
  out.dtype = x.dtype;
  out.dims = {x.dims[0], w.dims[0]};
  out.broadcast = bit(x.broadcastable(0), 0) | bit(w.broadcastable(0), 1);
  for (std::size_t k = 0; k < 2; ++k) {
    SizeId d = out_size(f.sizes, c, k, x.dims[2 + k], w.dims[2 + k]);
    f.require_at_most(f.sizes.zero(), d, "the filters are larger than the padded images");
    out.dims.push_back(d);
  }
  f.out(out);
}

/// The rules of the two gradients: the sizes of input 2 and of the inputs must fit a convolution.
void grad_rule(Infer& f, bool by_input) {
  Conv c = conv_of(f.attrs);
  check_attrs(f, c);
  f.require_ndim(0, 4);
  f.require_ndim(1, 4);
  require_float(f, 0);
  require_same_dtype(f, 0, 1);
  Type out = type_from_shape(f, 2, f.in(0).dtype);
  if (out.ndim() != 4) f.error(Fault::Type, "the shape must have 4 sizes");
  const Type& x = by_input ? out : f.in(0);
  const Type& w = by_input ? f.in(0) : out;
  const Type& dy = f.in(1);
  require_channels(f, c, x.dims[1], w.dims[1], w.dims[0]);
  f.require_equal(x.dims[0], dy.dims[0], "batch sizes differ");
  f.require_equal(w.dims[0], dy.dims[1], "the number of filters differs");
  for (std::size_t k = 0; k < 2; ++k)
    f.require_equal(out_size(f.sizes, c, k, x.dims[2 + k], w.dims[2 + k]), dy.dims[2 + k],
                    fmt::format("the gradient has another size on axis {}", 2 + k));
  f.out(out);
}

/// Calls visit(place in x, place in w, place in y) for every product of the convolution.
template <class F>
void visit_conv(const Conv& c, const Dims& x, const Dims& w, const Dims& y, F&& visit) {
  const std::int64_t per_group = y[1] / c.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t o = 0; o < y[1]; ++o)
      for (std::int64_t p = 0; p < y[2]; ++p)
        for (std::int64_t q = 0; q < y[3]; ++q)
          for (std::int64_t i = 0; i < w[1]; ++i)
            for (std::int64_t u = 0; u < w[2]; ++u)
              for (std::int64_t v = 0; v < w[3]; ++v) {
                std::int64_t row = p * c.stride[0] - c.pad[0] + u * c.dilation[0];
                std::int64_t col = q * c.stride[1] - c.pad[2] + v * c.dilation[1];
                if (row < 0 || row >= x[2] || col < 0 || col >= x[3]) continue;
                std::int64_t channel = o / per_group * w[1] + i;
                std::int64_t fu = c.flip ? w[2] - 1 - u : u, fv = c.flip ? w[3] - 1 - v : v;
                visit(((n * x[1] + channel) * x[2] + row) * x[3] + col,
                      ((o * w[1] + i) * w[2] + fu) * w[3] + fv,
                      ((n * y[1] + o) * y[2] + p) * y[3] + q);
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
  if (result == kOutput) return apply(ops::conv2d, {a, b}, conv_attrs(g));
  return apply(result == kImages ? ops::conv2d_grad_input : ops::conv2d_grad_weight,
               {a, b, snug::shape(like)}, conv_attrs(g, like));
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
  for (std::size_t k = 0; k < 2; ++k)
    if (g.wanted[k]) out[k] = from_others(g, inputs[k], tensors, g.x[k]);
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
    .infer = conv2d_rule,
    .grad = conv_grad<kOutput>,
    .reference = conv_reference<kOutput>,
    .batch = batch_images,
};

const OpDef conv2d_grad_input = {
    .name = "conv2d_grad_input",
    .doc = "The gradient of a convolution by its images, of the given shape.",
    .arity = 3,
    .size_inputs_from = 2,
    .infer = [](Infer& f) { grad_rule(f, true); },
    .grad = conv_grad<kImages>,
    .reference = conv_reference<kImages>,
    .batch = batch_images_second,
};

const OpDef conv2d_grad_weight = {
    .name = "conv2d_grad_weight",
    .doc = "The gradient of a convolution by its filters, of the given shape.",
    .arity = 3,
    .size_inputs_from = 2,
    .infer = [](Infer& f) { grad_rule(f, false); },
    .grad = conv_grad<kFilters>,
    .reference = conv_reference<kFilters>,
    .batch = batch_filters,
};

}  // namespace snug::ops
