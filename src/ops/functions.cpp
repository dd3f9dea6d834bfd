#include "ops/functions.h"

#include <algorithm>
#include <cmath>

#include "ops/rules.h"

namespace snug {
namespace {

/// Opens an origin scope at the place of a call.
struct Scope : OriginScope {
  explicit Scope(const Arg& a) : Scope(a.where) {}
  explicit Scope(const Here& w)
      : OriginScope(w.file_name(), static_cast<int>(w.line()), w.function_name()) {}
};

void require_expr(const char* what, const Expr& e) {
  if (!e) fail(Fault::Type, fmt::format("{}: an argument is an empty expression", what));
}

/// Adds broadcastable axes in front until it has `ndim` of them.
Expr padded(const Expr& x, int ndim) {
  if (x.ndim() == ndim) return x;
  std::vector<std::int64_t> pattern(static_cast<std::size_t>(ndim - x.ndim()), -1);
  for (int i = 0; i < x.ndim(); ++i) pattern.push_back(i);
  return apply(ops::dimshuffle, {x}, {{"pattern", pattern}});
}

Expr elementwise(const OpDef& op, std::vector<Expr> xs, Attrs attrs = {}) {
  int ndim = 0;
  for (const Expr& x : xs) {
    require_expr(op.name.data(), x);
    ndim = std::max(ndim, x.ndim());
  }
  for (Expr& x : xs) x = padded(x, ndim);
  return apply(op, std::move(xs), std::move(attrs));
}

Expr unary(const OpDef& op, const Arg& x) {
  Scope scope(x);
  return elementwise(op, {x.expr});
}
Expr binary(const OpDef& op, const Arg& a, const Arg& b) {
  Scope scope(a);
  return elementwise(op, {a.expr, b.expr});
}

/// An axis of a value of `ndim` dimensions, counted from the front.
std::int64_t normal_axis(const char* what, std::int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim)
    fail(Fault::Value,
         fmt::format("{}: there is no axis {} in a value of {} dimensions", what, axis, ndim));
  return axis < 0 ? axis + ndim : axis;
}

std::vector<std::int64_t> normal_axes(const char* what, const Axes& axes, int ndim) {
  std::vector<std::int64_t> out;
  if (axes.all) {
    for (int i = 0; i < ndim; ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t a : axes.list) out.push_back(normal_axis(what, a, ndim));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    fail(Fault::Value, fmt::format("{}: an axis is given twice", what),
         "negative axes count from the end: -1 is the last one");
  return out;
}

Expr int64_constant(std::int64_t value) { return constant(Array::scalar<std::int64_t>(value)); }

Expr typed_number(double value, DType dtype) {
  Array a = Array::empty(dtype, {});
  if (is_float(dtype))
    a.set_double(0, value);
  else
    a.set_int(0, static_cast<std::int64_t>(value));
  return constant(a);
}

// ---- reductions ----

DType sum_dtype(DType t) {
  if (is_float(t)) return t;
  return is_unsigned_int(t) ? DType::U64 : DType::I64;
}

DType accumulator(DType t) {
  if (t == DType::F16 || t == DType::BF16) return DType::F32;
  return t == DType::F32 ? DType::F64 : t;
}

Expr reduce(const OpDef& op, ReduceOp kind, const Expr& x, const Axes& given, bool keepdims,
            DType dtype, DType acc) {
  require_expr(op.name.data(), x);
  std::vector<std::int64_t> axes = normal_axes(op.name.data(), given, x.ndim());
  Expr out = apply(op, {x},
                   {{"axes", axes},
                    {"reduce", static_cast<std::int64_t>(kind)},
                    {"dtype", dtype},
                    {"acc", acc}});
  return keepdims ? ops::expand_axes(out, axes) : out;
}

Expr reduce_sum(const OpDef& op, ReduceOp kind, const Expr& x, const Axes& axes, bool keepdims,
                std::optional<DType> dtype, std::optional<DType> acc) {
  DType out = dtype.value_or(sum_dtype(x.dtype()));
  return reduce(op, kind, x, axes, keepdims, out, acc.value_or(accumulator(out)));
}

/// The number of elements that a reduction takes together, as a 0-d int64.
Expr reduced_count(const Expr& x, const std::vector<std::int64_t>& axes) {
  Expr n = int64_constant(1);
  for (std::int64_t axis : axes) {
    Expr d = shape_i(x, axis);
    n = axes.size() == 1 ? d : n * d;
  }
  return n;
}

// ---- shapes ----

/// The axes known to be 1, as a mask.
std::int64_t ones_mask(const Expr& vector) {
  std::int64_t mask = 0;
  for (std::size_t k = 0; k < vector->elements.size() && k < 8; ++k)
    if (vector->elements_known[k] && vector->elements[k] == 1) mask |= std::int64_t{1} << k;
  return mask;
}

Expr with_shape_of(const Expr& x, const Expr& value) {
  return apply(ops::broadcast_to, {value, shape(x)},
               {{"broadcast", std::int64_t{x.type().broadcast}}});
}

}  // namespace

// ---- inputs ----

Expr tensor(DType dtype, int ndim, std::string name, std::uint8_t broadcast, Here where) {
  Scope scope(where);
  if (ndim < 0 || ndim > 8)
    fail(Fault::Type, fmt::format("tensor: {} dimensions; there are 0 to 8", ndim));
  return input({dtype, Dims(static_cast<std::size_t>(ndim), -1), broadcast}, std::move(name));
}

Expr shared(const Array& value, std::string name, std::uint8_t broadcast, Here where) {
  Scope scope(where);
  Ref<Variable> v(new SharedVariable(value, std::move(name), broadcast));
  v->origin = current_origin();
  return Expr(v);
}

Expr shared(const Recipe& recipe, std::string name, std::uint8_t broadcast, Here where) {
  Scope scope(where);
  Ref<Variable> v(new SharedVariable(recipe, std::move(name), broadcast));
  v->origin = current_origin();
  return Expr(v);
}

Array zeros(const Dims& shape, DType dtype) { return Array::zeros(dtype, shape); }

Array ones(const Dims& shape, DType dtype) {
  Array a = Array::empty(dtype, shape);
  for (std::int64_t k = 0, n = a.size(); k < n; ++k)
    is_float(dtype) ? a.set_double(k, 1) : a.set_int(k, 1);
  return a;
}

// ---- elementwise ----

Expr neg(const Arg& x) { return unary(ops::neg, x); }
Expr abs(const Arg& x) { return unary(ops::abs, x); }
Expr sign(const Arg& x) { return unary(ops::sign, x); }
Expr sqr(const Arg& x) { return unary(ops::sqr, x); }
Expr sqrt(const Arg& x) { return unary(ops::sqrt, x); }
Expr exp(const Arg& x) { return unary(ops::exp, x); }
Expr expm1(const Arg& x) { return unary(ops::expm1, x); }
Expr exp2(const Arg& x) { return unary(ops::exp2, x); }
Expr log(const Arg& x) { return unary(ops::log, x); }
Expr log1p(const Arg& x) { return unary(ops::log1p, x); }
Expr log2(const Arg& x) { return unary(ops::log2, x); }
Expr log10(const Arg& x) { return unary(ops::log10, x); }
Expr tanh(const Arg& x) { return unary(ops::tanh, x); }
Expr sigmoid(const Arg& x) { return unary(ops::sigmoid, x); }
Expr softplus(const Arg& x) { return unary(ops::softplus, x); }
Expr erf(const Arg& x) { return unary(ops::erf, x); }
Expr erfc(const Arg& x) { return unary(ops::erfc, x); }
Expr sin(const Arg& x) { return unary(ops::sin, x); }
Expr cos(const Arg& x) { return unary(ops::cos, x); }
Expr tan(const Arg& x) { return unary(ops::tan, x); }
Expr asin(const Arg& x) { return unary(ops::asin, x); }
Expr acos(const Arg& x) { return unary(ops::acos, x); }
Expr atan(const Arg& x) { return unary(ops::atan, x); }
Expr sinh(const Arg& x) { return unary(ops::sinh, x); }
Expr cosh(const Arg& x) { return unary(ops::cosh, x); }
Expr asinh(const Arg& x) { return unary(ops::asinh, x); }
Expr acosh(const Arg& x) { return unary(ops::acosh, x); }
Expr atanh(const Arg& x) { return unary(ops::atanh, x); }
Expr floor(const Arg& x) { return unary(ops::floor, x); }
Expr ceil(const Arg& x) { return unary(ops::ceil, x); }
Expr trunc(const Arg& x) { return unary(ops::trunc, x); }
Expr round(const Arg& x) { return unary(ops::round, x); }
Expr isnan(const Arg& x) { return unary(ops::isnan, x); }
Expr isinf(const Arg& x) { return unary(ops::isinf, x); }
Expr invert(const Arg& x) { return unary(ops::invert, x); }
Expr stop_gradient(const Arg& x) { return unary(ops::stop_gradient, x); }

Expr cast(const Arg& x, DType dtype) {
  Scope scope(x);
  require_expr("cast", x.expr);
  if (x.expr.dtype() == dtype) return x.expr;
  return apply(ops::cast, {x.expr}, {{"dtype", dtype}});
}

Expr identity(const Arg& x) {
  Scope scope(x);
  require_expr("identity", x.expr);
  return apply(ops::cast, {x.expr}, {{"dtype", x.expr.dtype()}});
}

Expr add(const Arg& a, const Arg& b) { return binary(ops::add, a, b); }
Expr sub(const Arg& a, const Arg& b) { return binary(ops::sub, a, b); }
Expr mul(const Arg& a, const Arg& b) { return binary(ops::mul, a, b); }
Expr div(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("div", a.expr);
  require_expr("div", b.expr);
  if (is_float(a.expr.dtype()) || is_float(b.expr.dtype())) return binary(ops::div, a, b);
  return elementwise(ops::div, {cast(a, default_float()), cast(b, default_float())});
}
Expr floor_div(const Arg& a, const Arg& b) { return binary(ops::floor_div, a, b); }
Expr mod(const Arg& a, const Arg& b) { return binary(ops::mod, a, b); }
Expr pow(const Arg& a, const Arg& b) { return binary(ops::pow, a, b); }
Expr minimum(const Arg& a, const Arg& b) { return binary(ops::minimum, a, b); }
Expr maximum(const Arg& a, const Arg& b) { return binary(ops::maximum, a, b); }
Expr atan2(const Arg& a, const Arg& b) { return binary(ops::atan2, a, b); }
Expr lt(const Arg& a, const Arg& b) { return binary(ops::lt, a, b); }
Expr le(const Arg& a, const Arg& b) { return binary(ops::le, a, b); }
Expr gt(const Arg& a, const Arg& b) { return binary(ops::gt, a, b); }
Expr ge(const Arg& a, const Arg& b) { return binary(ops::ge, a, b); }
Expr eq(const Arg& a, const Arg& b) { return binary(ops::eq, a, b); }
Expr ne(const Arg& a, const Arg& b) { return binary(ops::ne, a, b); }
Expr bit_and(const Arg& a, const Arg& b) { return binary(ops::bit_and, a, b); }
Expr bit_or(const Arg& a, const Arg& b) { return binary(ops::bit_or, a, b); }
Expr bit_xor(const Arg& a, const Arg& b) { return binary(ops::bit_xor, a, b); }
Expr shl(const Arg& a, const Arg& b) { return binary(ops::shl, a, b); }
Expr shr(const Arg& a, const Arg& b) { return binary(ops::shr, a, b); }

Expr switch_(const Arg& condition, const Arg& then, const Arg& otherwise) {
  Scope scope(condition);
  return elementwise(ops::switch_, {condition.expr, then.expr, otherwise.expr});
}

Expr clip(const Arg& x, const Arg& low, const Arg& high) {
  Scope scope(x);
  return minimum(maximum(x, low), high);
}

// ---- reductions ----

Expr sum(const Arg& x, const Axes& axes, bool keepdims, std::optional<DType> dtype,
         std::optional<DType> acc) {
  Scope scope(x);
  return reduce_sum(ops::sum, ReduceOp::Sum, x.expr, axes, keepdims, dtype, acc);
}

Expr prod(const Arg& x, const Axes& axes, bool keepdims, std::optional<DType> dtype,
          std::optional<DType> acc) {
  Scope scope(x);
  return reduce_sum(ops::prod, ReduceOp::Prod, x.expr, axes, keepdims, dtype, acc);
}

Expr mean(const Arg& x, const Axes& axes, bool keepdims, std::optional<DType> dtype,
          std::optional<DType> acc) {
  Scope scope(x);
  require_expr("mean", x.expr);
  DType out = dtype.value_or(is_float(x.expr.dtype()) ? x.expr.dtype() : DType::F64);
  if (!is_float(out))
    fail(Fault::Type, fmt::format("mean: the result is a float, not {}", name_of(out)),
         "cast the mean");
  // A sum of 16-bit floats overflows where their mean does not.
  DType work = size_of(out) == 2 ? DType::F32 : out;
  Expr total = reduce_sum(ops::sum, ReduceOp::Sum, x.expr, axes, keepdims, work, acc);
  Expr n = reduced_count(x.expr, normal_axes("mean", axes, x.expr.ndim()));
  return cast(total / cast(n, work), out);
}

Expr max(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::max, ReduceOp::Max, x.expr, axes, keepdims, x.expr.dtype(), x.expr.dtype());
}

