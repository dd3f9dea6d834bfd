#include "backend/opencl/opencl_expr.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace snug {

namespace {

std::string real_literal(double value, bool single) {
  if (std::isnan(value)) return single ? "NAN" : "(double)NAN";
  if (std::isinf(value))
    return fmt::format("{}{}INFINITY", value < 0 ? "-" : "", single ? "" : "(double)");
  std::string text =
      single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text == "inf" || text == "-inf") return text[0] == '-' ? "-INFINITY" : "INFINITY";
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return single ? text + "f" : text;
}

[[noreturn]] void unsupported(Prim p, DType t) {
  fail(Fault::Unsupported, fmt::format("OpenCL: {} on {}", name_of(p), name_of(t)));
}

}  // namespace

std::string opencl_type(DType t) {
  constexpr const char* kTypes[kDTypeCount] = {"uchar", "char",   "short", "int",   "long",
                                               "uchar", "ushort", "uint",  "ulong", "float",
                                               "float", "float",  "double"};
  return kTypes[static_cast<int>(t)];
}

const char* opencl_wide_type(DType t) { return size_of(t) <= 4 ? "uint" : "ulong"; }

std::string opencl_literal(DType t, Number value) {
  if (is_float(t)) return real_literal(value.f, t != DType::F64);
  if (t == DType::U64) return fmt::format("{}UL", static_cast<std::uint64_t>(value.i));
  if (value.i == INT64_MIN) return "LONG_MIN";
  return t == DType::I64 ? fmt::format("{}L", value.i)
                         : fmt::format("({}){}L", opencl_type(t), value.i);
}

bool opencl_has(Prim p, DType t) { return !is_function(p) || p == Prim::Pow || is_float(t); }

std::string OpenClExpr::expr(const Instr& in) {
  auto var = [](std::uint32_t i) { return fmt::format("v{}", i); };
  std::string a = var(in.a), b = var(in.b), c = var(in.c);
  DType t = operand_count(in.prim) ? spec_.body[in.a].dtype : in.dtype;
  switch (in.prim) {
    case Prim::Const: return constant(in);
    case Prim::Select: return fmt::format("{} ? {} : {}", a, b, c);
    case Prim::Cast: return cast(t, in.dtype, a);
    case Prim::IsNan: return fmt::format("isnan({}) != 0", a);
    case Prim::IsInf: return fmt::format("isinf({}) != 0", a);
    case Prim::Lt: return fmt::format("{} < {}", a, b);
    case Prim::Le: return fmt::format("{} <= {}", a, b);
    case Prim::Gt: return fmt::format("{} > {}", a, b);
    case Prim::Ge: return fmt::format("{} >= {}", a, b);
    case Prim::Eq: return fmt::format("{} == {}", a, b);
    case Prim::Ne: return fmt::format("{} != {}", a, b);
    case Prim::And: return fmt::format("{} & {}", a, b);
    case Prim::Or: return fmt::format("{} | {}", a, b);
    case Prim::Xor: return fmt::format("{} ^ {}", a, b);
    case Prim::Not: return t == DType::Bool ? "!" + a : "~" + a;
    case Prim::Shl:
    case Prim::Shr: return shift(in, a, b);
    case Prim::Philox: return fmt::format("{}({}, {}).s{}", helper("philox"), a, b, in.integer);
    default: return arithmetic(in.prim, t, a, b, c);
  }
}

std::string OpenClExpr::constant(const Instr& in) const {
  if (!is_pair(in.dtype)) return opencl_literal(in.dtype, {in.number, in.integer});
  const auto high = static_cast<float>(in.number);
  const double low = std::isfinite(high) ? in.number - static_cast<double>(high) : 0;
  return fmt::format("(float2)({}, {})", real_literal(high, true), real_literal(low, true));
}

