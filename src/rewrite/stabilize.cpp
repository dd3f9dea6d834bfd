#include <algorithm>

#include "rewrite/passes.h"
#include "rewrite/values.h"

namespace snug {
namespace {

// Where y stands in a denominator that the other factor cancels, the old form gives NaN or 0 once y
// underflows; the new one is its limit.
constexpr Rule kRules[] = {
    {"log(softmax(x)) -> log_softmax(x)", nullptr, "finite where a probability underflows"},
    {"log(gather(softmax(x), i..)) -> gather(log_softmax(x), i..)", nullptr,
     "the cross-entropy of a softmax"},
    {"(d / softmax(x)) * softmax(x) -> d", nullptr, "the gradient of log(softmax(x))"},
    {"-(d / softmax(x)) * softmax(x) -> -d", nullptr, "the same"},

    {"log(1 + exp(x)) -> softplus(x)", nullptr, "exp overflows"},
    {"log1p(exp(x)) -> softplus(x)", nullptr, "exp overflows"},
    {"log(sigmoid(x)) -> -softplus(-x)", nullptr, "finite where sigmoid underflows"},
    {"log1p(-sigmoid(x)) -> -softplus(x)", nullptr, "finite where sigmoid rounds to 1"},
    {"log(exp(x)) -> x", nullptr, "exp overflows"},
    {"log(1 + x) -> log1p(x)", nullptr, "accurate for small x"},
    {"log(1 - x) -> log1p(-x)", nullptr, "accurate for small x"},
    {"exp(x) - 1 -> expm1(x)", nullptr, "accurate for small x"},
    {"1 - exp(x) -> -expm1(x)", nullptr, "accurate for small x"},

    {"1 / (1 + exp(-x)) -> sigmoid(x)", nullptr, "exp overflows"},
    {"1 / (1 + exp(x)) -> sigmoid(-x)", nullptr, "exp overflows"},
    {"exp(x) / (1 + exp(x)) -> sigmoid(x)", nullptr, "exp overflows"},
    {"y / (1 + exp(-x)) -> y * sigmoid(x)", nullptr, "exp overflows"},
    {"y / (1 + exp(x)) -> y * sigmoid(-x)", nullptr,
     "exp overflows; the gradient of log(1 + exp(x))"},
    {"(d * sigmoid(-x)) * exp(x) -> d * sigmoid(x)", nullptr, "exp overflows"},
    {"(d * sigmoid(x)) * exp(-x) -> d * sigmoid(-x)", nullptr, "exp overflows"},
    {"sigmoid(-x) * exp(x) -> sigmoid(x)", nullptr, "exp overflows"},
    {"sigmoid(x) * exp(-x) -> sigmoid(-x)", nullptr, "exp overflows"},

    {"1 - sigmoid(x) -> sigmoid(-x)", nullptr, "accurate where sigmoid rounds to 1"},
    {"(d / sigmoid(x)) * sigmoid(x) -> d", nullptr, "the gradient of log(sigmoid(x))"},
    {"-(d / sigmoid(x)) * sigmoid(x) -> -d", nullptr, "the same"},
    {"((d / sigmoid(-x)) * sigmoid(x)) * sigmoid(-x) -> d * sigmoid(x)", nullptr,
     "the gradient of log(1 - sigmoid(x))"},
    {"(-(d / sigmoid(-x)) * sigmoid(x)) * sigmoid(-x) -> -(d * sigmoid(x))", nullptr, "the same"},
    {"((a / sigmoid(x) - b / sigmoid(-x)) * sigmoid(x)) * sigmoid(-x)"
     " -> a * sigmoid(-x) - b * sigmoid(x)",
     nullptr, "the gradient of the binary cross-entropy"},
    {"((a / sigmoid(x) + -(b / sigmoid(-x))) * sigmoid(x)) * sigmoid(-x)"
     " -> a * sigmoid(-x) - b * sigmoid(x)",
     nullptr, "the same"},
};

/// Steps from `v` over views and the switch that keeps infinities out, to a `max`.
bool shifted_by_max(const Builder& b, Value v) {
  for (int step = 0; step < 8; ++step) {
    const Node& node = b.node(v);
    if (node.op->name == "max") return true;
    if (node.op->name == "switch")
      v = node.inputs[2];
    else if (has(*node.op, kView))
      v = node.inputs[0];
    else
      return false;
  }
  return false;
}

/// exp(x - m) and its sum, m the largest element. m is 0 where that is infinite, so that all -inf
/// gives a sum of 0 and any inf one of inf.
struct Shifted {
  Value shift, exponential, sum;
};
Shifted shifted_exp(Builder& b, Value x, const Node& sum) {
  const Attrs::Ints axes = sum.attrs.ints("axes");
  DType dtype = b.type(x).dtype;
  Value top = reduce(b, "max", ReduceOp::Max, x, axes, dtype);
  Value zero = number(b, 0, dtype, b.type(top).ndim());
  Value shift = call(b, "switch", {call(b, "isinf", {top}), zero, top});
  Value z = call(b, "sub", {x, keep_axes(b, shift, axes, b.type(x).ndim())});
  Value e = call(b, "exp", {z});
  return {shift, e, b.add(*sum.op, {e}, sum.attrs)};
}

/// If `v` is sum(exp(x)) of one dtype: x.
std::optional<Value> any_sum_of_exp(const Builder& b, Value v) {
  if (!is(b, v, "sum")) return std::nullopt;
  Value e = operand(b, v, 0);
  if (!is(b, e, "exp")) return std::nullopt;
  Value x = operand(b, e, 0);
  return b.type(x).dtype == b.type(v).dtype ? std::optional(x) : std::nullopt;
}

/// The same if x is not yet shifted.
std::optional<Value> sum_of_exp(const Builder& b, Value v) {
  std::optional<Value> x = any_sum_of_exp(b, v);
  return x && is(b, *x, "sub") && shifted_by_max(b, operand(b, *x, 1)) ? std::nullopt : x;
}

/// The x of x - max(x) over the last axis; else `z` itself.
Value without_shift(Builder& b, Value z) {
  if (!is(b, z, "sub")) return z;
  const Value x = operand(b, z, 0);
  const int ndim = b.type(x).ndim();
  const Attrs::Ints last{ndim - 1};
  if (ndim == 0 || b.type(z).ndim() != ndim) return z;
  Value top = reduce(b, "max", ReduceOp::Max, x, last, b.type(x).dtype);
  return operand(b, z, 1) == keep_axes(b, top, last, ndim) ? x : z;
}

/// Leaves the views above `v`; gives them, outermost first.
std::vector<Value> strip_views(const Builder& b, Value& v) {
  std::vector<Value> views;
  while (has(*b.node(v).op, kIndexView)) {
    views.push_back(v);
    v = operand(b, v, 0);
  }
  return views;
}

/// The same views of another value.
Value view_as(Builder& b, const std::vector<Value>& views, Value v) {
  for (std::size_t k = views.size(); k-- > 0;) {
    const Node view = b.node(views[k]);
    std::vector<Value> inputs = view.inputs;
    inputs[0] = v;
    v = b.add(*view.op, std::move(inputs), view.attrs);
  }
  return v;
}

std::optional<Value> log_sum_exp(Builder& b, Value root) {
  Value s = operand(b, root, 0);
  const std::vector<Value> views = strip_views(b, s);  // axes that were kept
  std::optional<Value> x = sum_of_exp(b, s);
  if (!x) return std::nullopt;
  Shifted t = shifted_exp(b, *x, Node(b.node(s)));
  return view_as(b, views, call(b, "add", {call(b, "log", {t.sum}), t.shift}));
}

/// The shifted form if `e` is exp(x) and `s` sum(exp(x)).
std::optional<Shifted> normalised(Builder& b, Value e, Value s) {
  std::optional<Value> x = sum_of_exp(b, s);
  if (!x || !(operand(b, s, 0) == e)) return std::nullopt;
  return shifted_exp(b, *x, Node(b.node(s)));
}

/// Over the last axis, which is what softmax does, with a shift as softmax has it or without.
std::optional<Value> softmax_by_hand(Builder& b, Value root) {
  Value e = operand(b, root, 0), s = operand(b, root, 1);
  strip_views(b, s);
  std::optional<Value> x = any_sum_of_exp(b, s);
  if (!x || !(operand(b, s, 0) == e)) return std::nullopt;
  const Attrs::Ints& axes = b.node(s).attrs.ints("axes");
  int ndim = b.type(*x).ndim();
  if (axes != Attrs::Ints{ndim - 1}) return std::nullopt;
  if (!(operand(b, root, 1) == keep_axes(b, s, Attrs::Ints{ndim - 1}, ndim))) return std::nullopt;
  return call(b, "softmax", {without_shift(b, *x)});
}

std::optional<Value> divide_by_sum_exp(Builder& b, Value root) {
  Value e = operand(b, root, 0), s = operand(b, root, 1);
  std::vector<Value> views = strip_views(b, s);
  std::optional<Shifted> t = normalised(b, e, s);
  if (!t) return std::nullopt;
  return call(b, "div", {t->exponential, view_as(b, views, t->sum)});
}

std::optional<Value> multiply_by_exp(Builder& b, Value root) {
  for (std::size_t side : {0, 1}) {
    Value e = operand(b, root, side), q = operand(b, root, 1 - side);
    std::vector<Value> outer = strip_views(b, q);
    if (!is(b, q, "div")) continue;
    Value d = operand(b, q, 0), s = operand(b, q, 1);
    std::vector<Value> inner = strip_views(b, s);
    std::optional<Shifted> t = normalised(b, e, s);
    if (!t) continue;
    Value quotient = call(b, "div", {d, view_as(b, inner, t->sum)});
    return call(b, "mul", {view_as(b, outer, quotient), t->exponential});
  }
  return std::nullopt;
}

/// t = scatter_add(0, d / p[i..], i..) * p for p = softmax(x), which stands in the gradient of
/// log(p[i..]): where p underflows, d / p is infinite and t is NaN, its limit is d. No formula, as
/// d may have to be stretched to the shape of p[i..].
std::optional<Value> scattered_quotient(Builder& b, Value root) {
  for (std::size_t side : {0, 1}) {
    Value p = operand(b, root, 1 - side);
    const Node scatter = b.node(operand(b, root, side));
    if (!is(b, p, "softmax") || scatter.op->name != "scatter_add") continue;
    if (!is_number(b, scatter.inputs[0], 0)) continue;
    Value quotient = scatter.inputs[1];
    bool negative = is(b, quotient, "neg");
    if (negative) quotient = operand(b, quotient, 0);
    if (!is(b, quotient, "div")) continue;
    Value d = operand(b, quotient, 0), picked = operand(b, quotient, 1);
    const Node gather = b.node(picked);
    if (gather.op->name != "gather" || !(gather.inputs[0] == p) ||
        !std::equal(gather.inputs.begin() + 1, gather.inputs.end(), scatter.inputs.begin() + 2,
                    scatter.inputs.end()))
      continue;
    if (b.type(d).dtype != b.type(root).dtype) continue;
    if (negative) d = call(b, "neg", {d});
    if (!(b.type(d).dims == b.type(picked).dims)) {
      std::optional<Value> stretched = stretch(b, d, Type(b.type(picked)));
      if (!stretched) continue;
      d = *stretched;
    }
    std::vector<Value> inputs = scatter.inputs;
    inputs[1] = d;
    return b.add(*scatter.op, std::move(inputs), scatter.attrs);
  }
  return std::nullopt;
}

/// A softmax over another axis than the last is one behind views.
std::optional<Value> log_of_views(Builder& b, Value root) {
  Value p = operand(b, root, 0);
  const std::vector<Value> views = strip_views(b, p);
  if (views.empty() || !is(b, p, "softmax")) return std::nullopt;
  return view_as(b, views, call(b, "log_softmax", {operand(b, p, 0)}));
}

constexpr CodeRule kCode[] = {
    {"log(softmax(x)') -> log_softmax(x)', ' a view", "log", log_of_views,
     "finite where a probability underflows"},
    {"scatter_add(0, d / softmax(x)[i..], i..) * softmax(x) -> scatter_add(0, d, i..)", "mul",
     scattered_quotient, "the gradient of the cross-entropy of a softmax"},
    {"log(sum(exp(x))) -> log(sum(exp(x - m))) + m, m = max(x)", "log", log_sum_exp,
     "exp overflows; m is 0 where the maximum is infinite"},
    {"exp(x) / sum(exp(x)) -> softmax(x)", "div", softmax_by_hand, "over the last axis"},
    {"exp(x) / sum(exp(x)) -> exp(x - m) / sum(exp(x - m))", "div", divide_by_sum_exp,
     "exp overflows"},
    {"(d / sum(exp(x))) * exp(x) -> (d / sum(exp(x - m))) * exp(x - m)", "mul", multiply_by_exp,
     "the gradient of logsumexp"},
};

}  // namespace

const RuleTable& stabilize_rules() {
  static const RuleTable table(kRules, kCode);
  return table;
}

std::optional<Graph> stabilize(const Graph& graph, RuleCounts& counts) {
  return apply_rules(graph, stabilize_rules(), counts);
}

}  // namespace snug