Expr min(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::min, ReduceOp::Min, x.expr, axes, keepdims, x.expr.dtype(), x.expr.dtype());
}

Expr any(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  Expr b = x.expr.dtype() == DType::Bool ? x.expr : ne(x, typed_number(0, x.expr.dtype()));
  return reduce(ops::any, ReduceOp::Any, b, axes, keepdims, DType::Bool, DType::Bool);
}

Expr all(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  Expr b = x.expr.dtype() == DType::Bool ? x.expr : ne(x, typed_number(0, x.expr.dtype()));
  return reduce(ops::all, ReduceOp::All, b, axes, keepdims, DType::Bool, DType::Bool);
}

Expr argmax(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::argmax, ReduceOp::ArgMax, x.expr, axes, keepdims, DType::I64, x.expr.dtype());
}

Expr argmin(const Arg& x, const Axes& axes, bool keepdims) {
  Scope scope(x);
  return reduce(ops::argmin, ReduceOp::ArgMin, x.expr, axes, keepdims, DType::I64, x.expr.dtype());
}

Expr var(const Arg& x, const Axes& axes, bool keepdims, std::int64_t ddof) {
  Scope scope(x);
  Expr centred = x.expr - mean(x, axes, true);
  if (ddof == 0) return mean(sqr(centred), axes, keepdims);
  Expr total = sum(sqr(centred), axes, keepdims);
  Expr n = reduced_count(x.expr, normal_axes("var", axes, x.expr.ndim())) - Expr(ddof);
  return total / cast(n, total.dtype());
}

