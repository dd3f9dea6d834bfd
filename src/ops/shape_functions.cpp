#include <algorithm>
#include <cmath>

#include "base/spelling.h"
#include "ops/arguments.h"

namespace snug {

Sizes::Sizes() : Sizes(std::vector<Expr>{}) {}

Sizes::Sizes(const Expr& v) : vector(v) {
  require_expr("sizes", v);
  if (v.ndim() == 0) {
    vector = make_vector({v});
  } else if (v.ndim() != 1 || v.type().shape[0] < 0 || !is_discrete(v.dtype())) {
    fail(Fault::Type,
         fmt::format("sizes: {} is no integer vector of known length", snug::describe(v.type())),
         spelled(
             "pass a list of sizes",
             "pass a list of sizes, or give the number of dimensions: x.reshape(sizes, ndim=2)"));
  } else if (v->owner && v->owner->op != &ops::shape && v->owner->op != &ops::make_vector) {
    // Values may decide these sizes: one by one they can be computed first.
    std::vector<Expr> sizes;
    for (std::int64_t k = 0; k < v.type().shape[0]; ++k)
      sizes.push_back(subtensor(v, {IndexItem(int64_constant(k))}));
    vector = make_vector(sizes);
  }
}

Sizes::Sizes(const std::vector<Expr>& sizes) : vector(make_vector(sizes)) {}

Sizes::Sizes(const Dims& sizes) {
  vector = constant(Array::from(std::vector<std::int64_t>(sizes.begin(), sizes.end()),
                                {static_cast<std::int64_t>(sizes.size())}));
}

std::size_t Sizes::ndim() const { return static_cast<std::size_t>(vector.type().shape[0]); }

Expr shape(const Arg& x) {
  Scope scope(x);
  require_expr("shape", x.expr);
  return apply(ops::shape, {x.expr});
}

Expr shape_i(const Arg& x, std::int64_t axis) {
  Scope scope(x);
  require_expr("shape_i", x.expr);
  axis = normal_axis("shape_i", axis, x.expr.ndim());
  std::int64_t known = x.expr.type().shape[static_cast<std::size_t>(axis)];
  if (known >= 0) return int64_constant(known);
  return apply(ops::slice, {shape(x), int64_constant(axis)}, {{"spec", Attrs::Ints{1, 1, 0, 0}}});
}

Expr make_vector(const std::vector<Expr>& elements) {
  std::vector<std::int64_t> values;
  for (const Expr& e : elements) {
    require_expr("make_vector", e);
    if (e.ndim() != 0 || !is_discrete(e.dtype()))
      fail(Fault::Type,
           fmt::format("sizes: a size is a 0-d integer, not {}", snug::describe(e.type())),
           "cast it to int64");
    if (const Array* a = constant_value(e)) values.push_back(a->at_int(0));
  }
  if (values.size() == elements.size())
    return constant(Array::from(values, {static_cast<std::int64_t>(values.size())}));
  return apply(ops::make_vector, elements);
}

Expr reshape(const Arg& x, const Sizes& sizes) {
  Scope scope(x);
  require_expr("reshape", x.expr);
  return apply(
      ops::reshape, {x.expr, sizes.vector},
      {{"ndim", static_cast<std::int64_t>(sizes.ndim())}, {"broadcast", ones_mask(sizes.vector)}});
}

Expr flatten(const Arg& x, int ndim) {
  Scope scope(x);
  require_expr("flatten", x.expr);
  if (ndim < 1 || ndim > std::max(1, x.expr.ndim()))
    fail(Fault::Value, fmt::format("flatten: a value of {} dimensions does not flatten to {}",
                                   x.expr.ndim(), ndim));
  if (x.expr.ndim() == ndim) return x.expr;
  std::vector<Expr> sizes;
  for (int i = 0; i + 1 < ndim; ++i) sizes.push_back(shape_i(x, i));
  std::int64_t joined = 1;
  for (int i = ndim - 1; i < x.expr.ndim(); ++i) {
    std::int64_t d = x.expr.type().shape[static_cast<std::size_t>(i)];
    joined = d < 0 || joined < 0 ? -1 : joined * d;
  }
  sizes.push_back(int64_constant(joined));
  std::int64_t mask = x.expr.type().broadcast & ((1 << (ndim - 1)) - 1);
  bool last = true;  // broadcastable if all joined axes are
  for (int i = ndim - 1; i < x.expr.ndim(); ++i)
    last = last && x.expr.type().broadcastable(static_cast<std::size_t>(i));
  if (last) mask |= 1 << (ndim - 1);
  return apply(ops::reshape, {x.expr, make_vector(sizes)},
               {{"ndim", std::int64_t{ndim}}, {"broadcast", mask}});
}

Expr dimshuffle(const Arg& x, const std::vector<std::int64_t>& pattern) {
  Scope scope(x);
  require_expr("dimshuffle", x.expr);
  bool same = pattern.size() == static_cast<std::size_t>(x.expr.ndim());
  for (std::size_t i = 0; same && i < pattern.size(); ++i)
    same = pattern[i] == static_cast<std::int64_t>(i);
  if (same) return x.expr;
  return apply(ops::dimshuffle, {x.expr}, {{"pattern", pattern}});
}

Expr transpose(const Arg& x, const std::vector<std::int64_t>& axes) {
  Scope scope(x);
  require_expr("transpose", x.expr);
  std::vector<std::int64_t> pattern;
  if (!axes.empty() && axes.size() != static_cast<std::size_t>(x.expr.ndim()))
    fail(Fault::Value, fmt::format("transpose: {} axes for a value of {} dimensions", axes.size(),
                                   x.expr.ndim()));
  if (axes.empty())
    for (int i = x.expr.ndim(); i-- > 0;) pattern.push_back(i);
  for (std::int64_t a : axes) pattern.push_back(normal_axis("transpose", a, x.expr.ndim()));
  return dimshuffle(x, pattern);
}

Expr swapaxes(const Arg& x, std::int64_t a, std::int64_t b) {
  Scope scope(x);
  require_expr("swapaxes", x.expr);
  std::vector<std::int64_t> pattern;
  for (int i = 0; i < x.expr.ndim(); ++i) pattern.push_back(i);
  std::swap(pattern[static_cast<std::size_t>(normal_axis("swapaxes", a, x.expr.ndim()))],
            pattern[static_cast<std::size_t>(normal_axis("swapaxes", b, x.expr.ndim()))]);
  return dimshuffle(x, pattern);
}

Expr expand_dims(const Arg& x, std::int64_t axis) {
  Scope scope(x);
  require_expr("expand_dims", x.expr);
  return ops::expand_axes(x.expr, {normal_axis("expand_dims", axis, x.expr.ndim() + 1)});
}

Expr broadcast_to(const Arg& x, const Sizes& sizes) {
  Scope scope(x);
  require_expr("broadcast_to", x.expr);
  std::int64_t mask = ones_mask(sizes.vector);
  int lead = static_cast<int>(sizes.ndim()) - x.expr.ndim();
  for (int i = 0; i < x.expr.ndim() && lead >= 0; ++i)
    if (!x.expr.type().broadcastable(static_cast<std::size_t>(i)))
      mask &= ~(std::int64_t{1} << (lead + i));
  return apply(ops::broadcast_to, {x.expr, sizes.vector}, {{"broadcast", mask}});
}

namespace {
Expr with_shape_of(const Expr& x, const Expr& value) {
  return apply(ops::broadcast_to, {value, shape(x)},
               {{"broadcast", std::int64_t{x.type().broadcast}}});
}
}  // namespace

Expr full_like(const Arg& x, double value, std::optional<DType> dtype) {
  Scope scope(x);
  require_expr("full_like", x.expr);
  Expr v = typed_number(value, dtype.value_or(x.expr.dtype()));
  return x.expr.ndim() == 0 ? v : with_shape_of(x.expr, v);
}

Expr zeros_like(const Arg& x, std::optional<DType> dtype) {
  Scope scope(x);
  return full_like(x, 0, dtype);
}

Expr ones_like(const Arg& x, std::optional<DType> dtype) {
  Scope scope(x);
  return full_like(x, 1, dtype);
}

Expr rebroadcast(const Arg& x, std::uint8_t broadcast) {
  Scope scope(x);
  require_expr("rebroadcast", x.expr);
  if (x.expr.type().broadcast == broadcast) return x.expr;
  return apply(ops::rebroadcast, {x.expr}, {{"broadcast", std::int64_t{broadcast}}});
}

Expr addbroadcast(const Arg& x, const std::vector<std::int64_t>& axes) {
  Scope scope(x);
  require_expr("addbroadcast", x.expr);
  unsigned mask = x.expr.type().broadcast;
  for (std::int64_t a : axes) mask |= 1u << normal_axis("addbroadcast", a, x.expr.ndim());
  return rebroadcast(x, static_cast<std::uint8_t>(mask));
}

Expr unbroadcast(const Arg& x, const std::vector<std::int64_t>& axes) {
  Scope scope(x);
  require_expr("unbroadcast", x.expr);
  unsigned mask = x.expr.type().broadcast;
  for (std::int64_t a : axes) mask &= ~(1u << normal_axis("unbroadcast", a, x.expr.ndim()));
  return rebroadcast(x, static_cast<std::uint8_t>(mask));
}

Expr specify_shape(const Arg& x, const std::vector<std::int64_t>& sizes) {
  Scope scope(x);
  require_expr("specify_shape", x.expr);
  if (static_cast<int>(sizes.size()) != x.expr.ndim())
    fail(Fault::Type, fmt::format("specify_shape: {} sizes for a value of {} dimensions",
                                  sizes.size(), x.expr.ndim()));
  // Axes that stretch keep size 1; the others must have the size they are stretched to.
  std::vector<Expr> wanted;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t known = x.expr.type().shape[i];
    if (known >= 0 && sizes[i] >= 0 && known != sizes[i])
      fail(Fault::Shape,
           fmt::format("specify_shape: axis {} has size {}, not {}", i, known, sizes[i]));
    wanted.push_back(sizes[i] >= 0 ? int64_constant(sizes[i])
                                   : shape_i(x, static_cast<std::int64_t>(i)));
  }
  return apply(ops::broadcast_to, {x.expr, make_vector(wanted)},
               {{"broadcast", std::int64_t{x.expr.type().broadcast}},
                {"for", std::string("specify_shape")}});
}

