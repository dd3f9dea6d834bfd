#include "autodiff/grad.h"

#include <cstdio>
#include <unordered_map>
#include <unordered_set>

#include "autodiff/stable_forms.h"
#include "base/origin_marks.h"
#include "base/spelling.h"
#include "expr/op_def.h"
#include "ops/functions.h"
#include "ops/rows.h"

namespace snug {
namespace {

/// Whether the values (and not only the sizes) of input i decide the output.
bool carries_value(const Apply& a, std::size_t i) {
  return a.op != &ops::shape && a.op != &ops::disconnected_grad &&
         i < data_inputs(*a.op, a.inputs.size());
}

/// A contribution in the type of its variable. An integer variable keeps the float.
Expr conformed(const Expr& g, const Expr& x) {
  Expr out = is_continuous(x.dtype()) ? cast(g, x.dtype()) : g;
  return rebroadcast(out, x.type().broadcast);
}

/// The origin of what a node passes back: "relu backward".
OriginId origin_of_gradient(const Apply& a) {
  constexpr std::string_view kBackward = " backward";
  std::string word(word_of(a.origin));
  if (word.find(kBackward) != word.npos) return as_derivative(a.origin);  // of a gradient
  if (word.empty()) word = a.op->name;
  return as_derivative(with_word(a.origin, word.append(kBackward)));
}

using Seeds = std::vector<std::pair<Expr, Expr>>;  // a variable and its gradient

/// One reverse sweep from `seeds` to `wrt`. Gradients arrive at `constants`, and end there. What
/// else arrives at a seed is added to it; what arrives at a variable of `known` is not.
class Sweep {
 public:
  Sweep(const Seeds& seeds, const Seeds& known, const std::vector<Expr>& wrt,
        const std::vector<Expr>& constants, bool allow_undefined = false)
      : allow_undefined_(allow_undefined) {
    std::vector<Expr> roots;
    auto start = [&](const Expr& x, const Expr& g) {
      roots.push_back(x);
      reached_.insert(x.get());
      auto [it, fresh] = totals_.try_emplace(x.get(), g);
      if (!fresh) it->second = it->second + g;
    };
    for (const auto& [x, g] : known) {
      start(x, g);
      known_.insert(x.get());
    }
    for (const auto& [x, g] : seeds)
      if (!known_.count(x.get())) start(x, g);
    for (const Expr& w : wrt) wrt_.insert(w.get());
    for (const Expr& c : constants) constants_.insert(c.get());
    order_ = topological(roots, constants);
    find_dependent();
    run();
  }

  /// Null if nothing arrived.
  Expr total(const Expr& x) const {
    auto it = totals_.find(x.get());
    return it == totals_.end() ? Expr() : it->second;
  }
  /// Why the gradient of x does not exist; null if it does.
  const std::string* undefined(const Expr& x) const {
    auto it = undefined_.find(x.get());
    return it == undefined_.end() ? nullptr : &it->second;
  }
  /// Whether a seed depends on the values of x, be its gradient 0 or not.
  bool reached(const Expr& x) const { return reached_.count(x.get()) != 0; }

 private:
  void find_dependent() {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Variable* v = order_[i].get();
      if (v->owner && !constants_.count(v)) first_.try_emplace(v->owner.get(), i);
      bool dependent = wrt_.count(v) != 0;
      if (v->owner && !constants_.count(v))
        for (std::size_t k = 0; k < v->owner->inputs.size() && !dependent; ++k)
          dependent = carries_value(*v->owner, k) && dependent_.count(v->owner->inputs[k].get());
      if (dependent) dependent_.insert(v);
    }
  }

  void run() {
    for (std::size_t i = order_.size(); i-- > 0;) {
      Variable* v = order_[i].get();
      if (!v->owner || constants_.count(v)) continue;
      Apply& a = *v->owner;
      if (reached_.count(v))
        for (std::size_t k = 0; k < a.inputs.size(); ++k)
          if (carries_value(a, k)) reached_.insert(a.inputs[k].get());
      // All users of all outputs come later than the first of them.
      if (first_.at(&a) == i) back(a);
    }
  }

  bool takes_gradient(const Apply& a, std::size_t k) const {
    Variable* x = a.inputs[k].get();
    return carries_value(a, k) && dependent_.count(x) != 0 &&
           (is_continuous(x->type.dtype) || wrt_.count(x) != 0);
  }

  void back(Apply& a) {
    std::vector<bool> wanted(a.inputs.size());
    bool any_wanted = false;
    for (std::size_t k = 0; k < a.inputs.size(); ++k) {
      wanted[k] = takes_gradient(a, k);
      any_wanted = any_wanted || wanted[k];
    }
    if (!any_wanted) return;
    std::vector<Expr> y, dy;
    bool any = false;
    for (std::size_t k = 0; k < a.types.size(); ++k) {
      y.push_back(a.output(k));
      dy.push_back(is_continuous(a.types[k].dtype) ? total(y.back()) : Expr());
      any = any || dy.back();
      if (const std::string* reason = undefined(y.back()))
        return make_undefined(a, wanted, std::string(*reason));
    }
    if (!any) return;
    OriginOverride origin(origin_of_gradient(a));
    if (!a.op->grad) {
      std::string reason = fmt::format("{} has no gradient: {}", a.op->name,
                                       a.op->no_grad.empty() ? "it has no rule" : a.op->no_grad);
      if (!allow_undefined_)
        fail(Fault::Undefined, "grad: " + reason, "stop_gradient keeps gradients away from it");
      return make_undefined(a, wanted, reason);
    }
    GradArgs args{.attrs = a.attrs, .x = a.inputs, .y = y, .dy = dy, .wanted = wanted};
    args.inner_grad = [](const std::vector<Expr>& results, const std::vector<Expr>& dresults,
                         const std::vector<Expr>& wrt) {
      Seeds seeds;
      for (std::size_t i = 0; i < results.size(); ++i)
        if (dresults[i]) seeds.push_back({results[i], dresults[i]});
      Sweep inner(seeds, {}, wrt, {});
      std::vector<Expr> out;
      for (const Expr& w : wrt) out.push_back(inner.total(w));
      return out;
    };
    std::vector<Expr> dx = a.op->grad(args);
    SNUG_CHECK(dx.size() == a.inputs.size(), "{}: {} gradients for {} inputs", a.op->name,
               dx.size(), a.inputs.size());
    for (std::size_t k = 0; k < dx.size(); ++k)
      if (wanted[k] && dx[k]) accumulate(a.inputs[k], dx[k], a);
  }