Expr stddev(const Arg& x, const Axes& axes, bool keepdims, std::int64_t ddof) {
  Scope scope(x);
  return sqrt(var(x, axes, keepdims, ddof));
}

// ---- shapes ----

Sizes::Sizes() : Sizes(std::vector<Expr>{}) {}

Sizes::Sizes(const Expr& v) : vector(v) {
  require_expr("sizes", v);
  if (v.ndim() == 0) {
    vector = make_vector({v});
  } else if (v.ndim() != 1 || v.type().shape[0] < 0 || !is_discrete(v.dtype())) {
    fail(Fault::Type,
         fmt::format("sizes: {} is no integer vector of known length", snug::describe(v.type())),
         "pass a list of sizes, or give the number of dimensions: x.reshape(sizes, ndim=2)");
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

Expr stack(const std::vector<Expr>& xs, std::int64_t axis, Here where) {
  Scope scope(where);
  if (xs.empty()) fail(Fault::Value, "stack: needs at least one value");
  for (const Expr& x : xs) require_expr("stack", x);
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
  const Expr &a = start.expr, &b = stop.expr, &s = step.expr;
  for (const Expr& e : {a, b, s}) {
    require_expr("arange", e);
    if (e.ndim() != 0)
      fail(Fault::Type, fmt::format("arange: takes 0-d values, not {}", snug::describe(e.type())));
  }
  if (is_discrete(a.dtype()) && is_discrete(b.dtype()) && is_discrete(s.dtype()))
    return apply(ops::arange, {a, s, b}, {{"dtype", dtype.value_or(DType::I64)}});
  DType out = dtype.value_or(upcast(upcast(a.dtype(), b.dtype()), s.dtype()));
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
  return apply(ops::eye, {n.expr, m.expr}, {{"k", k}, {"dtype", dtype}});
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

// ---- linear algebra ----

namespace {

/// A product row on operands of one dtype; bools multiply as "any of both".
Expr product(const OpDef& op, const Expr& a, const Expr& b) {
  DType t = upcast(a.dtype(), b.dtype());
  if (t != DType::Bool) return apply(op, {cast(a, t), cast(b, t)});
  Expr n = apply(op, {cast(a, DType::I64), cast(b, DType::I64)});
  return ne(n, int64_constant(0));
}

Expr size_product(const Expr& x, const std::vector<std::int64_t>& axes) {
  if (axes.empty()) return int64_constant(1);
  Expr n = shape_i(x, axes[0]);
  for (std::size_t k = 1; k < axes.size(); ++k) n = n * shape_i(x, axes[k]);
  return n;
}

}  // namespace

Expr tensordot(const Arg& a, const Arg& b, const std::vector<std::int64_t>& axes_a,
               const std::vector<std::int64_t>& axes_b) {
  Scope scope(a);
  if (axes_a.size() != axes_b.size())
    fail(Fault::Value, fmt::format("tensordot: {} axes against {}", axes_a.size(), axes_b.size()));
  auto split = [](const Expr& x, const std::vector<std::int64_t>& given) {
    std::vector<std::int64_t> summed, kept;
    for (std::int64_t s : given) summed.push_back(normal_axis("tensordot", s, x.ndim()));
    for (std::int64_t i = 0; i < x.ndim(); ++i)
      if (std::find(summed.begin(), summed.end(), i) == summed.end()) kept.push_back(i);
    return std::pair(summed, kept);
  };
  auto [sum_a, keep_a] = split(a.expr, axes_a);
  auto [sum_b, keep_b] = split(b.expr, axes_b);
  std::vector<std::int64_t> order_a = keep_a, order_b = sum_b;
  order_a.insert(order_a.end(), sum_a.begin(), sum_a.end());
  order_b.insert(order_b.end(), keep_b.begin(), keep_b.end());
  auto flat = [](const Expr& x, const std::vector<std::int64_t>& order, const Expr& rows,
                 const Expr& columns) {
    return reshape(dimshuffle(x, order), {rows, columns});
  };
  Expr fa = flat(a.expr, order_a, size_product(a.expr, keep_a), size_product(a.expr, sum_a));
  Expr fb = flat(b.expr, order_b, size_product(b.expr, sum_b), size_product(b.expr, keep_b));
  std::vector<Expr> sizes;
  std::int64_t mask = 0;
  auto keep = [&](const Expr& x, const std::vector<std::int64_t>& axes) {
    for (std::int64_t i : axes) {
      if (x.type().broadcastable(static_cast<std::size_t>(i)))
        mask |= std::int64_t{1} << sizes.size();
      sizes.push_back(shape_i(x, i));
    }
  };
  keep(a.expr, keep_a);
  keep(b.expr, keep_b);
  return apply(ops::reshape, {product(ops::dot, fa, fb), make_vector(sizes)},
               {{"ndim", static_cast<std::int64_t>(sizes.size())}, {"broadcast", mask}});
}

Expr dot(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("dot", a.expr);
  require_expr("dot", b.expr);
  const Expr &x = a.expr, &y = b.expr;
  if (x.ndim() == 0 || y.ndim() == 0) return mul(a, b);
  if (x.ndim() > 2 || y.ndim() > 2)
    return tensordot(a, b, {x.ndim() - 1}, {std::max(0, y.ndim() - 2)});
  Expr left = x.ndim() == 1 ? dimshuffle(x, {-1, 0}) : x;
  Expr right = y.ndim() == 1 ? dimshuffle(y, {0, -1}) : y;
  Expr out = product(ops::dot, left, right);
  std::vector<std::int64_t> kept;
  if (x.ndim() == 2) kept.push_back(0);
  if (y.ndim() == 2) kept.push_back(1);
  return dimshuffle(out, kept);
}

Expr batched_dot(const Arg& a, const Arg& b) {
  Scope scope(a);
  const Expr &x = a.expr, &y = b.expr;
  if (x.ndim() < 2 || x.ndim() > 3 || y.ndim() < 2 || y.ndim() > 3)
    fail(Fault::Type, fmt::format("batched_dot: arguments have 2 or 3 dimensions, not {} and {}",
                                  x.ndim(), y.ndim()));
  Expr left = x.ndim() == 2 ? dimshuffle(x, {0, -1, 1}) : x;
  Expr right = y.ndim() == 2 ? dimshuffle(y, {0, 1, -1}) : y;
  Expr out = product(ops::batched_dot, left, right);
  std::vector<std::int64_t> kept{0};
  if (x.ndim() == 3) kept.push_back(1);
  if (y.ndim() == 3) kept.push_back(2);
  return dimshuffle(out, kept);
}

namespace {
/// float32 or float64, as the factorisations need.
DType factor_dtype(DType t) {
  t = to_float(t);
  return size_of(t) == 2 ? DType::F32 : t;
}
}  // namespace

Expr cholesky(const Arg& a, bool lower) {
  Scope scope(a);
  require_expr("cholesky", a.expr);
  return apply(ops::cholesky, {cast(a, factor_dtype(a.expr.dtype()))}, {{"lower", lower}});
}

Expr solve(const Arg& a, const Arg& b, const std::string& kind, bool trans) {
  Scope scope(a);
  require_expr("solve", a.expr);
  require_expr("solve", b.expr);
  DType t = factor_dtype(upcast(a.expr.dtype(), b.expr.dtype()));
  Expr right = b.expr.ndim() == 1 ? dimshuffle(b, {0, -1}) : b.expr;
  Expr out = apply(ops::solve, {cast(a, t), cast(right, t)}, {{"kind", kind}, {"trans", trans}});
  return b.expr.ndim() == 1 ? dimshuffle(out, {0}) : out;
}

Expr conv2d(const Arg& given_x, const Arg& given_w, const ConvOptions& o) {
  Scope scope(given_x);
  require_expr("conv2d", given_x.expr);
  require_expr("conv2d", given_w.expr);
  DType t = to_float(upcast(given_x.expr.dtype(), given_w.expr.dtype()));
  Expr x = cast(given_x, t), w = cast(given_w, t);
  if (x.ndim() != 4 || w.ndim() != 4)
    fail(Fault::Type, fmt::format("conv2d: images and filters have 4 dimensions, not {} and {}",
                                  x.ndim(), w.ndim()));
  Attrs::Ints pad(4, 0);
  if (!o.pad.empty()) {
    if (o.pad.size() == 2)
      pad = {o.pad[0], o.pad[0], o.pad[1], o.pad[1]};
    else if (o.pad.size() == 4)
      pad = o.pad;
    else
      fail(Fault::Value, fmt::format("conv2d: pad has 2 or 4 entries, not {}", o.pad.size()));
  } else if (o.border_mode == "half" || o.border_mode == "full") {
    // The padding follows from the size of the filters, which is fixed here for good.
    std::int64_t size[2];
    Dims current(4, -1);
    if (SharedVariable* s = as_shared(given_w.expr)) current = s->shape();
    std::vector<std::int64_t> fixed(4, -1);
    for (std::size_t k = 0; k < 2; ++k) {
      size[k] = w.type().shape[2 + k] >= 0 ? w.type().shape[2 + k] : current[2 + k];
      if (size[k] < 0)
        fail(Fault::Shape,
             fmt::format("conv2d: border mode '{}' needs filters of known size", o.border_mode),
             "use specify_shape on the filters, or give pad in numbers");
      fixed[2 + k] = size[k];
      std::int64_t reach = (size[k] - 1) * o.dilation[k];
      pad[2 * k] = pad[2 * k + 1] = o.border_mode == "full" ? reach : (reach + 1) / 2;
    }
    if (w.type().shape[2] < 0 || w.type().shape[3] < 0) w = specify_shape(w, fixed);
  } else if (o.border_mode != "valid") {
    std::string near = nearest(o.border_mode, {"valid", "half", "full"});
    fail(Fault::Value, fmt::format("conv2d: unknown border mode '{}'", o.border_mode),
         near.empty() ? "modes are valid, half, full" : fmt::format("did you mean '{}'?", near));
  }
  return apply(ops::conv2d, {x, w},
               {{"pad", pad},
                {"stride", Attrs::Ints(o.subsample.begin(), o.subsample.end())},
                {"dilation", Attrs::Ints(o.dilation.begin(), o.dilation.end())},
                {"flip", o.flip},
                {"groups", o.groups}});
}

// ---- networks ----

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
  return switch_(gt(x, zero), x, zero);
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
  return neg(log(subtensor(p, {arange(shape_i(y, 0)), y.expr})));
}

Expr binary_crossentropy(const Arg& p, const Arg& y) {
  Scope scope(p);
  Expr one = typed_number(1, p.expr.dtype());
  return neg(y.expr * log(p) + (one - y.expr) * log(one - p.expr));
}

// ---- random numbers ----

namespace {

/// A bijection of 64 bits in which every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

/// Where the states of draw number `draw` start; they count up from there.
std::uint64_t first_key(std::uint64_t seed, std::uint64_t draw) {
  return mix(mix(seed + 0x9e3779b97f4a7c15ull) + draw * 0x9e3779b97f4a7c15ull);
}

Expr random_of(const OpDef& op, const Expr& key, const Sizes& sizes, DType dtype) {
  return apply(op, {key, int64_constant(0), sizes.vector},
               {{"dtype", dtype}, {"broadcast", ones_mask(sizes.vector)}});
}

DType random_dtype(const char* what, std::optional<DType> given) {
  DType t = given.value_or(default_float());
  if (!is_float(t)) fail(Fault::Type, fmt::format("{}: {} is no float type", what, name_of(t)));
  return t;
}

}  // namespace

Expr RandomStream::key() {
  Expr state = shared(Array::scalar<std::uint64_t>(first_key(seed_, states_.size())),
                      fmt::format("random_state_{}", states_.size()));
  as_shared(state)->default_update_rule = [](const Expr& self) {
    return self + constant(Array::scalar<std::uint64_t>(1));
  };
  states_.push_back(state);
  Expr key = state;
  for (const Expr& index : ops::open_loops())
    key = key + (cast(index, DType::U64) + constant(Array::scalar<std::uint64_t>(1))) *
                    constant(Array::scalar<std::uint64_t>(0x9e3779b97f4a7c15ull));
  return key;
}

void RandomStream::seed(std::uint64_t seed) {
  seed_ = seed;
  for (std::size_t k = 0; k < states_.size(); ++k)
    as_shared(states_[k])->set_value(Array::scalar<std::uint64_t>(first_key(seed_, k)));
}

Expr RandomStream::uniform(const Sizes& sizes, double low, double high,
                           std::optional<DType> dtype) {
  DType t = random_dtype("uniform", dtype);
  Expr u = random_of(ops::random_uniform, key(), sizes, t);
  if (low == 0 && high == 1) return u;
  return u * typed_number(high - low, t) + typed_number(low, t);
}

Expr RandomStream::normal(const Sizes& sizes, double mean, double deviation,
                          std::optional<DType> dtype) {
  DType t = random_dtype("normal", dtype);
  Expr z = random_of(ops::random_normal, key(), sizes, t);
  if (mean == 0 && deviation == 1) return z;
  return z * typed_number(deviation, t) + typed_number(mean, t);
}

Expr RandomStream::bernoulli(const Sizes& sizes, const Arg& p, std::optional<DType> dtype) {
  Scope scope(p);
  DType t = p.expr.dtype() == DType::F64 ? DType::F64 : DType::F32;
  Expr u = random_of(ops::random_uniform, key(), sizes, t);
  return cast(lt(u, p), dtype.value_or(DType::I64));
}

Expr dropout(const Arg& x, double p, RandomStream& stream) {
  Scope scope(x);
  require_expr("dropout", x.expr);
  if (!(p >= 0 && p < 1))
    fail(Fault::Value, fmt::format("dropout: the probability is {}, it must be in [0, 1)", p));
  if (!is_float(x.expr.dtype()))
    fail(Fault::Type, fmt::format("dropout: takes floats, not {}", name_of(x.expr.dtype())));
  if (p == 0) return x.expr;
  Expr keep = stream.bernoulli(shape(x), typed_number(1 - p, DType::F32), DType::Bool);
  keep = rebroadcast(keep, x.expr.type().broadcast);
  return switch_(keep, x.expr * typed_number(1 / (1 - p), x.expr.dtype()),
                 typed_number(0, x.expr.dtype()));
}

}  // namespace snug