std::string OpenClExpr::arithmetic(Prim p, DType t, const std::string& a, const std::string& b,
                                   const std::string& c) {
  if (is_pair(t)) return pair_arithmetic(p, a, b);
  if (is_float(t)) return float_arithmetic(p, t, a, b, c);
  if (p == Prim::Floor || p == Prim::Ceil || p == Prim::Trunc || p == Prim::Round) return a;
  if (t == DType::Bool)
    return p == Prim::Fma ? fmt::format("({} & {}) | {}", a, b, c) : bool_arithmetic(p, a, b);
  if (p == Prim::Fma)
    return fmt::format("({0})(({1}){2} * ({1}){3} + ({1}){4})", opencl_type(t), opencl_wide_type(t),
                       a, b, c);
  return int_arithmetic(p, t, a, b);
}

std::string OpenClExpr::pair_arithmetic(Prim p, const std::string& a, const std::string& b) {
  if (p != Prim::Add && p != Prim::Mul) unsupported(p, DType::F64);
  return fmt::format("{}({}, {})", helper(p == Prim::Add ? "pair_add" : "pair_mul"), a, b);
}

std::string OpenClExpr::float_arithmetic(Prim p, DType t, const std::string& a,
                                         const std::string& b, const std::string& c) {
  std::string type = opencl_type(t);
  auto extreme = [&](const char* less) {
    return fmt::format("isnan({0}) || isnan({1}) ? {0} + {1} : {1} {2} {0} ? {1} : {0}", a, b,
                       less);
  };
  switch (p) {
    case Prim::Add: return fmt::format("{} + {}", a, b);
    case Prim::Sub: return fmt::format("{} - {}", a, b);
    case Prim::Mul: return fmt::format("{} * {}", a, b);
    case Prim::Div: return fmt::format("{} / {}", a, b);
    case Prim::FloorDiv: return fmt::format("{}({}, {})", helper("floor_div", t), a, b);
    case Prim::Mod: return fmt::format("{}({}, {})", helper("mod", t), a, b);
    case Prim::Min: return extreme("<");
    case Prim::Max: return extreme(">");
    case Prim::Fma: return fmt::format("fma({}, {}, {})", a, b, c);
    case Prim::Neg: return "-" + a;
    case Prim::Abs: return fmt::format("fabs({})", a);
    case Prim::Sign: return fmt::format("isnan({0}) ? {0} : ({1})(({0} > 0) - ({0} < 0))", a, type);
    case Prim::Sqr: return fmt::format("{0} * {0}", a);
    case Prim::Sqrt: return fmt::format("sqrt({})", a);
    case Prim::Floor: return fmt::format("floor({})", a);
    case Prim::Ceil: return fmt::format("ceil({})", a);
    case Prim::Trunc: return fmt::format("trunc({})", a);
    case Prim::Round: return fmt::format("rint({})", a);
    default: return function(p, t, a, b);
  }
}

/// A math function; strict kernels take that of double, as do special functions in any kernel.
std::string OpenClExpr::function(Prim p, DType t, const std::string& a, const std::string& b) {
  if (!opencl_has(p, t)) unsupported(p, t);
  const bool special = is_special(p);
  if (spec_.strict && t == DType::F64 && !special)
    fail(Fault::Unsupported, fmt::format("OpenCL: {} on float64 to 1 ULP", name_of(p)));
  const bool in_double = t != DType::F64 && (spec_.strict || special);
  const char* widen = in_double ? "(double)" : "";
  std::string call =
      fmt::format("{}({}{}", helper(name_of(p), in_double ? DType::F64 : t), widen, a);
  if (operand_count(p) == 2) call += fmt::format(", {}{}", widen, b);
  return (in_double ? "(float)" : "") + call + ")";
}

std::string OpenClExpr::bool_arithmetic(Prim p, const std::string& a, const std::string& b) {
  switch (p) {
    case Prim::Add:
    case Prim::Max: return fmt::format("{} | {}", a, b);
    case Prim::Sub: return fmt::format("{} ^ {}", a, b);
    case Prim::Mul:
    case Prim::Min:
    case Prim::Div:
    case Prim::FloorDiv: return fmt::format("{} & {}", a, b);
    case Prim::Mod: return "0";
    case Prim::Pow: return fmt::format("{} | !{}", a, b);
    case Prim::Neg:
    case Prim::Abs:
    case Prim::Sign:
    case Prim::Sqr: return a;
    default: unsupported(p, DType::Bool);
  }
}

