#include <algorithm>
#include <cmath>

#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

bool discrete(const Match& m) { return is_discrete(m.dtype()); }
bool floating(const Match& m) { return is_float(m.dtype()); }
bool has_sign(const Match& m) { return is_float(m.dtype()) || is_signed_int(m.dtype()); }
bool bool_condition(const Match& m) { return m.type("c").dtype == DType::Bool; }

/// True if the value is never below 0 and never -0: where sqrt and pow agree.
bool never_negative(const Match& m) {
  std::string_view op = m.graph.node(m["x"]).op->name;
  constexpr std::string_view kOps[] = {"exp", "exp2", "sqr", "abs", "sigmoid", "softplus"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

constexpr Rule kRules[] = {
    {"x * 1 -> x"},
    {"x / 1 -> x"},
    {"x - 0 -> x"},
    {"x + -0 -> x"},
    {"x + 0 -> x", discrete, "for floats -0 + 0 is 0"},
    {"floor_div(x, 1) -> x", discrete},
    {"-(-x) -> x"},
    {"x * -1 -> -x"},
    {"x / -1 -> -x"},
    {"x + -y -> x - y"},
    {"x - -y -> x + y"},
    {"-x * -y -> x * y"},
    {"-x / -y -> x / y"},
    {"x * x -> sqr(x)"},
    {"sqr(-x) -> sqr(x)"},
    {"sqr(abs(x)) -> sqr(x)"},
    {"abs(-x) -> abs(x)", has_sign, "unsigned integers wrap"},
    {"abs(abs(x)) -> abs(x)"},
    {"abs(sqr(x)) -> sqr(x)", floating, "integers wrap"},
    {"pow(x, 1) -> x"},
    {"pow(x, 2) -> sqr(x)"},
    {"pow(x, 3) -> x * sqr(x)"},
    {"pow(x, -1) -> 1 / x", floating},
    {"pow(x, 0.5) -> sqrt(x)", never_negative, "pow(-inf, 0.5) is inf, sqrt(-inf) is nan"},
    {"minimum(x, x) -> x"},
    {"maximum(x, x) -> x"},
    {"bit_and(x, x) -> x"},
    {"bit_or(x, x) -> x"},
    {"invert(invert(x)) -> x"},
    {"invert(eq(x, y)) -> ne(x, y)", nullptr, "true for NaN too; not so for lt and ge"},
    {"invert(ne(x, y)) -> eq(x, y)"},
    {"switch(1, x, y) -> x"},
    {"switch(0, x, y) -> y"},
    {"switch(c, x, x) -> x"},
    {"switch(invert(c), x, y) -> switch(c, y, x)", bool_condition},
    {"floor(floor(x)) -> floor(x)"},
    {"ceil(ceil(x)) -> ceil(x)"},
    {"trunc(trunc(x)) -> trunc(x)"},
    {"round(round(x)) -> round(x)"},
    {"sign(sign(x)) -> sign(x)"},
    {"sum(-x) -> -sum(x)", discrete, "for floats the sign of a sum that is 0 would change"},
};

/// The reciprocal of a power of two is exact, so is the product; a division takes several times as
/// long.
std::optional<Value> divide_by_power_of_two(Builder& b, Value root) {
  const Type type = b.type(root);
  if (!is_float(type.dtype)) return std::nullopt;
  const Array* c = scalar_of(b, operand(b, root, 1));
  if (!c) return std::nullopt;
  double value = is_float(c->dtype) ? c->at_double(0) : static_cast<double>(c->at_int(0));
  int exponent = 0;
  if (!std::isfinite(value) || std::fabs(std::frexp(value, &exponent)) != 0.5) return std::nullopt;
  int limit = type.dtype == DType::F16 ? 13 : type.dtype == DType::F64 ? 1000 : 125;
  if (std::abs(exponent) > limit) return std::nullopt;
  return call(b, "mul", {operand(b, root, 0), number(b, 1 / value, type.dtype, type.ndim())});
}

/// Bits of the integers that a dtype holds exactly, without the sign.
int exact_bits(DType t) {
  switch (t) {
    case DType::Bool: return 1;
    case DType::F16: return 11;
    case DType::BF16: return 8;
    case DType::F32: return 24;
    case DType::F64: return 53;
    default: return static_cast<int>(8 * size_of(t)) - (is_signed_int(t) ? 1 : 0);
  }
}

/// True if every value of `from` is a value of `to`.
bool holds_all(DType to, DType from) {
  if (to == from) return true;
  if (is_float(from)) return is_float(to) && size_of(to) > size_of(from);
  if (is_float(to)) return exact_bits(to) >= exact_bits(from);
  if (to == DType::Bool) return false;
  if (is_signed_int(from) && !is_signed_int(to)) return false;
  return exact_bits(to) >= exact_bits(from);
}

std::optional<Value> join_casts(Builder& b, Value root) {
  Value middle = operand(b, root, 0);
  if (!is(b, middle, "cast")) return std::nullopt;
  Value x = operand(b, middle, 0);
  DType from = b.type(x).dtype, through = b.type(middle).dtype, to = b.type(root).dtype;
  if (!holds_all(through, from)) return std::nullopt;
  // What is outside the range of an integer type converts differently from a float.
  if (is_float(through) && is_int(to) && !is_float(from) && !holds_all(to, from))
    return std::nullopt;
  return cast(b, x, to);
}

/// Also right for floats: a sum has no order of its own.
std::optional<Value> join_reductions(Builder& b, Value root) {
  const Node outer = b.node(root);
  Value between = outer.inputs[0];
  const Node inner = b.node(between);
  if (inner.op != outer.op) return std::nullopt;
  if (outer.attrs.has("acc")) {
    DType acc = outer.attrs.dtype("acc");
    if (inner.attrs.dtype("acc") != acc) return std::nullopt;
    // Rounding in between would be lost, never gained: only wrapping has to stay.
    if (is_discrete(acc) && inner.types[0].dtype != acc) return std::nullopt;
  }
  int ndim = b.type(inner.inputs[0]).ndim();
  const Attrs::Ints& first = inner.attrs.ints("axes");
  const Attrs::Ints& second = outer.attrs.ints("axes");
  Attrs::Ints axes = first;
  std::int64_t kept = 0;
  for (std::int64_t axis = 0; axis < ndim; ++axis) {
    if (std::find(first.begin(), first.end(), axis) != first.end()) continue;
    if (std::find(second.begin(), second.end(), kept++) != second.end()) axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end());
  Attrs attrs = outer.attrs;
  attrs.set("axes", axes);
  return b.add(*outer.op, {inner.inputs[0]}, attrs);
}

constexpr CodeRule kCode[] = {
    {"x / c -> x * (1 / c), c a power of two", "div", divide_by_power_of_two, "exact and faster"},
    {"cast(cast(x)) -> cast(x)", "cast", join_casts, "if the type between holds every value of x"},
    {"sum(sum(x)) -> sum(x)", "sum prod max min any all", join_reductions,
     "one loop over all axes"},
};

}  // namespace

const RuleTable& simplify_rules() {
  static const RuleTable table(kRules, kCode);
  return table;
}

std::optional<Graph> simplify(const Graph& graph, RuleCounts& counts) {
  return apply_rules(graph, simplify_rules(), counts);
}

}  // namespace snug
