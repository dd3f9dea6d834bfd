#include "ops/complex_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/arguments.h"

namespace snug::ops {
namespace {

bool is(const Expr& e, const OpDef& op) { return e->owner && e->owner->op == &op; }

/// Whether a complex value is there as two arrays and not as one of pairs.
bool made_of_parts(const Expr& z) {
  return is(z, view_as_complex) && is(z->owner->inputs[0], pair);
}

Exprs made(const Expr& re, const Expr& im) { return {complex_of_parts({re, im})}; }

/// Attributes that name dtypes, for the parts.
Attrs attrs_of_parts(const Attrs& attrs) {
  Attrs out = attrs;
  for (const char* name : {"dtype", "acc"})
    if (out.has(name)) out.set(name, real_of(out.dtype(name)));
  return out;
}

/// The row on each part. Real operands of other rows than elementwise ones are places and sizes.
Exprs by_parts(const ComplexArgs& c, const Attrs& attrs) {
  Exprs re, im;
  for (const Expr& x : c.x) {
    const bool split = is_continuous(x.dtype()) || has(c.op, kElementwise);
    Parts p = split ? parts_of(x) : Parts{x, x};
    re.push_back(p.re);
    im.push_back(p.im);
  }
  return made(apply(c.op, re, attrs), apply(c.op, im, attrs));
}

bool any_made_of_parts(const ComplexArgs& c) {
  return std::any_of(c.x.begin(), c.x.end(), made_of_parts);
}

Expr half(const Expr& x) { return x * number(0.5, x); }

/// |re + i im| without overflow on the way; infinite if a part is, even beside nan. Its gradient at
/// 0 is 0.
Expr magnitude(const Parts& p) {
  Expr larger = snug::stop_gradient(snug::maximum(snug::abs(p.re), snug::abs(p.im)));
  Expr infinite = snug::bit_or(snug::isinf(p.re), snug::isinf(p.im));
  Expr scale =
      snug::switch_(infinite, number(std::numeric_limits<double>::infinity(), larger), larger);
  Expr zero = number(0, scale), one = number(1, scale);
  Expr special = snug::bit_or(snug::eq(scale, zero), infinite);
  Expr safe = snug::switch_(special, one, scale);
  Expr square = snug::sqr(p.re / safe) + snug::sqr(p.im / safe);
  return snug::switch_(special, scale, safe * snug::sqrt(snug::switch_(special, one, square)));
}

Expr argument(const Parts& p) { return snug::atan2(p.im, p.re); }

Parts floats(Parts p) {
  const DType t = to_float(upcast(p.re.dtype(), p.im.dtype()));
  return {snug::cast(p.re, t), snug::cast(p.im, t)};
}
Parts parts_of(const ComplexArgs& c, std::size_t i = 0) { return floats(ops::parts_of(c.x[i])); }

/// Operand i in the precision of the result.
Expr upcast_operand(const ComplexArgs& c, std::size_t i) {
  DType t = c.x[0].dtype();
  for (const Expr& x : c.x) t = upcast(t, x.dtype());
  return snug::cast(c.x[i], is_complex(c.x[i].dtype()) ? t : real_of(t));
}

Exprs scaled(const Exprs& z, double factor) {
  Parts p = ops::parts_of(z[0]);
  return made(p.re * number(factor, p.re), p.im * number(factor, p.im));
}

/// Below 0, or -0.
Expr has_minus(const Expr& x) {
  Expr zero = number(0, x);
  return snug::bit_or(snug::lt(x, zero), snug::lt(number(1, x) / x, zero));
}

/// z to a whole power, by squaring.
Expr whole_power(const Expr& z, std::int64_t n) {
  if (n < 0) return number(1, snug::real(z)) / whole_power(z, -n);
  if (n == 0) return snug::ones_like(z);
  Expr result, square = z;
  for (; n > 0; n /= 2) {
    if (n % 2) result = result ? result * square : square;
    if (n > 1) square = snug::sqr(square);
  }
  return result;
}

/// The value of a constant behind new axes, if it is a whole number of moderate size.
std::optional<std::int64_t> whole_constant(Expr e) {
  while (is(e, dimshuffle)) e = e->owner->inputs[0];
  const Array* value = constant_value(e);
  if (!value || value->size() != 1 || is_complex(value->dtype)) return std::nullopt;
  const double v = value->at_double(0);
  if (v != std::floor(v) || std::fabs(v) > 100) return std::nullopt;
  return static_cast<std::int64_t>(v);
}

}  // namespace

Parts parts_of(const Expr& x) {
  if (!is_complex(x.dtype())) {
    Expr zero = number(-0.0, x);
    return {x, snug::dimshuffle(zero, std::vector<std::int64_t>(x.type().shape.size(), -1))};
  }
  // Of what was made of parts, too: the parts depend on x, for gradients and replacements of x.
  Expr pairs = pairs_of(x);
  if (const Array* value = constant_value(pairs)) {
    Array part = *value;
    part.shape.pop_back();
    part.strides.pop_back();
    Expr re = snug::constant(part);
    part.data += size_of(part.dtype);
    return {re, snug::constant(part)};
  }
  return {apply(ops::real, {pairs}), apply(ops::imag, {pairs})};
}

Expr complex_of_parts(const Parts& parts) { return snug::complex(parts.re, parts.im); }

Expr pairs_of(const Expr& x) {
  if (!is_complex(x.dtype())) return pairs_of(snug::cast(x, complex_of(x.dtype())));
  if (const Array* value = constant_value(x)) return snug::constant(value->as_pairs());
  return apply(ops::view_as_real, {x});
}

Exprs complex_linear(const ComplexArgs& c) {
  const Attrs attrs = attrs_of_parts(c.attrs);
  bool apart = any_made_of_parts(c);
  for (const Expr& x : c.x)
    apart |= !is_complex(x.dtype()) && (has(c.op, kElementwise) || is_float(x.dtype()));
  if (apart) return by_parts(c, attrs);
  Exprs inputs;
  for (const Expr& x : c.x) inputs.push_back(is_complex(x.dtype()) ? pairs_of(x) : x);
  return {snug::view_as_complex(apply(c.op, inputs, attrs))};
}

Exprs complex_dimshuffle(const ComplexArgs& c) {
  if (any_made_of_parts(c)) return by_parts(c, c.attrs);
  std::vector<std::int64_t> pattern = c.attrs.ints("pattern");
  pattern.push_back(c.x[0].ndim());
  return {snug::view_as_complex(apply(c.op, {pairs_of(c.x[0])}, {{"pattern", pattern}}))};
}

Exprs complex_with_shape(const ComplexArgs& c) {
  if (any_made_of_parts(c)) return by_parts(c, c.attrs);
  Attrs attrs = c.attrs;
  if (attrs.has("ndim")) attrs.set("ndim", attrs.integer("ndim") + 1);
  Expr two = snug::constant(Array::from<std::int64_t>({2}, {1}));
  Expr shape = snug::concatenate({snug::cast(c.x[1], DType::I64), two});
  return {snug::view_as_complex(apply(c.op, {pairs_of(c.x[0]), shape}, attrs))};
}

Exprs complex_shape(const ComplexArgs& c) { return {apply(c.op, {parts_of(c.x[0]).re}, c.attrs)}; }

Exprs complex_product(const ComplexArgs& c) {
  auto product = [&](const Expr& a, const Expr& b) { return apply(c.op, {a, b}, c.attrs); };
  const Parts a = ops::parts_of(c.x[0]), b = ops::parts_of(c.x[1]);
  if (!is_complex(c.x[0].dtype())) return made(product(a.re, b.re), product(a.re, b.im));
  if (!is_complex(c.x[1].dtype())) return made(product(a.re, b.re), product(a.im, b.re));
  return made(product(a.re, b.re) - product(a.im, b.im), product(a.re, b.im) + product(a.im, b.re));
}

Exprs complex_cast(const ComplexArgs& c) {
  const DType dtype = c.attrs.dtype("dtype");
  if (!is_complex(dtype))
    fail(Fault::Type,
         fmt::format("cast: a {} cannot become a {}", name_of(c.x[0].dtype()), name_of(dtype)),
         "take real(x), imag(x) or abs(x)");
  return complex_linear(c);
}

Exprs complex_switch(const ComplexArgs& c) {
  Expr condition = c.x[0];
  if (is_complex(condition.dtype())) condition = snug::ne(condition, 0);
  if (!is_complex(c.x[1].dtype()) && !is_complex(c.x[2].dtype()))
    return {snug::switch_(condition, c.x[1], c.x[2])};
  const Parts a = ops::parts_of(c.x[1]), b = ops::parts_of(c.x[2]);
  auto plus_zero = [](const Expr& x, const Expr& im) {
    return is_complex(x.dtype()) ? im : number(0, im);
  };
  return made(snug::switch_(condition, a.re, b.re),
              snug::switch_(condition, plus_zero(c.x[1], a.im), plus_zero(c.x[2], b.im)));
}

namespace {
Exprs combined(const ComplexArgs& c, Expr (*combine)(const Arg&, const Arg&)) {
  Exprs re, im;
  for (const Expr& x : c.x) {
    Parts p = ops::parts_of(x);
    re.push_back(p.re);
    im.push_back(p.im);
  }
  return {combine(apply(c.op, re, c.attrs), apply(c.op, im, c.attrs))};
}
}  // namespace

Exprs complex_any_part(const ComplexArgs& c) { return combined(c, snug::bit_or); }
Exprs complex_both_parts(const ComplexArgs& c) { return combined(c, snug::bit_and); }

Exprs complex_mul(const ComplexArgs& c) {
  for (std::size_t i = 0; i < 2; ++i)
    if (!is_complex(c.x[i].dtype())) {
      const Parts z = ops::parts_of(c.x[1 - i]);
      return made(z.re * c.x[i], z.im * c.x[i]);
    }
  const Parts a = parts_of(c, 0), b = parts_of(c, 1);
  return made(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

Exprs complex_div(const ComplexArgs& c) {
  if (!is_complex(c.x[1].dtype())) {
    const Parts z = ops::parts_of(c.x[0]);
    return made(z.re / c.x[1], z.im / c.x[1]);
  }
  const Expr above = upcast_operand(c, 0);
  const Parts b = ops::parts_of(upcast_operand(c, 1));
  // The result does not depend on the scale, so nor does its gradient.
  Expr scale = snug::stop_gradient(snug::maximum(snug::abs(b.re), snug::abs(b.im)));
  // Of an infinite divisor only the infinite parts count; by 0 each part is divided.
  Expr zero = snug::eq(scale, number(0, scale)), infinite = snug::isinf(scale);
  auto scaled = [&](const Expr& part) {
    Expr side = snug::switch_(snug::isinf(part), snug::sign(part), number(0, part));
    return snug::switch_(infinite, side, part / scale);
  };
  const Parts s{scaled(b.re), scaled(b.im)};
  Expr below = (snug::sqr(s.re) + snug::sqr(s.im)) * scale;
  const Parts a = ops::parts_of(above);
  const bool real = !is_complex(above.dtype());
  Expr re = real ? a.re * s.re : a.re * s.re + a.im * s.im;
  Expr im = real ? snug::neg(a.re * s.im) : a.im * s.re - a.re * s.im;
  return made(snug::switch_(zero, a.re / scale, re / below),
              snug::switch_(zero, a.im / scale, im / below));
}

Exprs complex_pow(const ComplexArgs& c) {
  if (auto n = whole_constant(c.x[1])) return {whole_power(upcast_operand(c, 0), *n)};
  Expr base = upcast_operand(c, 0);
  base = snug::cast(base, complex_of(base.dtype()));
  // 0 to the power of w is 0, but for 0^0 = 1.
  Expr zero = snug::eq(base, 0), one = number(1, snug::real(base));
  Expr power = snug::exp(upcast_operand(c, 1) * snug::log(snug::switch_(zero, one, base)));
  Expr of_zero = snug::cast(snug::eq(c.x[1], 0), real_of(power.dtype()));
  return {snug::switch_(zero, of_zero, power)};
}

Exprs complex_sqr(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  Expr product = z.re * z.im;
  return made((z.re - z.im) * (z.re + z.im), product + product);
}

Exprs complex_sqrt(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  Expr zero = number(0, z.re), one = number(1, z.re);
  Expr large = snug::sqrt(half(magnitude(z)) + half(snug::abs(z.re)));
  Expr is_zero = snug::eq(large, zero);
  Expr safe = snug::switch_(is_zero, one, large);
  Expr small = snug::switch_(is_zero, zero, half(snug::abs(z.im)) / safe);
  Expr right = snug::ge(z.re, zero), minus = has_minus(z.im);
  Expr im = snug::switch_(right, small, large);
  return made(snug::switch_(right, large, small), snug::switch_(minus, snug::neg(im), im));
}

Exprs complex_abs(const ComplexArgs& c) { return {magnitude(parts_of(c))}; }

Exprs complex_exp(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  Expr size = snug::exp(z.re);
  return made(size * snug::cos(z.im), size * snug::sin(z.im));
}

Exprs complex_expm1(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  Expr sine = snug::sin(half(z.im));
  return made(snug::expm1(z.re) * snug::cos(z.im) - number(2, z.re) * snug::sqr(sine),
              snug::exp(z.re) * snug::sin(z.im));
}

Exprs complex_exp2(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  return {snug::exp(complex_of_parts({z.re * number(M_LN2, z.re), z.im * number(M_LN2, z.im)}))};
}

Exprs complex_log(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  return made(snug::log(magnitude(z)), argument(z));
}

Exprs complex_log1p(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  Expr above = z.re * (z.re + number(2, z.re)) + snug::sqr(z.im);  // |1 + z|^2 - 1
  return made(half(snug::log1p(above)), argument({z.re + number(1, z.re), z.im}));
}

Exprs complex_log2(const ComplexArgs& c) { return scaled(complex_log(c), M_LOG2E); }
Exprs complex_log10(const ComplexArgs& c) { return scaled(complex_log(c), M_LOG10E); }

Exprs complex_sin(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  return made(snug::sin(z.re) * snug::cosh(z.im), snug::cos(z.re) * snug::sinh(z.im));
}

Exprs complex_cos(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  return made(snug::cos(z.re) * snug::cosh(z.im), snug::neg(snug::sin(z.re) * snug::sinh(z.im)));
}

Exprs complex_sinh(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  return made(snug::sinh(z.re) * snug::cos(z.im), snug::cosh(z.re) * snug::sin(z.im));
}

Exprs complex_cosh(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  return made(snug::cosh(z.re) * snug::cos(z.im), snug::sinh(z.re) * snug::sin(z.im));
}

namespace {
/// tanh(a + ib) from tanh a and tan b; 1 - tanh^2 a is 1 / cosh^2 a, which does not cancel.
Parts tanh_parts(const Expr& a, const Expr& b) {
  Expr t = snug::tan(b), h = snug::tanh(a), one = number(1, t);
  Expr below = one + snug::sqr(t * h);
  return {h * (one + snug::sqr(t)) / below, t / snug::sqr(snug::cosh(a)) / below};
}
}  // namespace

Exprs complex_tanh(const ComplexArgs& c) {
  const Parts z = parts_of(c);
  return {complex_of_parts(tanh_parts(z.re, z.im))};
}

Exprs complex_tan(const ComplexArgs& c) {  // -i tanh(iz)
  const Parts z = parts_of(c);
  const Parts t = tanh_parts(z.im, z.re);
  return made(t.im, t.re);
}

}  // namespace snug::ops
