#include "expr/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/array.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/special.h"

namespace snug {

const char* name_of(Prim p) {
  constexpr const char* kNames[] = {
      "const",   "arg",       "index",     "flat_index", "add",       "sub",   "mul",
      "div",     "floor_div", "mod",       "pow",        "min",       "max",   "fma",
      "neg",     "abs",       "sign",      "sqr",        "sqrt",      "floor", "ceil",
      "trunc",   "round",     "exp",       "expm1",      "exp2",      "log",   "log1p",
      "log2",    "log10",     "tanh",      "sigmoid",    "softplus",  "erf",   "erfc",
      "sin",     "cos",       "tan",       "asin",       "acos",      "atan",  "atan2",
      "sinh",    "cosh",      "asinh",     "acosh",      "atanh",     "erfcx", "gamma",
      "gammaln", "digamma",   "trigamma",  "erfinv",     "erfcinv",   "j0",    "j1",
      "i0",      "i1",        "polygamma", "gammainc",   "gammaincc", "jv",    "iv",
      "betaln",  "isnan",     "isinf",     "lt",         "le",        "gt",    "ge",
      "eq",      "ne",        "and",       "or",         "xor",       "not",   "shl",
      "shr",     "select",    "cast",      "philox",     "load",      "store", "reduce"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Prim::Reduce) + 1);
  return kNames[static_cast<int>(p)];
}

const char* name_of(ReduceOp r) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};
  return kNames[static_cast<int>(r)];
}

DType Scalar::dtype() const { return builder->body[id].dtype; }

namespace {
Scalar push(ScalarBuilder& b, Instr instr) {
  b.body.push_back(instr);
  return {&b, static_cast<std::uint32_t>(b.body.size() - 1)};
}
bool is_comparison(Prim p) { return p >= Prim::Lt && p <= Prim::Ne; }
}  // namespace

Scalar ScalarBuilder::arg(int i) {
  Instr in{Prim::Arg, arg_types.at(i)};
  in.integer = i;
  return push(*this, in);
}
Scalar ScalarBuilder::arg(int i, DType dtype) { return cast(arg(i), dtype); }
Scalar ScalarBuilder::constant(double value, DType dtype) {
  Instr in{Prim::Const, dtype};
  if (is_float(dtype))
    in.number = value;
  else
    in.integer = static_cast<std::int64_t>(value);
  return push(*this, in);
}
Scalar ScalarBuilder::integer(std::int64_t value, DType dtype) {
  if (is_float(dtype)) return constant(static_cast<double>(value), dtype);
  Instr in{Prim::Const, dtype};
  in.integer = value;
  return push(*this, in);
}
Scalar ScalarBuilder::index(int axis) {
  Instr in{Prim::Index, DType::I64};
  in.integer = axis;
  return push(*this, in);
}
Scalar ScalarBuilder::flat_index() { return push(*this, {Prim::FlatIndex, DType::I64}); }
Scalar ScalarBuilder::cast(Scalar x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return push(*this, {Prim::Cast, dtype, x.id});
}
Scalar ScalarBuilder::call(Prim p, Scalar a) {
  DType t = p == Prim::IsNan || p == Prim::IsInf ? DType::Bool : a.dtype();
  return push(*this, {p, t, a.id});
}
Scalar ScalarBuilder::call(Prim p, Scalar a, Scalar b) {
  bool shift = p == Prim::Shl || p == Prim::Shr;
  SNUG_CHECK(shift || a.dtype() == b.dtype(), "{} of {} and {}", name_of(p),
             snug::name_of(a.dtype()), snug::name_of(b.dtype()));
  return push(*this, {p, is_comparison(p) ? DType::Bool : a.dtype(), a.id, b.id});
}
Scalar ScalarBuilder::select(Scalar c, Scalar t, Scalar o) {
  SNUG_CHECK(c.dtype() == DType::Bool && t.dtype() == o.dtype(), "select of unlike branches");
  return push(*this, {Prim::Select, t.dtype(), c.id, t.id, o.id});
}
Scalar ScalarBuilder::fma(Scalar a, Scalar b, Scalar c) {
  return push(*this, {Prim::Fma, a.dtype(), a.id, b.id, c.id});
}
Scalar ScalarBuilder::philox(int word, Scalar key, Scalar counter) {
  Instr in{Prim::Philox, DType::U32, key.id, counter.id};
  in.integer = word;
  return push(*this, in);
}