Expr concatenate(const std::vector<Expr>& xs, std::int64_t axis, Here where) {
  Scope scope(where);
  if (xs.empty()) fail(Fault::Value, "concatenate: needs at least one value");
  for (const Expr& x : xs) require_expr("concatenate", x);
  if (xs[0].ndim() == 0)
    fail(Fault::Type, "concatenate: the values have no axis to join", "stack makes a new axis");
  DType dtype = xs[0].dtype();
  for (const Expr& x : xs) dtype = upcast(dtype, x.dtype());
  axis = normal_axis("concatenate", axis, xs[0].ndim());
  if (xs.size() == 1) return xs[0];
  std::vector<Expr> same;
  for (const Expr& x : xs) same.push_back(cast(x, dtype));
  return apply(ops::concatenate, same, {{"axis", axis}});
}

Expr stack(const std::vector<Expr>& given, std::int64_t axis, Here where) {
  Scope scope(where);
  if (given.empty()) fail(Fault::Value, "stack: needs at least one value");
  for (const Expr& x : given) require_expr("stack", x);
  std::vector<Expr> xs = given;
  widen_numbers(xs);
  axis = normal_axis("stack", axis, xs[0].ndim() + 1);
  std::vector<Expr> wide;
  for (const Expr& x : xs) {
    if (x.ndim() != xs[0].ndim())
      fail(Fault::Type,
           fmt::format("stack: values have {} and {} dimensions", xs[0].ndim(), x.ndim()));
    wide.push_back(ops::expand_axes(x, {axis}));
  }
  return concatenate(wide, axis);
}

