#include <algorithm>

#include "base/spelling.h"
#include "expr/shape_text.h"
#include "ops/batch_rules.h"
#include "ops/complex_rules.h"

namespace snug::ops {
namespace {

Dims known_dims(const SizeTable& sizes, std::span<const SizeId> dims) {
  Dims d;
  for (SizeId id : dims) d.push_back(sizes.known(id).value_or(kUnknownSize));
  return d;
}

// ---- dimshuffle ----

void dimshuffle_rule(Infer& f) {
  const Type& x = f.in(0);
  if (f.attrs.ints("pattern").size() > 8)
    f.error(Fault::Type, "the result would have more than 8 dimensions");
  Type out;
  out.dtype = x.dtype;
  std::vector<bool> used(x.dims.size(), false);
  for (std::int64_t axis : f.attrs.ints("pattern")) {
    bool stretches = axis < 0;
    if (axis >= x.ndim())
      f.error(Fault::Value,
              fmt::format("there is no axis {} in a value of {} dimensions", axis, x.ndim()));
    if (axis >= 0) {
      std::size_t a = static_cast<std::size_t>(axis);
      if (used[a]) f.error(Fault::Value, fmt::format("axis {} is used twice", axis));
      used[a] = true;
      stretches = x.broadcastable(a);
    }
    if (stretches) out.broadcast |= static_cast<std::uint8_t>(1u << out.dims.size());
    out.dims.push_back(axis < 0 ? f.sizes.one() : x.dims[static_cast<std::size_t>(axis)]);
  }
  for (std::size_t a = 0; a < used.size(); ++a)
    if (!used[a] && !x.broadcastable(a))
      f.error(Fault::Type, fmt::format("axis {} is dropped but is not broadcastable", a),
              fmt::format("an axis of size 1 can be dropped after addbroadcast(x, {}), or index it",
                          a));
  std::vector<SizeId> elements;
  if (out.ndim() <= 1) elements.assign(f.elements(0).begin(), f.elements(0).end());
  f.out(out, std::move(elements));
}

Exprs dimshuffle_grad(const GradArgs& g) {
  const auto& pattern = g.attrs.ints("pattern");
  std::vector<std::int64_t> inverse(static_cast<std::size_t>(g.x[0].ndim()), -1);
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] >= 0)
      inverse[static_cast<std::size_t>(pattern[i])] = static_cast<std::int64_t>(i);
  return {snug::dimshuffle(g.dy[0], inverse)};
}

int dimshuffle_axis(const AxisArgs& a, std::size_t axis) {
  return std::max<int>(static_cast<int>(a.attrs.ints("pattern")[axis]), kRepeated);
}

void dimshuffle_reference(const ReferenceArgs& r) {
  const auto& pattern = r.attrs.ints("pattern");
  const RefTensor& x = *r.x[0];
  Counter c(r.y[0].shape);
  for (std::int64_t k = 0, n = r.y[0].size(); k < n; ++k, c.next()) {
    Dims at(x.shape.size(), 0);
    for (std::size_t i = 0; i < pattern.size(); ++i)
      if (pattern[i] >= 0) at[static_cast<std::size_t>(pattern[i])] = c.at[i];
    r.y[0].set(k, x.at(flat(x.shape, at)));
  }
}

// ---- broadcast_to ----

/// Axis `k` of the result has the size of the argument. Attr "for": what the user asked for; "who"
/// names the loss that has targets or weights.
void require_stretch(Infer& f, SizeId size, const SizeDims& wanted, std::size_t k) {
  const std::string asked = f.attrs.has("for") ? f.attrs.text("for") : "";
  const std::string message =
      asked == "mask"            ? "index: a mask of shape {0} does not fit axes of shape {1}"
      : asked == "specify_shape" ? "specify_shape: the shape is {0}, not {1}"
      : asked == "cross"         ? "cross: the vectors have the shape {0}, not {1}"
      : asked == "split"         ? "split: the last part has shape {0}, but {1} is asked for"
      : asked == "repeat"        ? "repeat: repeats has shape {0}, the axis has {1}"
      : asked == "targets"       ? f.attrs.text("who") +
                                 ": the targets (labels) have shape {0}, the predictions "
                                 "need {1}"
      : asked == "weights" ? f.attrs.text("who") + ": the weights have shape {0}, not {1}"
                           : "{0} does not stretch to {1}";
  const std::string hint =
      asked.empty()
          ? fmt::format("sizes differ on axis {}, which stretches only if its type says so", k)
      : asked == "targets" ? "give as many targets as there are predictions: one per row"
                           : "";
  auto have = f.sizes.known(size), want = f.sizes.known(wanted[k]);
  if (have && want && *have != *want) {
    const std::vector<Dims> shapes{known_dims(f.sizes, f.in(0).dims), known_dims(f.sizes, wanted)};
    f.error(Fault::Shape, with_shapes(message, shapes), hint);
  }
  const std::size_t before = f.requirements.size();
  f.require_equal(size, wanted[k], message, hint);
  if (f.requirements.size() > before) f.requirements.back().shapes = {f.in(0).dims, wanted};
}