  void make_undefined(const Apply& a, const std::vector<bool>& wanted, const std::string& reason) {
    for (std::size_t k = 0; k < a.inputs.size(); ++k)
      if (wanted[k] && !known_.count(a.inputs[k].get()))
        undefined_.try_emplace(a.inputs[k].get(), reason);
  }

  void accumulate(const Expr& x, const Expr& g, const Apply& from) {
    if (known_.count(x.get())) return;
    SNUG_CHECK(g.ndim() == x.ndim(), "{}: the gradient has {} dimensions, its variable {}",
               from.op->name, g.ndim(), x.ndim());
    Expr part = conformed(g, x);
    auto [it, fresh] = totals_.try_emplace(x.get(), part);
    if (!fresh) it->second = it->second + part;
  }

  std::vector<Expr> order_;  // inputs before users
  std::unordered_set<Variable*> wrt_, constants_, known_;
  std::unordered_set<Variable*> dependent_;        // their values depend on wrt
  std::unordered_set<Variable*> reached_;          // a seed depends on their values
  std::unordered_map<Apply*, std::size_t> first_;  // place in order_ of its first output
  std::unordered_map<Variable*, Expr> totals_;
  std::unordered_map<Variable*, std::string> undefined_;  // and why; whatever else arrives
  bool allow_undefined_;                                  // else an error
};

void check_cost(const Expr& cost) {
  if (cost.ndim() != 0)
    fail(Fault::Type,
         fmt::format("grad: the cost must be 0-d, {} is {}", label(cost), describe(cost.type())),
         "take the mean or the sum of it");
  if (is_complex(cost.dtype()))
    fail(Fault::Type,
         fmt::format("grad: the cost must be real, {} is {}", label(cost), name_of(cost.dtype())),
         "take its real part or its absolute value");
}

}  // namespace

std::vector<Expr> gradients(const Expr& cost, const std::vector<Expr>& wrt,
                            const GradOptions& options) {
  for (const Expr& w : wrt)
    if (!w) fail(Fault::Type, "grad: a variable to differentiate by is an empty expression");
  for (const Expr& c : options.consider_constant)
    if (!c) fail(Fault::Type, "grad: one of consider_constant is an empty expression");
  Seeds seeds;
  if (cost) {
    check_cost(cost);
    std::vector<Expr> kept = wrt;
    kept.insert(kept.end(), options.consider_constant.begin(), options.consider_constant.end());
    for (const auto& [x, g] : options.known_grads) kept.push_back(x);
    const Expr one = is_float(cost.dtype()) ? ones_like(cost) : ones_like(cost, default_float());
    seeds.push_back({stable_forms({cost}, kept)[0], one});
  } else if (options.known_grads.empty()) {
    fail(Fault::Type, "grad: there is neither a cost nor known gradients");
  }
  for (const auto& [x, g] : options.known_grads)
    if (!x || !g || x.ndim() != g.ndim())
      fail(Fault::Type,
           fmt::format("grad: {} has {} dimensions, its known gradient {}",
                       x ? label(x) : "(nothing)", x ? x.ndim() : 0, g ? g.ndim() : 0));

  Seeds known;
  for (const auto& [x, g] : options.known_grads)
    (options.add_known ? seeds : known).push_back({x, conformed(g, x)});
  Sweep sweep(seeds, known, wrt, options.consider_constant, options.undefined != nullptr);
  if (options.undefined) options.undefined->assign(wrt.size(), {});
  std::vector<Expr> out;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const Expr& w = wrt[i];
    if (const std::string* reason = sweep.undefined(w)) {
      (*options.undefined)[i] = *reason;
      out.emplace_back();
      continue;
    }
    Expr g = sweep.total(w);
    if (!g && sweep.reached(w)) {
      // It reaches the cost, but only where nothing is continuous.
      g = zeros_like(w, is_continuous(w.dtype()) ? w.dtype() : default_float());
    } else if (!g) {
      std::string message = fmt::format("grad: the cost does not depend on {}", label(w));
      if (options.disconnected_inputs == Disconnected::Raise)
        fail(Fault::Disconnected, message,
             fmt::format("leave it out, or pass {} to get zeros",
                         choice("disconnected_inputs", "Disconnected", "Ignore")));
      if (options.disconnected_inputs == Disconnected::Warn)
        fmt::print(stderr, "warning: {}\n", message);
      if (options.zero_if_disconnected)
        g = zeros_like(w, is_continuous(w.dtype()) ? w.dtype() : default_float());
    }
    out.push_back(g);
  }
  return out;
}

}  // namespace snug
