#include "arguments.h"

namespace snug::python {

using nb::handle;

std::string doc_of(std::string_view name) {
  for (const OpDef* op : all_ops())
    if (op->name == name) return std::string(op->doc);
  return {};
}

Axes axes_of(handle h) {
  if (h.is_none()) return {};
  std::vector<std::int64_t> list;
  if (nb::isinstance<nb::list>(h) || nb::isinstance<nb::tuple>(h)) {
    for (handle a : nb::iter(h)) list.push_back(integer_of(a, "axis"));
    return Axes(list);
  }
  if (is_variable(h)) {
    Expr e = unwrap(h, "axis");
    const Array* value = constant_value(e);
    if (!value) fail(Fault::Type, "axis: must be known while building, got an expression");
    for (std::int64_t i = 0; i < value->size(); ++i) list.push_back(value->at_int(i));
    return Axes(list);
  }
  return Axes(integer_of(h, "axis"));
}

std::optional<DType> dtype_or_none(handle h) {
  if (h.is_none()) return {};
  return as_dtype(h);
}

Sizes sizes_of(handle h, std::string_view what) {
  if (nb::isinstance<nb::list>(h) || nb::isinstance<nb::tuple>(h)) {
    std::vector<Expr> sizes;
    for (handle s : nb::iter(h)) sizes.push_back(as_tensor(s, what));
    return Sizes(sizes);
  }
  Expr e = as_tensor(h, what);
  if (e.ndim() == 0) return Sizes(std::vector<Expr>{e});
  return Sizes(e);
}

std::vector<Expr> tensors_of(handle h, std::string_view what) {
  std::vector<Expr> out;
  for (handle item : nb::iter(h)) out.push_back(as_tensor(item, what));
  return out;
}

std::vector<std::int64_t> ints_of(handle h) {
  std::vector<std::int64_t> out;
  for (handle item : nb::iter(h)) out.push_back(integer_of(item, "axis"));
  return out;
}

}  // namespace snug::python
