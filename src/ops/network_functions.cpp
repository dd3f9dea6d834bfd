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

Expr softmax(const Arg& x) {
  Scope scope(x);
  require_expr("softmax", x.expr);
  return apply(ops::softmax, {cast(x, to_float(x.expr.dtype()))});
}

Expr log_softmax(const Arg& x) {
  Scope scope(x);
  require_expr("log_softmax", x.expr);
  return apply(ops::log_softmax, {cast(x, to_float(x.expr.dtype()))});
}

Expr relu(const Arg& x) {
  Scope scope(x);
  Expr zero = typed_number(0, x.expr.dtype());
  return switch_(le(x, zero), zero, x);  // nan stays
}

Expr categorical_crossentropy(const Arg& p, const Arg& y) {
  Scope scope(p);
  require_expr("categorical_crossentropy", p.expr);
  require_expr("categorical_crossentropy", y.expr);
  if (p.expr.ndim() != 2)
    fail(Fault::Type,
         fmt::format("categorical_crossentropy: the probabilities are a matrix, not {}",
                     snug::describe(p.expr.type())));
  if (y.expr.ndim() == 2) return neg(sum(y.expr * log(p), 1));
  if (y.expr.ndim() != 1 || !is_int(y.expr.dtype()))
    fail(Fault::Type,
         fmt::format(
             "categorical_crossentropy: the targets are an integer vector or a matrix, not {}",
             snug::describe(y.expr.type())));
  return neg(log(subtensor(p, {arange(shape_i(p, 0)), y.expr})));
}

Expr binary_crossentropy(const Arg& p, const Arg& y) {
  Scope scope(p);
  Expr one = typed_number(1, p.expr.dtype());
  return neg(y.expr * log(p) + (one - y.expr) * log(one - p.expr));
}

}  // namespace snug
