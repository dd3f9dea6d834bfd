#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/batch_rules.h"
#include "ops/rules.h"

/// Rows of their own for the sake of numerics; a late rewrite expands what no library takes.
namespace snug::ops {
namespace {

void softmax_rule(Infer& f) {
  require_float(f, 0);
  if (f.in(0).ndim() == 0) f.error(Fault::Type, "needs a value of at least one dimension");
  Type out = f.in(0);
  f.out(out);
}

template <bool Log>
void softmax_reference(const ReferenceArgs& r) {
  const RefTensor& x = *r.x[0];
  const std::int64_t n = x.shape.back();
  for (std::int64_t row = 0; n > 0 && row < x.size() / n; ++row) {
    const double* in = &x.f[row * n];
    double* out = &r.y[0].f[row * n];
    double top = *std::max_element(in, in + n), total = 0;
    for (std::int64_t k = 0; k < n; ++k) total += std::exp(in[k] - top);
    for (std::int64_t k = 0; k < n; ++k)
      out[k] = Log ? in[k] - top - std::log(total) : std::exp(in[k] - top) / total;
  }
}

bool normalised(const Attrs& attrs, std::int64_t axis) {
  const Attrs::Ints& axes = attrs.ints("axes");
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

void standardize_rule(Infer& f) {
  const Type x = f.in(0);
  for (std::size_t i : {0, 1, 2}) require_float(f, i);
  for (std::size_t i : {1, 2}) {
    require_same_dtype(f, 0, i);
    const Type& s = f.in(i);
    if (s.ndim() != x.ndim())
      f.error(Fault::Type, fmt::format("statistics of {} dimensions for {}", s.ndim(), x.ndim()));
    for (std::size_t k = 0; k < x.dims.size(); ++k)
      f.require_equal(s.dims[k],
                      normalised(f.attrs, static_cast<std::int64_t>(k)) ? f.sizes.one() : x.dims[k],
                      fmt::format("standardize: the statistics do not fit axis {}", k));
  }
  f.out(x);
}

/// Element k of a statistic for element i of x.
void standardize_reference(const ReferenceArgs& r) {
  const RefTensor &x = *r.x[0], &mean = *r.x[1], &inverse = *r.x[2];
  for (std::int64_t i = 0; i < x.size(); ++i) {
    std::int64_t rest = i, k = 0, stride = 1;
    for (std::size_t axis = x.shape.size(); axis-- > 0; rest /= x.shape[axis]) {
      if (normalised(r.attrs, static_cast<std::int64_t>(axis))) continue;
      k += rest % x.shape[axis] * stride;
      stride *= x.shape[axis];
    }
    r.y[0].f[i] = (x.f[i] - mean.f[k]) * inverse.f[k];
  }
}

/// All of the gradient goes to x: what goes through the mean and the deviation is in it.
Exprs standardize_grad(const GradArgs& g) {
  const Attrs::Ints& axes = g.attrs.ints("axes");
  const Expr &dy = g.dy[0], &y = g.y[0];
  return {g.x[2] * (dy - snug::mean(dy, axes, true) - y * snug::mean(dy * y, axes, true)), Expr(),
          Expr()};
}

BatchRule batch_standardize(const BatchArgs& a) {
  return a.axis[0] != kWhole && normalised(a.attrs, a.axis[0]) ? BatchRule{} : batch_same(a);
}

}  // namespace

const OpDef standardize = {
    .name = "standardize",
    .doc = "(x - mean) * inverse, of the mean and the inverse deviation of x itself over `axes`.",
    .arity = 3,
    .infer = standardize_rule,
    .grad = standardize_grad,
    .reference = standardize_reference,
    .batch = batch_standardize,
    .samples = {.integers = false, .numpy = "(a - b) * c"},
};

const OpDef softmax = {
    .name = "softmax",
    .doc = "exp(x) divided by its sum over the last axis.",
    .infer = softmax_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Expr t = g.dy[0] * g.y[0];
      return {t - g.y[0] * snug::sum(t, -1, true)};
    },
    .reference = softmax_reference<false>,
    .batch = batch_but_last,
    .samples = {.integers = false, .numpy = "np.exp(a) / np.exp(a).sum(-1, keepdims=True)"},
};

const OpDef log_softmax = {
    .name = "log_softmax",
    .doc = "The logarithm of softmax, without overflow.",
    .infer = softmax_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {g.dy[0] - snug::exp(g.y[0]) * snug::sum(g.dy[0], -1, true)};
    },
    .reference = softmax_reference<true>,
    .batch = batch_but_last,
    .samples = {.integers = false, .numpy = "a - np.log(np.exp(a).sum(-1, keepdims=True))"},
};

}  // namespace snug::ops
