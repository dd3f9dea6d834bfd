#include "base/label_error.h"
#include "ops/batch_rules.h"
#include "ops/complex_rules.h"

namespace snug::ops {
namespace {

/// Checks index arrays from input `first` on: int64, of one shape, at most as many as x has axes.
/// Gives the type of x[i0, i1, ...].
Type picked_type(Infer& f, std::size_t first) {
  if (f.count() <= first) f.error(Fault::Type, "needs at least one index array");
  const Type& x = f.in(0);
  const std::size_t count = f.count() - first;
  if (count > x.dims.size())
    f.error(Fault::Index,
            fmt::format("index: {} indices for a value of {} dimensions", count, x.ndim()));
  Type out = f.in(first);
  for (std::size_t i = first; i < f.count(); ++i) {
    const Type& index = f.in(i);
    if (index.dtype != DType::I64)
      f.error(Fault::Type, fmt::format("indices are int64, not {}", name_of(index.dtype)));
    if (index.ndim() != out.ndim())
      f.error(Fault::Type, "index: index arrays differ in their number of dimensions");
    for (std::size_t k = 0; k < out.dims.size(); ++k) {
      const std::size_t before = f.requirements.size();
      f.require_equal(out.dims[k], index.dims[k],
                      fmt::format("index: index arrays differ on axis {}", k));
      if (f.requirements.size() > before) f.requirements.back().shapes = {out.dims, index.dims};
      if (!f.sizes.known(out.dims[k])) out.dims[k] = index.dims[k];
      if (!index.broadcastable(k)) out.broadcast &= static_cast<std::uint8_t>(~(1u << k));
    }
  }
  out.dtype = x.dtype;
  if (out.dims.size() + x.dims.size() - count > 8)
    f.error(Fault::Type, "index: the result would have more than 8 dimensions");
  for (std::size_t k = count; k < x.dims.size(); ++k) {
    if (x.broadcastable(k)) out.broadcast |= static_cast<std::uint8_t>(1u << out.dims.size());
    out.dims.push_back(x.dims[k]);
  }
  return out;
}

void put_rule(Infer& f) {
  require_part(f, picked_type(f, 2));
  f.out(f.in(0));
}

/// `dpart`, the gradient of what was put into places of x, where the value stayed: of a place that
/// is given several times, only the last one. The indices start at input 2.
Expr where_last(const GradArgs& g, const Expr& dpart) {
  const Exprs indices(g.x.begin() + 2, g.x.end());
  const int width = indices[0].ndim();
  for (const Expr& i : indices)  // the places of a mask are different ones
    if (width == 1 && i->owner && i->owner->op == &ops::nonzero) return dpart;
  Expr count = snug::constant(Array::scalar<std::int64_t>(1));
  for (int k = 0; k < width; ++k) count = count * snug::shape_i(indices[0], k);
  const Expr number = reshape_like(snug::arange(count), indices[0]);
  Exprs sizes;
  for (std::size_t k = 0; k < indices.size(); ++k)
    sizes.push_back(snug::shape_i(g.x[0], static_cast<std::int64_t>(k)));
  const Expr none = snug::constant(Array::scalar<std::int64_t>(-1));
  const Expr last = apply_as(g, ops::scatter_set, {snug::broadcast_to(none, sizes), number}, 2);
  Expr stayed = snug::eq(apply_as(g, ops::gather, {last}, 2), number);
  std::vector<std::int64_t> pattern;
  for (int k = 0; k < dpart.ndim(); ++k) pattern.push_back(k < width ? k : -1);
  return snug::switch_(snug::dimshuffle(stayed, pattern), dpart, ops::number(0, dpart));
}

/// Calls `visit(place in x, place in the result)`.
template <class F>
void visit_picked(const ReferenceArgs& r, std::size_t first, F&& visit) {
  const Dims& x = r.x[0]->shape;
  const std::size_t count = r.x.size() - first;
  std::int64_t inner = 1;
  for (std::size_t k = count; k < x.size(); ++k) inner *= x[k];
  for (std::int64_t k = 0, n = r.x[first]->size(); k < n; ++k) {
    std::int64_t row = 0;
    for (std::size_t j = 0; j < count; ++j) row = row * x[j] + r.x[first + j]->i[k];
    for (std::int64_t e = 0; e < inner; ++e) visit(row * inner + e, k * inner + e);
  }
}

template <bool Increase>
void put_reference(const ReferenceArgs& r) {
  put_part(r, Increase, [&](auto&& put) { visit_picked(r, 2, put); });
}

}  // namespace

const OpDef check_index = {
    .name = "check_index",
    .doc =
        "Indices into an axis of a given size: negative ones count from the end, or are an error "
        "(attr \"for\", the function that refuses them); an error if one is outside. With attr "
        "\"labels\" they are class numbers, which errors name with their rows.",
    .arity = 2,
    .traits = kMayFail,
    .size_inputs_from = 1,
    .infer =
        [](Infer& f) {
          require_discrete(f, 0);
          f.require_ndim(1, 0);
          f.size_element(1);
          Type out = f.in(0);
          out.dtype = DType::I64;
          f.out(out);
        },
    .no_grad = "its arguments are integers",
    .reference =
        [](const ReferenceArgs& r) {
          const std::int64_t n = r.x[1]->i[0];
          for (std::int64_t k = 0; k < r.x[0]->size(); ++k) {
            std::int64_t i = r.x[0]->i[k];
            const bool strict = r.attrs.has("for");
            const std::string what = strict ? r.attrs.text("for") + ": " : "";
            if (r.attrs.has("labels") && (i < 0 || i >= n))
              fail_label(r.attrs.text("for"), i, r.x[0]->shape, k, n);
            if (strict && i < 0) fail(Fault::Value, fmt::format("{}{} is negative", what, i));
            if (i < -n || i >= n)
              fail(Fault::Index,
                   fmt::format("{}index {} is outside an axis of size {}", what, i, n));
            r.y[0].i[k] = i < 0 ? i + n : i;
          }
        },
    .batch = batch_check_index,
};

const OpDef gather = {
    .name = "gather",
    .doc = "x[i0, i1, ...]: index arrays of one shape, checked before, over the first axes of x.",
    .arity = -1,
    .infer = [](Infer& f) { f.out(picked_type(f, 1)); },
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(g.x.size());
      out[0] =
          apply_as(g, ops::scatter_add, {snug::zeros_like(g.x[0], g.dy[0].dtype()), g.dy[0]}, 1);
      return out;
    },
    .reference =
        [](const ReferenceArgs& r) {
          visit_picked(r, 1,
                       [&](std::int64_t at, std::int64_t k) { r.y[0].set(k, r.x[0]->at(at)); });
        },
    .batch = batch_gather,
    .on_complex = complex_linear,
};