void broadcast_to_rule(Infer& f) {
  const Type& x = f.in(0);
  Type out = type_from_shape(f, 1, x.dtype);
  if (out.ndim() < x.ndim())
    f.error(Fault::Shape,
            fmt::format("a value of {} dimensions does not stretch to {}", x.ndim(), out.ndim()));
  std::size_t lead = out.dims.size() - x.dims.size();
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (x.broadcastable(i)) continue;
    std::size_t k = lead + i;
    require_stretch(f, x.dims[i], out.dims, k);
    if (!f.attrs.has("broadcast")) out.broadcast &= static_cast<std::uint8_t>(~(1u << k));
    if (!f.sizes.known(out.dims[k])) out.dims[k] = x.dims[i];
  }
  std::vector<SizeId> elements;
  if (out.ndim() <= 1 && !f.elements(0).empty()) {
    auto n = out.ndim() == 0 ? 1 : f.sizes.known(out.dims[0]).value_or(-1);
    if (n >= 0 && n <= 64 && f.elements(0).size() == 1)
      elements.assign(static_cast<std::size_t>(n), f.elements(0)[0]);
    else if (static_cast<std::int64_t>(f.elements(0).size()) == n)
      elements.assign(f.elements(0).begin(), f.elements(0).end());
  }
  f.out(out, std::move(elements));
}

Exprs broadcast_to_grad(const GradArgs& g) {
  const Expr &x = g.x[0], &dy = g.dy[0];
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 0; i < dy.ndim() - x.ndim(); ++i) axes.push_back(i);
  Expr dx = axes.empty() ? dy : snug::sum(dy, axes);
  return {unbroadcast(dx, x), Expr()};
}

int broadcast_to_axis(const AxisArgs& a, std::size_t axis) {
  std::size_t lead = a.out.dims.size() - a.in.dims.size();
  bool repeated = axis < lead || a.in.broadcastable(axis - lead);
  return repeated ? kRepeated : static_cast<int>(axis - lead);
}

void broadcast_to_reference(const ReferenceArgs& r) {
  const RefTensor& x = *r.x[0];
  std::size_t lead = r.y[0].shape.size() - x.shape.size();
  Counter c(r.y[0].shape);
  for (std::int64_t k = 0, n = r.y[0].size(); k < n; ++k, c.next()) {
    Dims at;
    for (std::size_t i = 0; i < x.shape.size(); ++i)
      at.push_back(x.shape[i] == 1 ? 0 : c.at[lead + i]);
    r.y[0].set(k, x.at(flat(x.shape, at)));
  }
}

// ---- reshape ----