std::string OpenClExpr::int_arithmetic(Prim p, DType t, const std::string& a,
                                       const std::string& b) {
  std::string type = opencl_type(t), wide = opencl_wide_type(t);
  bool is_signed = is_signed_int(t);
  auto wrap = [&](char op) {
    return fmt::format("({0})(({1}){2} {4} ({1}){3})", type, wide, a, b, op);
  };
  std::string negated = fmt::format("({})(0 - ({}){})", type, wide, a);
  std::string unlike = fmt::format("{0} % {1} != 0 && ({0} < 0) != ({1} < 0)", a, b);
  auto divide = [&](const std::string& by_minus_one, const std::string& result) {
    return is_signed ? fmt::format("{0} == 0 ? 0 : {0} == -1 ? {1} : {2}", b, by_minus_one, result)
                     : fmt::format("{0} == 0 ? 0 : {1}", b, result);
  };
  switch (p) {
    case Prim::Add: return wrap('+');
    case Prim::Sub: return wrap('-');
    case Prim::Mul: return wrap('*');
    case Prim::Div: return divide(negated, fmt::format("{} / {}", a, b));
    case Prim::FloorDiv:
      return divide(negated, is_signed ? fmt::format("{} / {} - ({})", a, b, unlike)
                                       : fmt::format("{} / {}", a, b));
    case Prim::Mod:
      return divide("0", is_signed ? fmt::format("{0} % {1} + ({2} ? {1} : 0)", a, b, unlike)
                                   : fmt::format("{} % {}", a, b));
    case Prim::Pow: return fmt::format("{}({}, {})", helper("int_pow", t), a, b);
    case Prim::Min: return fmt::format("{1} < {0} ? {1} : {0}", a, b);
    case Prim::Max: return fmt::format("{1} > {0} ? {1} : {0}", a, b);
    case Prim::Neg: return negated;
    case Prim::Abs: return is_signed ? fmt::format("({})abs({})", type, a) : a;
    case Prim::Sign: return fmt::format("({0} > 0) - ({0} < 0)", a);
    case Prim::Sqr: return fmt::format("({0})(({1}){2} * ({1}){2})", type, wide, a);
    default: unsupported(p, t);
  }
}

/// Shifts by the width or more, or by negative amounts, leave nothing but the sign.
std::string OpenClExpr::shift(const Instr& in, const std::string& a, const std::string& b) const {
  DType t = in.dtype;
  bool left = in.prim == Prim::Shl, is_signed = is_signed_int(t);
  std::int64_t bits = t == DType::Bool ? 1 : 8 * size_of(t);
  std::string beyond = fmt::format("(ulong){} >= {}", b, bits);
  if (left)
    return fmt::format("{} ? 0 : ({})(({}){} << {})", beyond, opencl_type(t), opencl_wide_type(t),
                       a, b);
  return fmt::format("{} ? {} : {} >> {}", beyond, is_signed ? fmt::format("-({} < 0)", a) : "0", a,
                     b);
}

/// Floats become integers as on x86: out of range gives the lowest number, then wraps.
std::string OpenClExpr::cast(DType from, DType to, const std::string& a) {
  std::string type = opencl_type(to);
  if (is_pair(to)) return fmt::format("(float2)((float){}, 0)", a);
  if (is_pair(from)) return cast(DType::F32, to, fmt::format("{}({})", helper("pair_value"), a));
  if (to == DType::Bool) return fmt::format("{} != 0", a);
  if (to == DType::F16) return fmt::format("{}((float){})", helper("round_half"), a);
  if (to == DType::BF16) return fmt::format("{}((float){})", helper("round_bfloat"), a);
  if (!is_float(from) || is_float(to)) return fmt::format("({}){}", type, a);
  const char* name = to == DType::U64                       ? "to_ulong"
                     : to == DType::I64 || to == DType::U32 ? "to_long"
                                                            : "to_int";
  return fmt::format("({}){}({})", type, helper(name, from), a);
}

}  // namespace snug