const OpDef scatter_add = {
    .name = "scatter_add",
    .doc = "x with y added at x[i0, i1, ...]; repeated indices add up.",
    .arity = -1,
    .traits = kInPlace,
    .infer = put_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(g.x.size());
      out[0] = g.dy[0];
      if (g.wanted[1]) out[1] = apply_as(g, ops::gather, {g.dy[0]}, 2);
      return out;
    },
    .reference = put_reference<true>,
    .batch = batch_scatter,
    .on_complex = complex_linear,
};

const OpDef scatter_set = {
    .name = "scatter_set",
    .doc = "x with x[i0, i1, ...] replaced by y; of repeated indices the last one counts.",
    .arity = -1,
    .traits = kInPlace,
    .infer = put_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(g.x.size());
      const Expr& dy = g.dy[0];
      if (g.wanted[0])
        out[0] = apply_as(g, ops::scatter_set, {dy, snug::zeros_like(g.x[1], dy.dtype())}, 2);
      if (g.wanted[1]) out[1] = where_last(g, apply_as(g, ops::gather, {dy}, 2));
      return out;
    },
    .reference = put_reference<false>,
    .batch = batch_scatter,
    .on_complex = complex_linear,
};

const OpDef nonzero = {
    .name = "nonzero",
    .doc = "The places of the elements of x that are not 0, in C order: one int64 vector per axis.",
    .outputs = -1,
    .infer =
        [](Infer& f) {
          const Type& x = f.in(0);
          if (x.ndim() == 0) f.error(Fault::Type, "needs a value of at least one dimension");
          SizeId count = f.runtime_size(f.sizes.product(x.dims));
          for (std::size_t k = 0; k < x.dims.size(); ++k) f.out(Type{DType::I64, {count}});
        },
    .no_grad = "it gives places, which are not continuous",
    .reference =
        [](const ReferenceArgs& r) {
          const RefTensor& x = *r.x[0];
          for (RefTensor& y : r.y) y.i.clear();
          Counter c(x.shape);
          for (std::int64_t k = 0, n = x.size(); k < n; ++k, c.next()) {
            Number v = x.at(k);
            if (x.floating() ? v.f == 0 : v.i == 0) continue;
            for (std::size_t axis = 0; axis < r.y.size(); ++axis) r.y[axis].i.push_back(c.at[axis]);
          }
          for (RefTensor& y : r.y) y.shape[0] = static_cast<std::int64_t>(y.i.size());
        },
};

}  // namespace snug::ops
