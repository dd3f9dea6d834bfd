#include "ops/arguments.h"
#include "ops/complex_rules.h"
#include "ops/host_calls.h"
#include "ops/rules.h"

// Identities with a meaning of their own: for the gradient, or for whoever watches the run. No
// rewrite removes them.

namespace snug::ops {
namespace {

/// The value is that of input 0. Its elements are not passed on as sizes: what is made of sizes
/// alone would not run this op.
void same_rule(Infer& f) { f.out(f.in(0)); }

void assert_rule(Infer& f) {
  if (f.count() == 0) f.error(Fault::Type, "needs a value");
  f.attrs.text("message");
  for (std::size_t i = 1; i < f.count(); ++i) {
    if (f.in(i).dtype != DType::Bool) f.error(Fault::Type, "conditions are bools");
    if (f.in(i).ndim() != 0)
      f.error(Fault::Type, fmt::format("condition {} has {} dimensions", i - 1, f.in(i).ndim()),
              "a condition is 0-d: take all() or any() of it");
  }
  same_rule(f);
}

Scalar same(ScalarBuilder& s, const Attrs&) { return s.arg(0); }

void same_reference(const ReferenceArgs& r) {
  r.y[0].f = r.x[0]->f;
  r.y[0].i = r.x[0]->i;
}

void print_reference(const ReferenceArgs& r) {
  same_reference(r);
  const auto& show = r.attrs.host_call("show");
  if (show && show->run && !NoHostCalls::active()) show->run(r.x[0]->to_array());
}

void assert_reference(const ReferenceArgs& r) {
  for (std::size_t i = 1; i < r.x.size(); ++i)
    if (r.x[i]->i[0] == 0) fail(Fault::Assertion, r.attrs.text("message"));
  same_reference(r);
}

/// The gradient passes; conditions and sizes have none.
Exprs pass_grad(const GradArgs& g) {
  Exprs out(g.x.size());
  out[0] = g.dy[0];
  return out;
}

/// Conditions are whole: they have no axis for rows.
BatchRule batch_first(const BatchArgs& a) {
  BatchRule rule;
  if (a.axis[0] == kWhole) return rule;
  rule.kind = BatchRule::Kind::Rows;
  rule.axis = a.axis[0];
  rule.cut.assign(a.in.size(), kWhole);
  rule.cut[0] = a.axis[0];
  return rule;
}

}  // namespace

const OpDef assert_ = {
    .name = "assert",
    .doc = "x; the call fails if one of the conditions is 0, and changes nothing.",
    .arity = -1,
    .traits = kMayFail | kInPlace | kBarrier,
    .infer = assert_rule,
    .grad = pass_grad,
    .reference = assert_reference,
    .batch = batch_first,
};

const OpDef print = {
    .name = "print",
    .doc = "x; shows it to the host program when it runs, once per call or iteration.",
    .traits = kMayFail | kInPlace | kBarrier,
    .infer =
        [](Infer& f) {
          f.attrs.host_call("show");
          same_rule(f);
        },
    .grad = pass_grad,
    .reference = print_reference,
};

const OpDef disconnected_grad = {
    .name = "disconnected_grad",
    .doc = "x, on which no gradient depends.",
    .traits = kElementwise | kBarrier,
    .infer = upcast_rule,
    .grad = [](const GradArgs&) -> Exprs { return {Expr()}; },
    .scalar = same,
    .on_complex = complex_linear,
    .samples = {.differentiable = false, .numpy = "a"},
};

const OpDef grad_clip = {
    .name = "grad_clip",
    .doc = "x; its gradient is clipped to [lower, upper].",
    .traits = kElementwise | kBarrier,
    .infer =
        [](Infer& f) {
          f.attrs.number("lower");
          f.attrs.number("upper");
          upcast_rule(f);
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {snug::clip(g.dy[0], number(g.attrs.number("lower"), g.dy[0]),
                         number(g.attrs.number("upper"), g.dy[0]))};
    },
    .scalar = same,
    .samples = {.differentiable = false, .numpy = "a"},
};

const OpDef grad_scale = {
    .name = "grad_scale",
    .doc = "x; its gradient is multiplied.",
    .traits = kElementwise | kBarrier,
    .infer =
        [](Infer& f) {
          f.attrs.number("multiplier");
          upcast_rule(f);
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {g.dy[0] * number(g.attrs.number("multiplier"), g.dy[0])};
    },
    .scalar = same,
    .on_complex = complex_linear,
    .samples = {.differentiable = false, .numpy = "a"},
};

const OpDef on_device = {
    .name = "on_device",
    .doc = "x on a device, where what reads it is, too.",
    .traits = kElementwise | kBarrier,
    .infer =
        [](Infer& f) {
          f.attrs.text("device");
          upcast_rule(f);
        },
    .grad = [](const GradArgs& g) -> Exprs { return {g.dy[0]}; },
    .scalar = same,
    .on_complex = complex_linear,
    .samples = {.numpy = "a"},
};

const OpDef undefined_grad = {
    .name = "undefined_grad",
    .doc = "x, by which nothing can be differentiated.",
    .traits = kElementwise | kBarrier,
    .infer = upcast_rule,
    .no_grad = "the expression says so",
    .scalar = same,
    .on_complex = complex_linear,
    .samples = {.differentiable = false, .numpy = "a"},
};

}  // namespace snug::ops

