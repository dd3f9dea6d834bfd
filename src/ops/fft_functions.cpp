#include "ops/fft_functions.h"

#include "ops/arguments.h"
#include "ops/complex_rules.h"

namespace snug {
namespace {

/// x with `n` elements on an axis: the first ones, and zeros behind them.
Expr with_points(const char* what, const Expr& x, std::int64_t axis, const Expr& n) {
  const std::int64_t have = x.type().shape[static_cast<std::size_t>(axis)];
  if (const Array* value = constant_value(n)) {
    const std::int64_t wanted = value->at_int(0);
    if (wanted < 1) fail(Fault::Value, fmt::format("{}: the number of points is {}", what, wanted));
    if (have == wanted) return x;
    if (have > wanted) return slice_axis(x, axis, Expr(), n);
  }
  std::vector<Expr> sizes;
  for (std::int64_t k = 0; k < x.ndim(); ++k)
    sizes.push_back(k == axis ? maximum(n - shape_i(x, k), int64_constant(0)) : shape_i(x, k));
  Expr first = slice_axis(x, axis, Expr(), n);
  first = rebroadcast(first, static_cast<std::uint8_t>(first.type().broadcast & ~(1u << axis)));
  return concatenate({first, alloc(typed_number(0, x.dtype()), Sizes(sizes))}, axis);
}

enum class Direction : std::uint8_t { Forward, Inverse };

/// y scaled as `norm` says for a transform of n points.
Expr normalised(const char* what, const Expr& y, const Expr& n, const std::string& norm,
                Direction direction) {
  if (norm != "backward" && norm != "ortho" && norm != "forward" && norm != "no_norm")
    fail(Fault::Value, fmt::format("{}: there is no norm '{}'", what, norm),
         "norms are backward, ortho, forward and no_norm");
  const bool scaled = norm == (direction == Direction::Forward ? "forward" : "backward");
  if (norm != "ortho" && !scaled) return y;
  Expr count = cast(n, y.dtype());
  return y * (typed_number(1, y.dtype()) / (scaled ? count : sqrt(count)));
}

/// float32 or float64.
DType point_dtype(DType t) { return real_of(complex_of(t)); }

Expr complex_transform(const char* what, const Expr& x, const Points& n, std::int64_t axis,
                       const std::string& norm, Direction direction) {
  require_expr(what, x);
  axis = normal_axis(what, axis, x.ndim());
  Expr points = n.count ? with_points(what, x, axis, n.count) : x;
  Expr pairs = ops::pairs_of(points);
  Expr y = apply(ops::fft, {pairs}, {{"axis", axis}, {"inverse", direction == Direction::Inverse}});
  return view_as_complex(normalised(what, y, shape_i(pairs, axis), norm, direction));
}

Expr transform_axes(const char* what, const Expr& x, const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& given, const std::string& norm,
                    Direction direction) {
  require_expr(what, x);
  std::vector<std::int64_t> axes = given;
  if (axes.empty()) {
    const auto count =
        static_cast<std::int64_t>(sizes.empty() ? x.type().shape.size() : sizes.size());
    for (std::int64_t k = -count; k < 0; ++k) axes.push_back(k);
  }
  if (!sizes.empty() && sizes.size() != axes.size())
    fail(Fault::Value, fmt::format("{}: {} sizes for {} axes", what, sizes.size(), axes.size()));
  if (axes.empty()) fail(Fault::Value, fmt::format("{}: there is no axis to transform", what));
  Expr y = x;
  for (std::size_t k = axes.size(); k-- > 0;)
    y = complex_transform(what, y, sizes.empty() ? Points() : Points(sizes[k]), axes[k], norm,
                          direction);
  return y;
}

/// Moves the elements from place (n + up) / 2 on to the front.
Expr shifted(const char* what, const Expr& x, const std::vector<std::int64_t>& given, int up) {
  require_expr(what, x);
  std::vector<std::int64_t> axes = given;
  for (std::int64_t k = 0; given.empty() && k < x.ndim(); ++k) axes.push_back(k);
  Expr y = x;
  for (std::int64_t a : axes) {
    const std::int64_t axis = normal_axis(what, a, x.ndim());
    Expr middle = floor_div(shape_i(x, axis) + int64_constant(up), int64_constant(2));
    y = concatenate({slice_axis(y, axis, middle, Expr()), slice_axis(y, axis, Expr(), middle)},
                    axis);
  }
  return y;
}

}  // namespace

Points::Points(std::int64_t n) : count(int64_constant(n)) {}
Points::Points(const Expr& n) : count(n) {
  if (!n) return;
  if (n.ndim() != 0 || !is_int(n.dtype()))
    fail(Fault::Type, fmt::format("fft: the number of points is a 0-d integer, not {}",
                                  snug::describe(n.type())));
  const Array* value = constant_value(n);
  count = value ? int64_constant(value->at_int(0)) : cast(n, DType::I64);
}

Expr fft(const Arg& x, const Points& n, std::int64_t axis, const std::string& norm) {
  Scope scope(x);
  return complex_transform("fft", x.expr, n, axis, norm, Direction::Forward);
}

Expr ifft(const Arg& x, const Points& n, std::int64_t axis, const std::string& norm) {
  Scope scope(x);
  return complex_transform("ifft", x.expr, n, axis, norm, Direction::Inverse);
}

Expr rfft(const Arg& x, const Points& n, std::int64_t axis, const std::string& norm) {
  Scope scope(x);
  require_expr("rfft", x.expr);
  if (is_complex(x.expr.dtype()))
    fail(Fault::Type, fmt::format("rfft: takes real numbers, not {}", name_of(x.expr.dtype())),
         "fft takes complex ones");
  axis = normal_axis("rfft", axis, x.expr.ndim());
  Expr points = cast(x, point_dtype(x.expr.dtype()));
  if (n.count) points = with_points("rfft", points, axis, n.count);
  Expr y = apply(ops::rfft, {points}, {{"axis", axis}});
  return view_as_complex(normalised("rfft", y, shape_i(points, axis), norm, Direction::Forward));
}

Expr irfft(const Arg& x, const Points& n, std::int64_t axis, const std::string& norm) {
  Scope scope(x);
  require_expr("irfft", x.expr);
  axis = normal_axis("irfft", axis, x.expr.ndim());
  Expr points = x.expr, count = n.count;
  if (count)
    points = with_points("irfft", points, axis, floor_div(count, int64_constant(2)) + 1);
  else
    count = int64_constant(2) * (shape_i(points, axis) - int64_constant(1));
  Expr y = apply(ops::irfft, {ops::pairs_of(points), count}, {{"axis", axis}});
  return normalised("irfft", y, count, norm, Direction::Inverse);
}

Expr fftn(const Arg& x, const std::vector<std::int64_t>& sizes,
          const std::vector<std::int64_t>& axes, const std::string& norm) {
  Scope scope(x);
  return transform_axes("fftn", x.expr, sizes, axes, norm, Direction::Forward);
}

Expr ifftn(const Arg& x, const std::vector<std::int64_t>& sizes,
           const std::vector<std::int64_t>& axes, const std::string& norm) {
  Scope scope(x);
  return transform_axes("ifftn", x.expr, sizes, axes, norm, Direction::Inverse);
}

Expr fftshift(const Arg& x, const std::vector<std::int64_t>& axes) {
  Scope scope(x);
  return shifted("fftshift", x.expr, axes, 1);
}

Expr ifftshift(const Arg& x, const std::vector<std::int64_t>& axes) {
  Scope scope(x);
  return shifted("ifftshift", x.expr, axes, 0);
}

}  // namespace snug