/// Drops the factors that both products have, so that (n, 3, 4) -> (n, -1) gives 12 and not
/// n*12 // n, and (n*t, 4) -> (n, -1, 4) gives t.
void cancel(std::vector<SizeId>& a, std::vector<SizeId>& b) {
  for (std::size_t i = 0; i < a.size();) {
    auto it = std::find(b.begin(), b.end(), a[i]);
    if (it == b.end()) {
      ++i;
      continue;
    }
    b.erase(it);
    a.erase(a.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void reshape_rule(Infer& f) {
  SizeTable& t = f.sizes;
  const Type& x = f.in(0);
  f.require_ndim(1, 1);
  require_discrete(f, 1);
  const std::size_t ndim = static_cast<std::size_t>(f.attrs.integer("ndim"));
  if (ndim > 8) f.error(Fault::Type, "the result would have more than 8 dimensions");
  f.require_equal(f.in(1).dims[0], t.constant(static_cast<std::int64_t>(ndim)),
                  "the shape vector has another length than ndim");
  Type out;
  out.dtype = x.dtype;
  std::optional<std::size_t> open;
  std::vector<SizeId> factors;
  for (std::size_t k = 0; k < ndim; ++k) {
    SizeId d = f.size_element(1, k);
    if (t.is(d, -1)) {
      if (open) f.error(Fault::Shape, "only one size can be -1");
      open = k;
    } else {
      require_nonnegative(f, d, fmt::format("the size of axis {}", k));
      factors.push_back(d);
    }
    out.dims.push_back(d);
  }
  const SizeId total = t.product(x.dims);
  std::vector<SizeId> left, right;
  for (SizeId d : x.dims)
    for (SizeId f : t.factors(d)) left.push_back(f);
  for (SizeId d : factors)
    for (SizeId f : t.factors(d)) right.push_back(f);
  cancel(left, right);
  SizeDims asked = out.dims;
  if (open) asked[*open] = t.constant(-1);
  auto require_elements = [&](SizeId a, SizeId b, const std::string& message) {
    if (a == b) return;
    if (t.known(a) && t.known(b) && *t.known(a) != *t.known(b))
      f.error(Fault::Shape, with_shapes(message, {known_dims(t, x.dims), known_dims(t, out.dims)}));
    const std::size_t before = f.requirements.size();
    f.require_equal(a, b, message);
    if (f.requirements.size() > before) f.requirements.back().shapes = {x.dims, asked};
  };
  if (open) {
    SizeId rest = t.product(left), divisor = t.product(right);
    out.dims[*open] = t.floor_div(rest, divisor);
    if (!t.is(divisor, 1))
      require_elements(t.mul(out.dims[*open], divisor), rest,
                       "the elements of {0} do not divide into {1}");
  } else {
    SizeId wanted = t.product(factors);
    if (t.product(left) != t.product(right))
      require_elements(total, wanted,
                       t.known(total) && t.known(wanted)
                           ? fmt::format("{{0}} has {} elements, {{1}} has {}", *t.known(total),
                                         *t.known(wanted))
                           : "{0} and {1} have different numbers of elements");
  }
  if (f.attrs.has("broadcast")) {
    out.broadcast = static_cast<std::uint8_t>(f.attrs.integer("broadcast"));
    for (std::size_t k = 0; k < ndim; ++k)
      if (out.broadcastable(k)) {
        f.require_equal(out.dims[k], t.one(),
                        fmt::format("axis {} is broadcastable, so its size must be 1", k));
        out.dims[k] = t.one();
      }
  } else {
    for (std::size_t k = 0; k < ndim; ++k)
      if (t.is(out.dims[k], 1)) out.broadcast |= static_cast<std::uint8_t>(1u << k);
  }
  std::vector<SizeId> elements;
  if (ndim <= 1) elements.assign(f.elements(0).begin(), f.elements(0).end());
  f.out(out, std::move(elements));
}

bool reshape_view(const ViewArgs& v, Layout& out) {
  SizeTable& t = v.sizes;
  // Axes of size 1 come and go in any layout.
  std::vector<std::size_t> from, to;
  for (std::size_t i = 0; i < v.in.dims.size(); ++i)
    if (!t.is(v.in.dims[i], 1)) from.push_back(i);
  for (std::size_t i = 0; i < v.out.dims.size(); ++i)
    if (!t.is(v.out.dims[i], 1)) to.push_back(i);
  bool same = from.size() == to.size();
  for (std::size_t i = 0; same && i < from.size(); ++i)
    same = v.in.dims[from[i]] == v.out.dims[to[i]];
  if (same) {
    out.offset = v.layout.offset;
    out.strides = SizeDims(v.out.dims.size(), t.zero());
    for (std::size_t i = 0; i < to.size(); ++i) out.strides[to[i]] = v.layout.strides[from[i]];
    return true;
  }
  if (!is_contiguous(t, v.in.dims, v.layout)) return false;
  out = contiguous_layout(t, v.out.dims);
  out.offset = v.layout.offset;
  return true;
}

void copy_reference(const ReferenceArgs& r) {
  for (std::int64_t k = 0, n = r.y[0].size(); k < n; ++k) r.y[0].set(k, r.x[0]->at(k));
}

// ---- rebroadcast ----

int same_axis(const AxisArgs&, std::size_t axis) { return static_cast<int>(axis); }

// ---- concatenate ----

void concatenate_rule(Infer& f) {
  if (f.count() == 0) f.error(Fault::Value, "needs at least one argument");
  Type out = f.in(0);
  const std::int64_t given = f.attrs.integer("axis");
  if (given < 0 || given >= out.ndim())
    f.error(Fault::Value, fmt::format("axis {} of values of {} dimensions", given, out.ndim()));
  const std::size_t axis = static_cast<std::size_t>(given);
  std::vector<SizeId> elements(f.elements(0).begin(), f.elements(0).end());
  bool known = !elements.empty() || f.sizes.is(out.dims[axis], 0);
  for (std::size_t i = 1; i < f.count(); ++i) {
    const Type& x = f.in(i);
    if (x.ndim() != out.ndim())
      f.error(Fault::Type, fmt::format("arguments have {} and {} dimensions", out.ndim(), x.ndim()),
              "dimshuffle adds axes: " + spelled("dimshuffle(x, {-1, 0})", "x.dimshuffle('x', 0)"));
    require_same_dtype(f, 0, i);
    for (std::size_t k = 0; k < out.dims.size(); ++k) {
      if (k == axis) {
        out.dims[k] = f.sizes.add(out.dims[k], x.dims[k]);
        continue;
      }
      f.require_equal(out.dims[k], x.dims[k], fmt::format("sizes differ on axis {}", k));
      if (!f.sizes.known(out.dims[k])) out.dims[k] = x.dims[k];
      if (x.broadcastable(k)) out.broadcast |= static_cast<std::uint8_t>(1u << k);
    }
    known = known && (!f.elements(i).empty() || f.sizes.is(x.dims[axis], 0));
    elements.insert(elements.end(), f.elements(i).begin(), f.elements(i).end());
  }
  for (std::size_t k = 0; k < out.dims.size(); ++k)
    if (out.broadcastable(k) && k != axis) out.dims[k] = f.sizes.one();
  if (f.count() > 1) out.broadcast &= static_cast<std::uint8_t>(~(1u << axis));
  if (!known || out.ndim() != 1) elements.clear();
  f.out(out, std::move(elements));
}

Exprs concatenate_grad(const GradArgs& g) {
  const std::int64_t axis = g.attrs.integer("axis");
  Exprs out(g.x.size());
  Expr at = snug::constant(Array::scalar<std::int64_t>(0));
  for (std::size_t i = 0; i < g.x.size(); ++i) {
    Expr end = at + snug::shape_i(g.x[i], axis);
    if (g.wanted[i])
      out[i] = snug::rebroadcast(snug::slice_axis(g.dy[0], axis, i ? at : Expr(), end),
                                 g.x[i].type().broadcast);
    at = end;
  }
  return out;
}

void concatenate_reference(const ReferenceArgs& r) {
  const std::size_t axis = static_cast<std::size_t>(r.attrs.integer("axis"));
  std::int64_t offset = 0;
  for (const RefTensor* x : r.x) {
    Counter c(x->shape);
    for (std::int64_t k = 0, n = x->size(); k < n; ++k, c.next()) {
      Dims at = c.at;
      at[axis] += offset;
      r.y[0].set(flat(r.y[0].shape, at), x->at(k));
    }
    offset += x->shape[axis];
  }
}

}  // namespace

const OpDef dimshuffle = {
    .name = "dimshuffle",
    .doc = "Reorders axes, adds broadcastable ones (-1) and drops broadcastable ones.",
    .traits = kView | kIndexView,
    .infer = dimshuffle_rule,
    .grad = dimshuffle_grad,
    .view = index_view<dimshuffle_axis>,
    .source_axis = dimshuffle_axis,
    .reference = dimshuffle_reference,
    .batch = batch_dimshuffle,
    .on_complex = complex_dimshuffle,
};

const OpDef broadcast_to = {
    .name = "broadcast_to",
    .doc = "x stretched to a shape; axes are aligned at the last one.",
    .arity = 2,
    .traits = kView | kIndexView,
    .size_inputs_from = 1,
    .infer = broadcast_to_rule,
    .grad = broadcast_to_grad,
    .view = index_view<broadcast_to_axis>,
    .source_axis = broadcast_to_axis,
    .reference = broadcast_to_reference,
    .batch = batch_broadcast_to,
    .on_complex = complex_with_shape,
};

const OpDef reshape = {
    .name = "reshape",
    .doc = "The elements of x, in C order, in another shape; one size may be -1.",
    .arity = 2,
    .traits = kView,
    .size_inputs_from = 1,
    .infer = reshape_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {reshape_like(g.dy[0], g.x[0]), Expr()};
    },
    .view = reshape_view,
    .reference = copy_reference,
    .batch = batch_reshape,
    .on_complex = complex_with_shape,
};

const OpDef rebroadcast = {
    .name = "rebroadcast",
    .doc = "x with other broadcastable axes; those must have size 1.",
    .traits = kView | kIndexView,
    .infer =
        [](Infer& f) {
          Type out = f.in(0);
          out.broadcast = static_cast<std::uint8_t>(f.attrs.integer("broadcast"));
          for (std::size_t k = 0; k < out.dims.size(); ++k)
            if (out.broadcastable(k)) {
              f.require_equal(
                  out.dims[k], f.sizes.one(),
                  fmt::format("addbroadcast: axis {} must have size 1, the shape is {{0}}", k));
              out.dims[k] = f.sizes.one();
            }
          f.out(out, {f.elements(0).begin(), f.elements(0).end()});
        },
    .grad = [](const GradArgs& g) -> Exprs {
      return {snug::rebroadcast(g.dy[0], g.x[0].type().broadcast)};
    },
    .view = index_view<same_axis>,
    .source_axis = same_axis,
    .reference = copy_reference,
    .batch = batch_same,
    .on_complex = complex_linear,
};

const OpDef concatenate = {
    .name = "concatenate",
    .doc = "Values joined along an axis.",
    .arity = -1,
    .infer = concatenate_rule,
    .grad = concatenate_grad,
    .reference = concatenate_reference,
    .batch = batch_other_axes,
    .on_complex = complex_linear,
};

}  // namespace snug::ops
