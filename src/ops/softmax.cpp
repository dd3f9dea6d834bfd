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

}  // namespace

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
