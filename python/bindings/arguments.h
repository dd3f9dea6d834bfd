#pragma once
#include "bindings.h"
#include "ops/functions.h"

/// Python values as arguments of the functions of ops/functions.h. `what` is named by errors.
namespace snug::python {

/// The doc of the op row of this name; empty if there is none.
std::string doc_of(std::string_view name);
/// None, an integer, a list of them, or a constant expression.
Axes axes_of(nb::handle h);
std::optional<DType> dtype_or_none(nb::handle h);
/// A list of sizes, each a number or an expression, or one expression for all of them.
Sizes sizes_of(nb::handle h, std::string_view what);
std::vector<Expr> tensors_of(nb::handle h, std::string_view what);
std::vector<std::int64_t> ints_of(nb::handle h);

void bind_shapes(nb::module_& m);  // called by bind_ops

}  // namespace snug::python
