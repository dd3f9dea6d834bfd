#include "ops/batch_rules.h"
#include "ops/complex_rules.h"

/// attr `spec`: four integers per leading axis: kind (0: range, 1: single index, which drops the
/// axis), then for start, stop and step 0 if absent and 1 if the next size input has it (a single
/// index is the start).
namespace snug::ops {
namespace {

struct Picked {
  bool single = false;
  SizeId start = 0, step = 1, count = 0;
};

SizeId clamp(SizeTable& t, SizeId x, SizeId low, SizeId high) { return t.min(t.max(x, low), high); }

/// Python's range of an axis of size n, as size expressions.
Picked pick_range(SizeTable& t, SizeId n, std::optional<SizeId> start, std::optional<SizeId> stop,
                  std::optional<SizeId> given_step) {
  const SizeId zero = t.zero(), one = t.one(), minus = t.constant(-1);
  Picked p;
  p.step = given_step.value_or(one);
  // The place a bound means, before clamping.
  auto place = [&](SizeId e) {
    if (nonnegative(t, e)) return e;
    if (t.known(e)) return t.add(n, e);
    return t.select(t.less(e, zero), t.add(n, e), e);
  };
  auto forward_bound = [&](SizeId e) {
    if (nonnegative(t, e)) return t.min(e, n);
    if (t.known(e)) return t.max(t.add(n, e), zero);
    return clamp(t, place(e), zero, n);
  };
  auto forward = [&](SizeId& begin) -> SizeId {
    begin = start ? forward_bound(*start) : zero;
    SizeId end = stop ? forward_bound(*stop) : n;
    if (t.is(p.step, 1)) {
      if (begin == zero) return end;
      if (!stop && nonnegative(t, *start)) return t.max(t.sub(n, *start), zero);
      return t.max(t.sub(end, begin), zero);
    }
    return t.max(t.ceil_div(t.sub(end, begin), p.step), zero);
  };
  auto backward_bound = [&](SizeId e) { return clamp(t, place(e), minus, t.sub(n, one)); };
  auto backward = [&](SizeId& begin) -> SizeId {
    begin = start ? backward_bound(*start) : t.sub(n, one);
    SizeId end = stop ? backward_bound(*stop) : minus;
    SizeId span = t.sub(begin, end);
    if (!start && !stop) span = n;
    SizeId count = span;
    if (!t.is(p.step, -1)) count = t.ceil_div(span, t.sub(zero, p.step));
    begin = t.max(begin, zero);  // an empty range starts inside, too
    return nonnegative(t, count) ? count : t.max(count, zero);
  };
  if (nonnegative(t, p.step)) {
    p.count = forward(p.start);
  } else if (t.known(p.step)) {
    p.count = backward(p.start);
  } else {
    SizeId first_up, first_down;
    SizeId up = forward(first_up), down = backward(first_down);
    SizeId negative = t.less(p.step, zero);
    p.count = t.select(negative, down, up);
    p.start = t.select(negative, first_down, first_up);
  }
  return p;
}

/// One entry per axis of x. `bound(k)` is the k-th size input as a size.
template <class F>
std::vector<Picked> pick(SizeTable& t, const Type& x, const Attrs::Ints& spec, F&& bound) {
  std::vector<Picked> picks;
  std::size_t next = 0;
  auto take = [&](std::int64_t code) -> std::optional<SizeId> {
    if (code == 0) return std::nullopt;
    return bound(next++);
  };
  for (std::size_t axis = 0; axis < x.dims.size(); ++axis) {
    const SizeId n = x.dims[axis];
    Picked p;
    if (4 * axis >= spec.size()) {
      p.count = n;
      picks.push_back(p);
      continue;
    }
    const std::int64_t* s = &spec[4 * axis];
    if (s[0] == 1) {
      SizeId e = take(s[1]).value();
      p.single = true;
      p.start = nonnegative(t, e) ? e
                : t.known(e)      ? t.add(n, e)
                                  : t.select(t.less(e, t.zero()), t.add(n, e), e);
      p.count = t.one();
    } else {
      auto start = take(s[1]), stop = take(s[2]), step = take(s[3]);
      p = pick_range(t, n, start, stop, step);
      if (!start && !stop && x.broadcastable(axis)) p.count = t.one();
    }
    picks.push_back(p);
  }
  return picks;
}

/// The type of x[spec] and its elements; `first` is the number of the first bound.
Infer::Result picked_type(Infer& f, std::size_t first) {
  if (f.count() < first) f.error(Fault::Type, fmt::format("takes at least {} arguments", first));
  const Type& x = f.in(0);
  const Attrs::Ints& spec = f.attrs.ints("spec");
  if (spec.size() % 4 != 0 || spec.size() / 4 > x.dims.size())
    f.error(Fault::Index, fmt::format("index: {} indices for a value of {} dimensions",
                                      spec.size() / 4, x.ndim()));
  std::size_t wanted = first;
  for (std::size_t k = 0; k < spec.size(); k += 4) {
    if (spec[k] == 1 && spec[k + 1] == 0) f.error(Fault::Index, "index: a place is missing");
    for (std::size_t j = 1; j < (spec[k] == 1 ? 2 : 4); ++j) wanted += spec[k + j] != 0;
  }
  if (wanted != f.count())
    f.error(Fault::Type,
            fmt::format("index: {} bounds, the spec has {}", f.count() - first, wanted - first));
  for (std::size_t i = first; i < f.count(); ++i) {
    f.require_ndim(i, 0);
    require_discrete(f, i);
  }
  std::vector<SizeId> bounds;
  auto bound = [&](std::size_t k) {
    bounds.push_back(f.size_element(first + k));
    return bounds.back();
  };
  std::vector<Picked> picks = pick(f.sizes, x, spec, bound);
  Infer::Result out;
  out.type.dtype = x.dtype;
  std::size_t next = 0;
  for (std::size_t axis = 0; axis < picks.size(); ++axis) {
    const Picked& p = picks[axis];
    bool given = 4 * axis < spec.size();
    if (p.single) {
      const SizeId given_index = bounds[next++];
      auto index = f.sizes.known(given_index), n = f.sizes.known(x.dims[axis]);
      std::string message =
          index && n ? fmt::format("index: {} is outside axis {} of size {}", *index, axis, *n)
                     : fmt::format("index: {{1.0}} is outside axis {0} of size {{0.{0}}}", axis);
      const std::size_t before = f.requirements.size();
      f.require_at_most(f.sizes.zero(), p.start, message, {}, Fault::Index);
      f.require_at_most(f.sizes.add(p.start, f.sizes.one()), x.dims[axis], message, {},
                        Fault::Index);
      for (std::size_t k = before; k < f.requirements.size(); ++k)
        f.requirements[k].shapes = {x.dims, {given_index}};
      continue;
    }
    bool whole = true;
    if (given) {
      whole = !spec[4 * axis + 1] && !spec[4 * axis + 2];
      for (std::size_t k = 1; k < 4; ++k) next += spec[4 * axis + k] != 0;
      f.require_equal(f.sizes.equal(p.step, f.sizes.zero()), f.sizes.zero(),
                      fmt::format("index: the step on axis {} is zero", axis));
    }
    if (whole && x.broadcastable(axis))
      out.type.broadcast |= static_cast<std::uint8_t>(1u << out.type.dims.size());
    out.type.dims.push_back(p.count);
  }
  auto elements = f.elements(0);
  if (picks.size() == 1 && !elements.empty()) {
    auto start = f.sizes.known(picks[0].start), step = f.sizes.known(picks[0].step),
         count = f.sizes.known(picks[0].count);
    if (start && step && count)
      for (std::int64_t k = 0; k < *count; ++k) {
        std::int64_t at = *start + k * *step;
        if (at >= 0 && at < static_cast<std::int64_t>(elements.size()))
          out.elements.push_back(elements[static_cast<std::size_t>(at)]);
      }
  }
  return out;
}

void slice_rule(Infer& f) {
  Infer::Result r = picked_type(f, 1);
  f.out(r.type, std::move(r.elements));
}

bool slice_view(const ViewArgs& v, Layout& out) {
  for (std::size_t i = 1; i < v.elements.size(); ++i)
    if (v.elements[i].empty()) return false;
  std::vector<Picked> picks = pick(v.sizes, v.in, v.attrs.ints("spec"),
                                   [&](std::size_t k) { return v.elements[k + 1][0]; });
  out.offset = v.layout.offset;
  out.strides.clear();
  for (std::size_t axis = 0; axis < picks.size(); ++axis) {
    SizeId stride = v.layout.strides[axis];
    out.offset = v.sizes.add(out.offset, v.sizes.mul(picks[axis].start, stride));
    if (!picks[axis].single) out.strides.push_back(v.sizes.mul(stride, picks[axis].step));
  }
  return true;
}

/// Calls `visit(place in x, place in the slice)` for all elements, with Python's rules for ranges.
template <class F>
void visit_slice(const ReferenceArgs& r, std::size_t first, const Dims& x, F&& visit) {
  const Attrs::Ints& spec = r.attrs.ints("spec");
  Dims start, step, shape, axes;
  std::int64_t base = 0;
  Dims stride = contiguous_strides(x);
  std::size_t next = first;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    const std::int64_t n = x[axis];
    auto take = [&](std::size_t which) -> std::optional<std::int64_t> {
      if (4 * axis >= spec.size() || !spec[4 * axis + which]) return std::nullopt;
      return r.x[next++]->i[0];
    };
    auto a = take(1);
    if (4 * axis < spec.size() && spec[4 * axis] == 1) {
      base += (*a < 0 ? *a + n : *a) * stride[axis];
      continue;
    }
    auto b = take(2);
    const std::int64_t s = take(3).value_or(1);
    auto wrap = [&](std::int64_t e, std::int64_t low, std::int64_t high) {
      if (e < 0) e += n;
      return e < low ? low : e > high ? high : e;
    };
    std::int64_t from, to, count = 0;
    if (s > 0) {
      from = a ? wrap(*a, 0, n) : 0;
      to = b ? wrap(*b, 0, n) : n;
      for (std::int64_t i = from; i < to; i += s) ++count;
    } else {
      from = a ? wrap(*a, -1, n - 1) : n - 1;
      to = b ? wrap(*b, -1, n - 1) : -1;
      for (std::int64_t i = from; i > to; i += s) ++count;
    }
    base += from * stride[axis];
    step.push_back(s * stride[axis]);
    shape.push_back(count);
  }
  Counter c(shape);
  for (std::int64_t k = 0, n = product(shape); k < n; ++k, c.next()) {
    std::int64_t at = base;
    for (std::size_t i = 0; i < shape.size(); ++i) at += c.at[i] * step[i];
    visit(at, k);
  }
}

void put_rule(Infer& f) {
  require_part(f, picked_type(f, 2).type);
  f.out(f.in(0));
}

template <bool Increase>
void put_reference(const ReferenceArgs& r) {
  put_part(r, Increase, [&](auto&& put) { visit_slice(r, 2, r.x[0]->shape, put); });
}

}  // namespace

