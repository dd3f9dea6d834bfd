// Walking over expressions, and making new ones of them.
#include <unordered_set>

#include "arguments.h"
#include "expr/rebuild.h"
#include "node_object.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

/// What the roots depend on, in the order of a search that goes down the first input first and
/// starts at the last root. Does not look below blockers.
std::vector<Expr> depth_first(const std::vector<Expr>& roots, const std::vector<Expr>& blockers) {
  std::unordered_set<Variable*> stop, seen;
  for (const Expr& b : blockers) stop.insert(b.get());
  std::vector<Expr> stack = roots, order;
  while (!stack.empty()) {
    Expr e = std::move(stack.back());
    stack.pop_back();
    if (!seen.insert(e.get()).second) continue;
    if (e->owner && !stop.count(e.get()))
      for (std::size_t i = e->owner->inputs.size(); i-- > 0;) stack.push_back(e->owner->inputs[i]);
    order.push_back(std::move(e));
  }
  return order;
}

std::vector<std::pair<Expr, Expr>> pairs_of(handle replacements) {
  std::vector<std::pair<Expr, Expr>> pairs;
  for (handle p : nb::iter(replacements)) {
    nb::object pair = nb::borrow(p);
    pairs.emplace_back(unwrap(nb::object(pair[0]), "clone"),
                       as_tensor(nb::object(pair[1]), "clone"));
  }
  return pairs;
}

}  // namespace

void bind_graphs(nb::module_& m) {
  m.def(
      "depth_first",
      [](handle roots, handle blockers, bool leaves) {
        std::vector<Expr> all =
            depth_first(unwrap_all(roots, "ancestors"), unwrap_all(blockers, "ancestors"));
        if (leaves) std::erase_if(all, [](const Expr& e) { return static_cast<bool>(e->owner); });
        // From below: an object that is made looks at what is below it and has none.
        std::vector<nb::object> objects(all.size());
        for (std::size_t i = all.size(); i-- > 0;) objects[i] = wrap(all[i]);
        nb::list out;
        for (const nb::object& o : objects) out.append(o);
        return out;
      },
      arg("roots"), arg("blockers"), arg("leaves"),
      "What the roots depend on, down the first input first; only variables without an owner if "
      "leaves.");
  m.def(
      "copy_graph",
      [](handle roots, handle replacements, bool copy_leaves) {
        UserLine line;
        return wrap_all(
            copy_graph(unwrap_all(roots, "clone"), pairs_of(replacements), copy_leaves));
      },
      arg("roots"), arg("replacements"), arg("copy_leaves"),
      "The roots made again, with some variables replaced.");
  m.def(
      "apply_again",
      [](handle apply, handle inputs) {
        if (!PyObject_TypeCheck(apply.ptr(), apply_type))
          fail(Fault::Type, fmt::format("apply_again: expected an Apply, got {}",
                                        Py_TYPE(apply.ptr())->tp_name));
        Apply* a = apply_of(apply);
        OriginOverride origin(a->origin);
        return wrap_all(apply_all(*a->op, tensors_of(inputs, "apply_again"), a->attrs));
      },
      arg("apply"), arg("inputs"), "The outputs of the same op on other inputs.");
  m.def(
      "copy_leaf", [](handle v) { return tensor_of(copy_leaf(unwrap(v, "clone"))); },
      arg("variable"), "An input, constant or shared variable like this one.");
}

}  // namespace snug::python