namespace snug {
namespace {
thread_local int no_host_calls = 0;
}  // namespace

NoHostCalls::NoHostCalls() { ++no_host_calls; }
NoHostCalls::~NoHostCalls() { --no_host_calls; }
bool NoHostCalls::active() { return no_host_calls > 0; }

Expr disconnected_grad(const Arg& x) {
  Scope scope(x);
  require_expr("disconnected_grad", x.expr);
  return apply(ops::disconnected_grad, {x.expr});
}

Expr undefined_grad(const Arg& x) {
  Scope scope(x);
  require_expr("undefined_grad", x.expr);
  return apply(ops::undefined_grad, {x.expr});
}

Expr grad_clip(const Arg& x, double lower, double upper) {
  Scope scope(x);
  require_expr("grad_clip", x.expr);
  if (!(lower <= upper))
    fail(Fault::Value,
         fmt::format("grad_clip: the bounds {} and {} leave nothing between them", lower, upper));
  return apply(ops::grad_clip, {x.expr}, {{"lower", lower}, {"upper", upper}});
}

Expr grad_scale(const Arg& x, double multiplier) {
  Scope scope(x);
  require_expr("grad_scale", x.expr);
  return apply(ops::grad_scale, {x.expr}, {{"multiplier", multiplier}});
}

Expr on_device(const Arg& x, const std::string& device) {
  Scope scope(x);
  require_expr("on_device", x.expr);
  return apply(ops::on_device, {x.expr}, {{"device", device}});
}

Expr print(const Arg& x, std::string message, std::function<void(const Array&)> show) {
  Scope scope(x);
  require_expr("print", x.expr);
  auto call = std::make_shared<HostCall>();
  call->run = std::move(show);
  return apply(ops::print, {x.expr},
               {{"message", std::move(message)}, {"show", std::shared_ptr<const HostCall>(call)}});
}

Expr assert_(const Arg& x, const std::vector<Expr>& conditions, std::string message) {
  Scope scope(x);
  require_expr("assert", x.expr);
  std::vector<Expr> inputs{x.expr};
  for (const Expr& c : conditions) {
    require_expr("assert", c);
    inputs.push_back(c.dtype() == DType::Bool ? c : ne(c, 0));
  }
  if (message.empty()) message = "the condition does not hold";
  return apply(ops::assert_, std::move(inputs), {{"message", std::move(message)}});
}

}  // namespace snug