const OpDef slice = {
    .name = "slice",
    .doc =
        "Ranges and single indices of the leading axes, with Python's rules; bounds and steps "
        "may be known at the call only.",
    .arity = -1,
    .traits = kView,
    .size_inputs_from = 1,
    .infer = slice_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(g.x.size());
      out[0] = apply_as(g, ops::slice_inc, {snug::zeros_like(g.x[0], g.dy[0].dtype()), g.dy[0]}, 1);
      return out;
    },
    .view = slice_view,
    .reference =
        [](const ReferenceArgs& r) {
          visit_slice(r, 1, r.x[0]->shape,
                      [&](std::int64_t at, std::int64_t k) { r.y[0].set(k, r.x[0]->at(at)); });
        },
    .batch = batch_slice,
    .on_complex = complex_linear,
};

const OpDef slice_set = {
    .name = "slice_set",
    .doc = "x with a slice replaced by y.",
    .arity = -1,
    .traits = kInPlace,
    .size_inputs_from = 2,
    .infer = put_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(g.x.size());
      const Expr& dy = g.dy[0];
      if (g.wanted[0])
        out[0] = apply_as(g, ops::slice_set, {dy, snug::zeros_like(g.x[1], dy.dtype())}, 2);
      if (g.wanted[1]) out[1] = apply_as(g, ops::slice, {dy}, 2);
      return out;
    },
    .reference = put_reference<false>,
    .batch = batch_put_slice,
    .on_complex = complex_linear,
};

const OpDef slice_inc = {
    .name = "slice_inc",
    .doc = "x with y added to a slice.",
    .arity = -1,
    .traits = kInPlace,
    .size_inputs_from = 2,
    .infer = put_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      Exprs out(g.x.size());
      out[0] = g.dy[0];
      if (g.wanted[1]) out[1] = apply_as(g, ops::slice, {g.dy[0]}, 2);
      return out;
    },
    .reference = put_reference<true>,
    .batch = batch_put_slice,
    .on_complex = complex_linear,
};

}  // namespace snug::ops