Expr arange(const Arg& start, const Arg& stop, const Arg& step, std::optional<DType> dtype) {
  Scope scope(start);
  Expr a = start.expr, b = stop.expr, s = step.expr;
  for (const Expr& e : {a, b, s}) {
    require_expr("arange", e);
    if (e.ndim() != 0)
      fail(Fault::Type, fmt::format("arange: takes 0-d values, not {}", snug::describe(e.type())));
    if (is_complex(e.dtype()))
      fail(Fault::Type, fmt::format("arange: takes real numbers, not {}", name_of(e.dtype())));
  }
  if (is_discrete(a.dtype()) && is_discrete(b.dtype()) && is_discrete(s.dtype())) {
    const DType t = dtype.value_or(DType::I64);
    return cast(apply(ops::arange, {a, s, b}, {{"dtype", real_of(t)}}), t);
  }
  DType out = dtype.value_or(upcast(upcast(a.dtype(), b.dtype()), s.dtype()));
  for (Expr* e : {&a, &b, &s})
    if (Expr exact = exact_number(*e, DType::F64)) *e = exact;
  const Array *va = constant_value(a), *vb = constant_value(b), *vs = constant_value(s);
  Expr n;
  if (va && vb && vs)
    n = int64_constant(static_cast<std::int64_t>(
        std::ceil((vb->item<double>() - va->item<double>()) / vs->item<double>())));
  else
    n = cast(ceil((cast(b, DType::F64) - a) / s), DType::I64);
  Expr k = apply(ops::arange, {int64_constant(0), int64_constant(1), n}, {{"dtype", DType::F64}});
  return cast(cast(a, DType::F64) + k * s, out);
}

Expr eye(const Arg& n, const Arg& m, std::int64_t k, DType dtype) {
  Scope scope(n);
  return cast(apply(ops::eye, {n.expr, m.expr}, {{"k", k}, {"dtype", real_of(dtype)}}), dtype);
}

namespace {
/// Row and column numbers of a matrix, to be compared: column - row.
Expr diagonal_number(const Expr& x) {
  Expr rows = arange(shape_i(x, -2)), columns = arange(shape_i(x, -1));
  return dimshuffle(columns, {-1, 0}) - dimshuffle(rows, {0, -1});
}
}  // namespace

Expr tril(const Arg& x, std::int64_t k) {
  Scope scope(x);
  return switch_(le(diagonal_number(x.expr), int64_constant(k)), x,
                 typed_number(0, x.expr.dtype()));
}

Expr triu(const Arg& x, std::int64_t k) {
  Scope scope(x);
  return switch_(ge(diagonal_number(x.expr), int64_constant(k)), x,
                 typed_number(0, x.expr.dtype()));
}

}  // namespace snug
