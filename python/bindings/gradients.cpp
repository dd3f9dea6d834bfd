// Gradients and products with Jacobians.
#include "arguments.h"
#include "autodiff/derivatives.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

GradOptions options_of(handle consider_constant, bool raise, bool zero, const char* what) {
  GradOptions options;
  for (handle h : nb::iter(consider_constant)) options.consider_constant.push_back(unwrap(h, what));
  options.disconnected_inputs = raise ? Disconnected::Raise : Disconnected::Ignore;
  options.zero_if_disconnected = zero;
  return options;
}

/// Gradients as objects: None where there is none, and the reason where it does not exist.
nb::list with_reasons(const std::vector<Expr>& all, const std::vector<std::string>& undefined) {
  nb::list out;
  for (std::size_t i = 0; i < all.size(); ++i)
    out.append(undefined[i].empty() ? wrap(all[i]) : nb::object(nb::str(undefined[i].c_str())));
  return out;
}

}  // namespace

void bind_gradients(nb::module_& m) {
  m.def(
      "gradients",
      [](handle cost, handle wrt, handle consider_constant, handle known_grads, bool raise,
         bool zero, bool allow_undefined) {
        UserLine line;
        GradOptions options = options_of(consider_constant, raise, zero, "grad");
        for (handle p : nb::iter(known_grads)) {
          nb::object pair = nb::borrow(p);
          options.known_grads.emplace_back(unwrap(nb::object(pair[0]), "grad"),
                                           as_tensor(nb::object(pair[1]), "grad"));
        }
        std::vector<Expr> x = unwrap_all(wrt, "grad");
        std::vector<std::string> undefined(x.size());
        if (allow_undefined) options.undefined = &undefined;
        Expr y = cost.is_none() ? Expr() : unwrap(cost, "grad");
        return with_reasons(gradients(y, x, options), undefined);
      },
      arg("cost").none(), arg("wrt"), arg("consider_constant"), arg("known_grads"), arg("raise_"),
      arg("zero"), arg("allow_undefined"),
      "The gradients of a cost; the reason as a text for one that does not exist.");
  m.def(
      "Lop",
      [](handle f, handle wrt, handle eval_points, handle consider_constant, bool raise) {
        UserLine line;
        return wrap_all(Lop(unwrap_all(f, "Lop"), unwrap_all(wrt, "Lop"),
                            tensors_of(eval_points, "Lop"),
                            options_of(consider_constant, raise, true, "Lop")));
      },
      arg("f"), arg("wrt"), arg("eval_points"), arg("consider_constant"), arg("raise_"));
  m.def(
      "Rop",
      [](handle f, handle wrt, handle eval_points, bool raise, bool zero) {
        UserLine line;
        return wrap_all(Rop(unwrap_all(f, "Rop"), unwrap_all(wrt, "Rop"),
                            tensors_of(eval_points, "Rop"),
                            options_of(nb::make_tuple(), raise, zero, "Rop")));
      },
      arg("f"), arg("wrt"), arg("eval_points"), arg("raise_"), arg("zero"));
  using Whole = std::vector<Expr> (*)(const Arg&, const std::vector<Expr>&, const GradOptions&);
  constexpr std::pair<const char*, Whole> kWholes[] = {{"jacobian", jacobian},
                                                       {"hessian", hessian}};
  for (auto [name, f] : kWholes)
    m.def(
        name,
        [name, f](handle expression, handle wrt, handle consider_constant, bool raise) {
          UserLine line;
          return wrap_all(f(unwrap(expression, name), unwrap_all(wrt, name),
                            options_of(consider_constant, raise, true, name)));
        },
        arg("expression"), arg("wrt"), arg("consider_constant"), arg("raise_"));
  m.def(
      "hessian_vector_product",
      [](handle cost, handle wrt, handle p, handle consider_constant, bool raise) {
        UserLine line;
        const char* what = "hessian_vector_product";
        return wrap_all(hessian_vector_product(unwrap(cost, what), unwrap_all(wrt, what),
                                               tensors_of(p, what),
                                               options_of(consider_constant, raise, true, what)));
      },
      arg("cost"), arg("wrt"), arg("p"), arg("consider_constant"), arg("raise_"));
}

}  // namespace snug::python