Scalar operator+(Scalar a, Scalar b) { return a.builder->call(Prim::Add, a, b); }
Scalar operator-(Scalar a, Scalar b) { return a.builder->call(Prim::Sub, a, b); }
Scalar operator*(Scalar a, Scalar b) { return a.builder->call(Prim::Mul, a, b); }
Scalar operator/(Scalar a, Scalar b) { return a.builder->call(Prim::Div, a, b); }
Scalar operator-(Scalar a) { return a.builder->call(Prim::Neg, a); }

namespace {

/// Wraps an integer to the width and signedness of its dtype.
std::int64_t wrap(std::int64_t v, DType t) {
  switch (t) {
    case DType::Bool: return v != 0;
    case DType::I8: return static_cast<std::int8_t>(v);
    case DType::I16: return static_cast<std::int16_t>(v);
    case DType::I32: return static_cast<std::int32_t>(v);
    case DType::U8: return static_cast<std::uint8_t>(v);
    case DType::U16: return static_cast<std::uint16_t>(v);
    case DType::U32: return static_cast<std::uint32_t>(v);
    default: return v;
  }
}

/// x mod y with the sign of y; NumPy's remainder.
double float_mod(double x, double y) {
  double r = std::fmod(x, y);
  if (r != 0 && ((r < 0) != (y < 0)))
    r += y;
  else if (r == 0)
    r = std::copysign(0.0, y);
  return r;
}

double float_floor_div(double x, double y) {
  if (y == 0) return x / y;
  double m = std::fmod(x, y);
  double d = (x - m) / y;
  if (m != 0 && ((y < 0) != (m < 0))) d -= 1.0;
  if (d == 0) return std::copysign(0.0, x / y);
  double f = std::floor(d);
  return d - f > 0.5 ? f + 1.0 : f;
}

double float_op(Prim p, double a, double b, double c) {
  switch (p) {
    case Prim::Add: return a + b;
    case Prim::Sub: return a - b;
    case Prim::Mul: return a * b;
    case Prim::Div: return a / b;
    case Prim::FloorDiv: return float_floor_div(a, b);
    case Prim::Mod: return float_mod(a, b);
    case Prim::Pow: return std::pow(a, b);
    case Prim::Min: return std::isnan(a) || std::isnan(b) ? a + b : (b < a ? b : a);
    case Prim::Max: return std::isnan(a) || std::isnan(b) ? a + b : (b > a ? b : a);
    case Prim::Fma: return std::fma(a, b, c);
    case Prim::Neg: return -a;
    case Prim::Abs: return std::fabs(a);
    case Prim::Sign: return std::isnan(a) ? a : (a > 0) - (a < 0);
    case Prim::Sqr: return a * a;
    case Prim::Sqrt: return std::sqrt(a);
    case Prim::Floor: return std::floor(a);
    case Prim::Ceil: return std::ceil(a);
    case Prim::Trunc: return std::trunc(a);
    case Prim::Round: return std::nearbyint(a);
    case Prim::Exp: return std::exp(a);
    case Prim::Expm1: return std::expm1(a);
    case Prim::Exp2: return std::exp2(a);
    case Prim::Log: return std::log(a);
    case Prim::Log1p: return std::log1p(a);
    case Prim::Log2: return std::log2(a);
    case Prim::Log10: return std::log10(a);
    case Prim::Tanh: return std::tanh(a);
    case Prim::Sigmoid: {
      double e = std::exp(-std::fabs(a));
      return a >= 0 ? 1 / (1 + e) : a < 0 ? e / (1 + e) : a;
    }
    case Prim::Softplus:
      return std::isnan(a) ? a : std::fmax(a, 0) + std::log1p(std::exp(-std::fabs(a)));
    case Prim::Erf: return std::erf(a);
    case Prim::Erfc: return std::erfc(a);
    case Prim::Sin: return std::sin(a);
    case Prim::Cos: return std::cos(a);
    case Prim::Tan: return std::tan(a);
    case Prim::Asin: return std::asin(a);
    case Prim::Acos: return std::acos(a);
    case Prim::Atan: return std::atan(a);
    case Prim::Atan2: return std::atan2(a, b);
    case Prim::Sinh: return std::sinh(a);
    case Prim::Cosh: return std::cosh(a);
    case Prim::Asinh: return std::asinh(a);
    case Prim::Acosh: return std::acosh(a);
    case Prim::Atanh: return std::atanh(a);
    case Prim::Erfcx: return special::erfcx(a);
    case Prim::Gamma: return special::gamma(a);
    case Prim::Gammaln: return special::gammaln(a);
    case Prim::Digamma: return special::digamma(a);
    case Prim::Trigamma: return special::trigamma(a);
    case Prim::Erfinv: return special::erfinv(a);
    case Prim::Erfcinv: return special::erfcinv(a);
    case Prim::J0: return special::j0(a);
    case Prim::J1: return special::j1(a);
    case Prim::I0: return special::i0(a);
    case Prim::I1: return special::i1(a);
    case Prim::Polygamma: return special::polygamma(a, b);
    case Prim::Gammainc: return special::gammainc(a, b);
    case Prim::Gammaincc: return special::gammaincc(a, b);
    case Prim::Jv: return special::jv(a, b);
    case Prim::Iv: return special::iv(a, b);
    case Prim::Betaln: return special::betaln(a, b);
    default: internal_error("expr/scalar.cpp", fmt::format("{} on floats", name_of(p)));
  }
}

std::int64_t int_pow(std::int64_t base, std::int64_t exponent, bool is_unsigned) {
  if (!is_unsigned && exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  std::uint64_t result = 1, x = static_cast<std::uint64_t>(base),
                n = static_cast<std::uint64_t>(exponent);
  for (; n; n >>= 1, x *= x)
    if (n & 1) result *= x;
  return static_cast<std::int64_t>(result);
}

std::int64_t int_op(Prim p, DType t, std::int64_t a, std::int64_t b) {
  bool u = t == DType::U64;  // narrower unsigned values are non-negative here
  auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  std::int64_t bits = t == DType::Bool ? 1 : 8 * size_of(t);
  bool is_unsigned = !is_signed_int(t);
  switch (p) {
    case Prim::Add: return t == DType::Bool ? a | b : static_cast<std::int64_t>(ua + ub);
    case Prim::Sub: return t == DType::Bool ? a ^ b : static_cast<std::int64_t>(ua - ub);
    case Prim::Mul: return t == DType::Bool ? a & b : static_cast<std::int64_t>(ua * ub);
    case Prim::Div:  // truncates
      if (b == 0) return 0;
      if (u) return static_cast<std::int64_t>(ua / ub);
      return b == -1 ? static_cast<std::int64_t>(0 - ua) : a / b;
    case Prim::FloorDiv:
      if (b == 0) return 0;
      if (u) return static_cast<std::int64_t>(ua / ub);
      if (b == -1) return static_cast<std::int64_t>(0 - ua);
      return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    case Prim::Mod:
      if (b == 0) return 0;
      if (u) return static_cast<std::int64_t>(ua % ub);
      if (b == -1) return 0;
      return (a % b != 0 && ((a < 0) != (b < 0))) ? a % b + b : a % b;
    case Prim::Pow: return int_pow(a, b, is_unsigned);
    case Prim::Min: return u ? (ub < ua ? b : a) : (b < a ? b : a);
    case Prim::Max: return u ? (ub > ua ? b : a) : (b > a ? b : a);
    case Prim::Neg: return static_cast<std::int64_t>(0 - ua);
    case Prim::Abs: return is_unsigned || a >= 0 ? a : static_cast<std::int64_t>(0 - ua);
    case Prim::Sign: return is_unsigned ? a != 0 : (a > 0) - (a < 0);
    case Prim::Sqr: return static_cast<std::int64_t>(ua * ua);
    case Prim::Floor:
    case Prim::Ceil:
    case Prim::Trunc:
    case Prim::Round: return a;
    case Prim::And: return a & b;
    case Prim::Or: return a | b;
    case Prim::Xor: return a ^ b;
    case Prim::Not: return t == DType::Bool ? !a : ~a;
    case Prim::Shl:
      return ub >= static_cast<std::uint64_t>(bits) ? 0 : static_cast<std::int64_t>(ua << ub);
    case Prim::Shr:
      if (ub >= static_cast<std::uint64_t>(bits)) return !is_unsigned && a < 0 ? -1 : 0;
      return u ? static_cast<std::int64_t>(ua >> ub) : a >> ub;
    default: internal_error("expr/scalar.cpp", fmt::format("{} on integers", name_of(p)));
  }
}

Number cast_number(DType from, DType to, Number a) {
  if (is_float(from)) {
    if (to == DType::F16) return {half_to_float(float_to_half(static_cast<float>(a.f))), 0};
    if (to == DType::BF16) return {bfloat_to_float(float_to_bfloat(static_cast<float>(a.f))), 0};
    if (is_float(to)) return a;
    if (to == DType::Bool) return {0, a.f != 0};
    Array one = Array::empty(DType::U64, {});
    if (to == DType::U64) {
      one.set_double(0, a.f);
      return {0, one.at_int(0)};
    }
    // As x86: 32 and 64 bits convert directly, narrower ones through int32.
    double lo = to == DType::I64 || to == DType::U32 ? -0x1p63 : -0x1p31;
    double hi = to == DType::I64 || to == DType::U32 ? 0x1p63 : 0x1p31;
    std::int64_t bad = to == DType::I64 || to == DType::U32 ? INT64_MIN : INT32_MIN;
    std::int64_t v =
        a.f > lo - 1 && a.f >= -0x1p63 && a.f < hi ? static_cast<std::int64_t>(a.f) : bad;
    return {0, wrap(v, to)};
  }
  if (is_float(to)) {
    double v = from == DType::U64 ? static_cast<double>(static_cast<std::uint64_t>(a.i))
                                  : static_cast<double>(a.i);
    if (to == DType::F16) v = half_to_float(float_to_half(static_cast<float>(v)));
    if (to == DType::BF16) v = bfloat_to_float(float_to_bfloat(static_cast<float>(v)));
    return {v, 0};
  }
  return {0, wrap(a.i, to)};
}

bool compare(Prim p, DType t, Number a, Number b) {
  auto by = [&](auto x, auto y) {
    switch (p) {
      case Prim::Lt: return x < y;
      case Prim::Le: return x <= y;
      case Prim::Gt: return x > y;
      case Prim::Ge: return x >= y;
      case Prim::Eq: return x == y;
      default: return x != y;
    }
  };
  if (is_float(t)) return by(a.f, b.f);
  if (t == DType::U64) return by(static_cast<std::uint64_t>(a.i), static_cast<std::uint64_t>(b.i));
  return by(a.i, b.i);
}

}  // namespace

Number evaluate(const Instr& in, DType operand, Number a, Number b, Number c) {
  Prim p = in.prim;
  if (p == Prim::Const) return {in.number, in.integer};
  if (is_comparison(p)) return {0, compare(p, operand, a, b)};
  if (p == Prim::Select) return a.i ? b : c;
  if (p == Prim::Cast) return cast_number(operand, in.dtype, a);
  if (p == Prim::IsNan) return {0, is_float(operand) && std::isnan(a.f)};
  if (p == Prim::IsInf) return {0, is_float(operand) && std::isinf(a.f)};
  if (p == Prim::Philox)
    return {0, static_cast<std::int64_t>(philox(static_cast<std::uint64_t>(a.i),
                                                static_cast<std::uint64_t>(b.i))[in.integer])};
  if (is_float(operand)) return {float_op(p, a.f, b.f, c.f), 0};
  if (p == Prim::Fma) {
    std::int64_t m = int_op(Prim::Mul, operand, a.i, b.i);
    return {0, wrap(int_op(Prim::Add, operand, m, c.i), in.dtype)};
  }
  return {0, wrap(int_op(p, operand, a.i, b.i), in.dtype)};
}

}  // namespace snug
