#include "nn/losses.h"

#include <fmt/format.h>

#include "ops/arguments.h"
#include "ops/rows.h"

namespace snug::nn {
namespace {

Expr reduced(const char* what, const Expr& loss, const std::string& reduction) {
  if (reduction == "mean") return mean(loss);
  if (reduction == "sum") return sum(loss);
  if (reduction == "none") return loss;
  fail(Fault::Value, fmt::format("{}: unknown reduction '{}'", what, reduction),
       "reductions are mean, sum, none");
}

void require_both(const char* what, const Arg& a, const Arg& b) {
  require_expr(what, a.expr);
  require_expr(what, b.expr);
}

/// The sizes of the first axes.
std::vector<Expr> leading_sizes(const Expr& x, int count) {
  std::vector<Expr> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(shape_i(x, i));
  return sizes;
}

/// Targets (or weights) of the sizes that the predictions `p` need: those of its first axes. Errors
/// name `what` instead of the op that meets both first.
Expr with_sizes_of(const char* what, const Expr& p, const Expr& y, const char* these = "targets") {
  std::vector<Expr> wanted;
  for (int i = 0; i < y.ndim(); ++i) {
    const bool stretches = ((p.type().broadcast | y.type().broadcast) >> i & 1) != 0;
    wanted.push_back(shape_i(stretches ? y : p, i));
  }
  if (wanted.empty()) return y;
  return apply(ops::broadcast_to, {y, make_vector(wanted)},
               {{"broadcast", std::int64_t{y.type().broadcast}},
                {"for", std::string(these)},
                {"who", std::string(what)}});
}

/// Targets in the dtype of the predictions and with as many dimensions.
Expr targets_like(const char* what, const Expr& p, const Expr& y) {
  if (p.ndim() != y.ndim())
    fail(Fault::Type,
         fmt::format("{}: the predictions have {} dimensions, the targets {}", what, p.ndim(),
                     y.ndim()),
         p.ndim() == y.ndim() + 1 ? "flatten the predictions, or give the targets the missing axis"
                                  : "");
  return cast(with_sizes_of(what, p, y), p.dtype());
}

Expr difference(const char* what, const Arg& predictions, const Arg& targets) {
  require_both(what, predictions, targets);
  Expr p = in_float(what, predictions);
  return p - targets_like(what, p, targets.expr);
}

/// Class scores as a matrix (examples, classes) and targets to match.
struct Classes {
  Expr scores;   // classes last; a matrix if the targets are numbers
  Expr targets;  // vector of integers, or distributions in the shape of the scores
  bool numbers = false;
};

Classes classes_of(const char* what, const Arg& given, const Arg& targets, std::int64_t axis) {
  require_both(what, given, targets);
  Expr p = in_float(what, given), y = targets.expr;
  if (p.ndim() == 0) fail(Fault::Type, fmt::format("{}: the predictions are a number", what));
  axis = normal_axis(what, axis, p.ndim());
  const bool numbers = is_int(y.dtype()) && y.ndim() == p.ndim() - 1;
  if (!numbers && y.ndim() != p.ndim())
    fail(Fault::Type,
         fmt::format("{}: predictions are {}, targets {}", what, snug::describe(p.type()),
                     snug::describe(y.type())),
         "targets are class numbers (integers, one dimension less) or distributions (as many "
         "dimensions)");
  p = moveaxis(p, {axis}, {-1});
  if (!numbers)
    return {p, cast(with_sizes_of(what, p, moveaxis(y, {axis}, {-1})), p.dtype()), false};
  y = checked_labels(what, with_sizes_of(what, p, y), shape_i(p, -1));
  if (p.ndim() == 1) return {dimshuffle(p, {-1, 0}), dimshuffle(y, {-1}), true};
  if (p.ndim() > 2) {
    p = snug::reshape(p, {int64_constant(-1), shape_i(p, -1)});
    y = snug::flatten(y);
  }
  return {p, y, true};
}

/// Whether the largest score of each example is the target.
Expr hits(const char* what, const Arg& predictions, const Arg& targets, std::int64_t axis) {
  Classes c = classes_of(what, predictions, targets, axis);
  return eq(argmax(c.scores, -1), c.numbers ? c.targets : argmax(c.targets, -1));
}

/// `hits`: one per example, in the order of the axes of the predictions without the class axis.
Expr part_of(const char* what, const Expr& hits, const Arg& predictions, std::int64_t axis,
             const std::string& reduction) {
  Expr each = cast(hits, default_float());
  if (reduction == "none" && each.ndim() != predictions.expr.ndim() - 1) {
    std::vector<Expr> sizes;
    const int ndim = predictions.expr.ndim();
    for (int k = 0; k < ndim; ++k)
      if (k != normal_axis(what, axis, ndim)) sizes.push_back(shape_i(predictions, k));
    each = snug::reshape(each, sizes);
  }
  return reduced(what, each, reduction);
}

}  // namespace

Expr cross_entropy(const Arg& logits, const Arg& targets, const std::string& reduction,
                   std::int64_t axis) {
  Scope scope(logits);
  Classes c = classes_of("cross_entropy", logits, targets, axis);
  if (!c.numbers)
    return reduced("cross_entropy", -sum(c.targets * log_softmax(c.scores), -1), reduction);
  Expr loss = neg(subtensor(log_softmax(c.scores), {arange(shape_i(c.scores, 0)), c.targets}));
  if (reduction == "none") loss = snug::reshape(loss, shape(targets));
  return reduced("cross_entropy", loss, reduction);
}

Expr binary_cross_entropy(const Arg& logits, const Arg& targets, const std::string& reduction) {
  Scope scope(logits);
  require_both("binary_cross_entropy", logits, targets);
  Expr x = in_float("binary_cross_entropy", logits);
  Expr y = targets_like("binary_cross_entropy", x, targets.expr);
  return reduced("binary_cross_entropy", sigmoid_binary_crossentropy(x, y), reduction);
}

Expr mse(const Arg& predictions, const Arg& targets, const std::string& reduction) {
  Scope scope(predictions);
  return reduced("mse", sqr(difference("mse", predictions, targets)), reduction);
}

Expr mae(const Arg& predictions, const Arg& targets, const std::string& reduction) {
  Scope scope(predictions);
  return reduced("mae", abs(difference("mae", predictions, targets)), reduction);
}

Expr huber(const Arg& predictions, const Arg& targets, double delta, const std::string& reduction) {
  Scope scope(predictions);
  if (!(delta > 0))
    fail(Fault::Value, fmt::format("huber: delta is {}, it must be positive", delta));
  Expr d = abs(difference("huber", predictions, targets));
  Expr half = typed_number(0.5, d.dtype()), bound = typed_number(delta, d.dtype());
  return reduced("huber", switch_(le(d, bound), half * sqr(d), bound * (d - half * bound)),
                 reduction);
}

Expr hinge(const Arg& predictions, const Arg& targets, const std::string& reduction) {
  Scope scope(predictions);
  require_both("hinge", predictions, targets);
  Expr p = in_float("hinge", predictions);
  Expr y = targets_like("hinge", p, targets.expr);
  return reduced("hinge", snug::relu(typed_number(1, p.dtype()) - p * y), reduction);
}

Expr accuracy(const Arg& predictions, const Arg& targets, std::int64_t axis,
              const std::string& reduction) {
  Scope scope(predictions);
  return part_of("accuracy", hits("accuracy", predictions, targets, axis), predictions, axis,
                 reduction);
}

Expr mean_error(const Arg& predictions, const Arg& targets, std::int64_t axis,
                const std::string& reduction) {
  Scope scope(predictions);
  Expr hit = hits("mean_error", predictions, targets, axis);
  return part_of("mean_error", eq(hit, typed_number(0, hit.dtype())), predictions, axis, reduction);
}

Expr top_k_accuracy(const Arg& predictions, const Arg& targets, std::int64_t k, std::int64_t axis,
                    const std::string& reduction) {
  Scope scope(predictions);
  if (k < 1) fail(Fault::Value, fmt::format("top_k_accuracy: k is {}, it must be positive", k));
  Classes c = classes_of("top_k_accuracy", predictions, targets, axis);
  Expr target = c.numbers ? c.targets : argmax(c.targets, -1);
  Expr of_target = take_along_axis(c.scores, expand_dims(target, -1), -1);
  Expr above = sum(cast(gt(c.scores, addbroadcast(of_target, {-1})), DType::I64), -1);
  return part_of("top_k_accuracy", lt(above, int64_constant(k)), predictions, axis, reduction);
}

WeightedSum weighted_sum(const char* what, const Arg& values, const Arg& weights) {
  Scope scope(values);
  require_both(what, values, weights);
  Expr each = values.expr, w = weights.expr;
  if (each.ndim() == 0)
    fail(Fault::Type,
         fmt::format("{} is one number per batch, which weights of rows cannot reach", what),
         "let it give one number per row");
  // (rows, 1) is as good as (rows).
  while (w.ndim() > each.ndim() && w.type().shape[static_cast<std::size_t>(w.ndim() - 1)] == 1)
    w = snug::reshape(w, leading_sizes(w, w.ndim() - 1));
  if (w.ndim() > each.ndim() || w.ndim() == 0 || is_complex(w.dtype()))
    fail(Fault::Type,
         fmt::format("{}: the weights are {}, for values of {} dimensions", what,
                     snug::describe(w.type()), each.ndim()),
         "give one weight per row, or one per label");
  if (w.ndim() < each.ndim()) {
    std::vector<std::int64_t> others;
    for (int k = w.ndim(); k < each.ndim(); ++k) others.push_back(k);
    each = mean(each, others);
  }
  w = with_sizes_of(what, each, w, "weights");
  return {sum(each * cast(w, each.dtype())), sum(cast(w, DType::F64))};
}

}  // namespace snug::nn
