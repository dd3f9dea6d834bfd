#include "ops/conv_functions.h"

#include "ops/arguments.h"

namespace snug {
namespace {

/// The padding that the border mode asks for, from the size of the filters, which is fixed in `w`
/// for good.
Attrs::Ints border_padding(const ConvOptions& o, const Expr& given_w, Expr& w) {
  Attrs::Ints pad(4, 0);
  Dims current(4, -1);
  if (SharedVariable* s = as_shared(given_w)) current = s->shape();
  std::vector<std::int64_t> fixed(4, -1);
  for (std::size_t k = 0; k < 2; ++k) {
    std::int64_t size = w.type().shape[2 + k] >= 0 ? w.type().shape[2 + k] : current[2 + k];
    if (size < 0)
      fail(Fault::Shape,
           fmt::format("conv2d: border mode '{}' needs filters of known size", o.border_mode),
           "use specify_shape on the filters, or give pad in numbers");
    fixed[2 + k] = size;
    std::int64_t reach = (size - 1) * o.dilation[k];
    pad[2 * k] = pad[2 * k + 1] = o.border_mode == "full" ? reach : (reach + 1) / 2;
  }
  if (w.type().shape[2] < 0 || w.type().shape[3] < 0) w = specify_shape(w, fixed);
  return pad;
}

/// Rows above, below, columns left, right.
Attrs::Ints padding(const ConvOptions& o, const Expr& given_w, Expr& w) {
  if (o.pad.size() == 4) return o.pad;
  if (o.pad.size() == 2) return {o.pad[0], o.pad[0], o.pad[1], o.pad[1]};
  if (!o.pad.empty())
    fail(Fault::Value, fmt::format("conv2d: pad has 2 or 4 entries, not {}", o.pad.size()));
  if (o.border_mode == "valid") return Attrs::Ints(4, 0);
  if (o.border_mode == "half" || o.border_mode == "full") return border_padding(o, given_w, w);
  std::string near = nearest(o.border_mode, {"valid", "half", "full"});
  fail(Fault::Value, fmt::format("conv2d: unknown border mode '{}'", o.border_mode),
       near.empty() ? "modes are valid, half, full" : fmt::format("did you mean '{}'?", near));
}

}  // namespace

Expr conv2d(const Arg& given_x, const Arg& given_w, const ConvOptions& o) {
  Scope scope(given_x);
  require_expr("conv2d", given_x.expr);
  require_expr("conv2d", given_w.expr);
  DType t = to_float(upcast(given_x.expr.dtype(), given_w.expr.dtype()));
  Expr x = cast(given_x, t), w = cast(given_w, t);
  if (x.ndim() != 4 || w.ndim() != 4)
    fail(Fault::Type, fmt::format("conv2d: images and filters have 4 dimensions, not {} and {}",
                                  x.ndim(), w.ndim()));
  Attrs::Ints pad = padding(o, given_w.expr, w);
  return apply(ops::conv2d, {x, w},
               {{"pad", pad},
                {"stride", Attrs::Ints(o.subsample.begin(), o.subsample.end())},
                {"dilation", Attrs::Ints(o.dilation.begin(), o.dilation.end())},
                {"flip", o.flip},
                {"groups", o.groups}});
}

namespace {

/// Low and high of `axes` axes, from one number per axis or from these.
Attrs::Ints both_sides(const char* what, const std::vector<std::int64_t>& pad, std::size_t axes) {
  if (pad.size() == 2 * axes) return pad;
  if (!pad.empty() && pad.size() != axes)
    fail(Fault::Value,
         fmt::format("{}: pad has {} or {} entries, not {}", what, axes, 2 * axes, pad.size()));
  Attrs::Ints out(2 * axes, 0);
  for (std::size_t k = 0; k < pad.size(); ++k) out[2 * k] = out[2 * k + 1] = pad[k];
  return out;
}

Attrs pool_attrs(const PoolOptions& o) {
  return {{"window", o.window},
          {"stride", o.stride.empty() ? o.window : o.stride},
          {"pad", both_sides("pool", o.pad, o.window.size())},
          {"partial", !o.ignore_border}};
}

}  // namespace

Expr pool(const Arg& given, const PoolOptions& o) {
  Scope scope(given);
  require_expr("pool", given.expr);
  Attrs attrs = pool_attrs(o);
  if (o.mode == "max") return apply_all(ops::max_pool, {given.expr}, std::move(attrs))[0];
  const std::vector<std::string> modes{"average_exc_pad", "average_inc_pad", "max", "sum"};
  if (std::find(modes.begin(), modes.end(), o.mode) == modes.end()) {
    std::string near = nearest(o.mode, modes);
    fail(Fault::Value, fmt::format("pool: there is no mode '{}'", o.mode),
         near.empty() ? fmt::format("modes are {}", fmt::join(modes, ", "))
                      : fmt::format("did you mean '{}'?", near));
  }
  attrs.set("mode", o.mode);
  return apply(ops::average_pool, {in_float("pool", given)}, std::move(attrs));
}

Expr max_pool_same_size(const Arg& given, const std::vector<std::int64_t>& window) {
  Scope scope(given);
  Expr x = in_float("max_pool_same_size", given);
  Attrs attrs = pool_attrs({.window = window});
  std::vector<Expr> found = apply_all(ops::max_pool, {x}, attrs);
  attrs.set("broadcast", std::int64_t{x.type().broadcast});
  return apply(ops::max_unpool, {found[0], found[1], shape(x)}, std::move(attrs));
}

}  // namespace snug
