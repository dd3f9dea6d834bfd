#include "ops/rules.h"

#include "base/spelling.h"

namespace snug::ops {

Type broadcast_type(Infer& f, DType dtype) {
  Type out;
  out.dtype = dtype;
  const int ndim = f.in(0).ndim();
  for (std::size_t i = 1; i < f.count(); ++i)
    if (f.in(i).ndim() != ndim)
      f.error(Fault::Type, fmt::format("arguments have {} and {} dimensions", ndim, f.in(i).ndim()),
              "dimshuffle adds axes that stretch: " +
                  spelled("dimshuffle(x, {-1, 0})", "x.dimshuffle('x', 0)"));
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(ndim); ++axis) {
    bool found = false;
    SizeId dim = f.sizes.one();
    for (std::size_t i = 0; i < f.count(); ++i) {
      if (f.in(i).broadcastable(axis)) continue;
      SizeId d = f.in(i).dims[axis];
      if (!found) {
        dim = d;
        found = true;
        continue;
      }
      f.require_equal(dim, d, fmt::format("sizes differ on axis {}", axis),
                      fmt::format("an axis of size 1 stretches only if its type says so: "
                                  "addbroadcast(x, {})",
                                  axis));
      if (!f.sizes.known(dim) && f.sizes.known(d)) dim = d;
    }
    if (!found) out.broadcast |= static_cast<std::uint8_t>(1u << axis);
    out.dims.push_back(dim);
  }
  return out;
}

DType upcast_all(const Infer& f) {
  DType t = f.in(0).dtype;
  for (std::size_t i = 1; i < f.count(); ++i) t = upcast(t, f.in(i).dtype);
  return t;
}

void upcast_rule(Infer& f) { f.out(broadcast_type(f, upcast_all(f))); }

void signed_rule(Infer& f) {
  DType t = upcast_all(f);
  if (t == DType::Bool)
    f.error(Fault::Type, "is not defined for bool", "cast it to a number, or use ~, ^ and &");
  f.out(broadcast_type(f, t));
}

void float_rule(Infer& f) { f.out(broadcast_type(f, to_float(upcast_all(f)))); }

void compare_rule(Infer& f) { f.out(broadcast_type(f, DType::Bool)); }

void bits_rule(Infer& f) {
  for (std::size_t i = 0; i < f.count(); ++i) require_discrete(f, i);
  DType t = upcast_all(f);
  if (!is_discrete(t))
    f.error(Fault::Type,
            fmt::format("no integer type holds both {} and {}", name_of(f.in(0).dtype),
                        name_of(f.in(1).dtype)),
            "cast one of them");
  f.out(broadcast_type(f, t));
}

void shift_rule(Infer& f) {
  bits_rule(f);
  if (f.results[0].type.dtype == DType::Bool)
    f.error(Fault::Type,
            fmt::format("{}: is not defined for bool",
                        &f.op == &ops::shl ? "left_shift" : "right_shift"),
            "cast it to an integer type");
}

void require_float(const Infer& f, std::size_t i) {
  if (!is_float(f.in(i).dtype))
    f.error(Fault::Type,
            fmt::format("argument {} must be a float, it is {}", i + 1, name_of(f.in(i).dtype)),
            "cast it: " + cast_of("x", DType::F32));
}

void require_discrete(const Infer& f, std::size_t i) {
  if (!is_discrete(f.in(i).dtype))
    f.error(Fault::Type,
            fmt::format("argument {} must be an integer, it is {}", i + 1, name_of(f.in(i).dtype)),
            fmt::format("cast it, {}, or compare it first: {}", cast_of("x", DType::I64),
                        spelled("bit_and(gt(x, 0), gt(y, 0))", "(x > 0) & (y > 0)")));
}

void require_same_dtype(const Infer& f, std::size_t i, std::size_t j) {
  if (f.in(i).dtype != f.in(j).dtype)
    f.error(Fault::Type, fmt::format("arguments {} and {} must have one dtype, they are {} and {}",
                                     i + 1, j + 1, name_of(f.in(i).dtype), name_of(f.in(j).dtype)));
}

std::size_t axis_attr(const Infer& f, int behind) {
  const std::int64_t axis = f.attrs.integer("axis"), ndim = f.in(0).ndim() - behind;
  if (axis < 0 || axis >= ndim)
    f.error(Fault::Value, fmt::format("axis {} of a value of {} dimensions", axis, ndim));
  return static_cast<std::size_t>(axis);
}

void require_part(Infer& f, const Type& part) {
  require_same_dtype(f, 0, 1);
  const Type& y = f.in(1);
  if (y.ndim() != part.ndim())
    f.error(Fault::Type,
            fmt::format("a value of {} dimensions for a part of {}", y.ndim(), part.ndim()));
  const bool set = &f.op == &ops::scatter_set || &f.op == &ops::slice_set;
  const char* what = set ? "set_subtensor" : "inc_subtensor";
  for (std::size_t k = 0; k < part.dims.size(); ++k) {
    auto have = f.sizes.known(y.dims[k]), want = f.sizes.known(part.dims[k]);
    if (have && want && *have != *want)
      f.error(Fault::Shape, fmt::format("{}: the value has size {} on axis {}, the part has {}",
                                        what, *have, k, *want));
    const std::size_t before = f.requirements.size();
    f.require_equal(
        part.dims[k], y.dims[k],
        fmt::format("{}: a value of shape {{1}} does not fit a part of shape {{0}}", what),
        fmt::format("sizes differ on axis {}, which stretches only if its type says so", k));
    if (f.requirements.size() > before) f.requirements.back().shapes = {part.dims, y.dims};
  }
}

void require_nonnegative(Infer& f, SizeId size, const std::string& name) {
  if (nonnegative(f.sizes, size)) return;
  if (auto known = f.sizes.known(size))
    f.error(Fault::Shape, fmt::format("{} is {}, it must not be negative", name, *known));
  f.require_at_most(f.sizes.zero(), size, name + " is {0.0}, it must not be negative");
  f.requirements.back().shapes = {{size}};
}

Type type_from_shape(Infer& f, std::size_t i, DType dtype) {
  f.require_ndim(i, 1);
  require_discrete(f, i);
  auto ndim = f.sizes.known(f.in(i).dims[0]);
  if (!ndim)
    f.error(Fault::Type, "the length of the shape vector must be known",
            "pass a list of sizes, or give ndim");
  if (*ndim > 8)
    f.error(Fault::Type, fmt::format("a tensor has at most 8 dimensions, not {}", *ndim));
  Type out;
  out.dtype = dtype;
  for (std::int64_t k = 0; k < *ndim; ++k) {
    SizeId d = f.size_element(i, static_cast<std::size_t>(k));
    require_nonnegative(f, d, fmt::format("the size of axis {}", k));
    out.dims.push_back(d);
  }
  if (f.attrs.has("broadcast")) {
    out.broadcast = static_cast<std::uint8_t>(f.attrs.integer("broadcast"));
    for (std::size_t k = 0; k < out.dims.size(); ++k)
      if (out.broadcastable(k)) {
        f.require_equal(out.dims[k], f.sizes.one(),
                        fmt::format("axis {} is broadcastable, so its size must be 1", k));
        out.dims[k] = f.sizes.one();
      }
  } else {
    for (std::size_t k = 0; k < out.dims.size(); ++k)
      if (f.sizes.is(out.dims[k], 1)) out.broadcast |= static_cast<std::uint8_t>(1u << k);
  }
  return out;
}

bool is_number(Expr e, double value) {
  const auto is = [&](const OpDef& op) { return e->owner && e->owner->op == &op; };
  while (is(dimshuffle) || is(cast) || is(rebroadcast)) e = e->owner->inputs[0];
  const Array* a = constant_value(e);
  return a && a->size() == 1 && a->at_double(0) == value;
}

Expr relu_operand(const Expr& e) {
  if (!e->owner || e->owner->op != &switch_) return {};
  const std::vector<Expr>& in = e->owner->inputs;
  const Apply* test = in[0]->owner.get();
  const bool fits = test && test->op == &le && same(test->inputs[0], in[2]) &&
                    is_number(test->inputs[1], 0) && is_number(in[1], 0) &&
                    e.dtype() == in[2].dtype();
  return fits ? in[2] : Expr();
}

Expr number(double value, const Expr& like) {
  Array a = Array::empty(like.dtype(), {});
  if (is_continuous(like.dtype()))
    a.set_double(0, value);
  else
    a.set_int(0, static_cast<std::int64_t>(value));
  return snug::constant(a);
}

Expr unbroadcast(const Expr& dy, const Expr& x) {
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(x.ndim()); ++axis)
    if (x.type().broadcastable(axis) && !dy.type().broadcastable(axis))
      axes.push_back(static_cast<std::int64_t>(axis));
  if (axes.empty()) return dy;
  return snug::sum(dy, axes, true);
}

Exprs unbroadcast_all(const GradArgs& g, Exprs gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i]) gradients[i] = unbroadcast(gradients[i], g.x[i]);
  return gradients;
}

Expr apply_as(const GradArgs& g, const OpDef& op, Exprs inputs, std::size_t first) {
  inputs.insert(inputs.end(), g.x.begin() + static_cast<std::ptrdiff_t>(first), g.x.end());
  return apply(op, std::move(inputs), g.attrs);
}

Expr expand_axes(const Expr& reduced, const std::vector<std::int64_t>& axes) {
  if (axes.empty()) return reduced;
  std::vector<std::int64_t> pattern;
  std::int64_t next = 0;
  std::size_t k = 0;
  const std::size_t ndim = static_cast<std::size_t>(reduced.ndim()) + axes.size();
  for (std::size_t axis = 0; axis < ndim; ++axis) {
    if (k < axes.size() && axes[k] == static_cast<std::int64_t>(axis)) {
      pattern.push_back(-1);
      ++k;
    } else {
      pattern.push_back(next++);
    }
  }
  return snug::dimshuffle(reduced, pattern);
}

Expr reshape_like(const Expr& x, const Expr& like) {
  return apply(
      ops::reshape, {x, snug::shape(like)},
      {{"ndim", std::int64_t{like.ndim()}}, {"broadcast", std::int64_t{like.type().broadcast}}});
}

bool nonnegative(const SizeTable& t, SizeId id, int depth) {
  const SizeNode& n = t.node(id);
  auto sub = [&](SizeId x) { return depth > 0 && nonnegative(t, x, depth - 1); };
  switch (n.op) {
    case SizeOp::Const: return n.value >= 0;
    case SizeOp::Symbol: {
      const Symbol& s = t.symbol_of(id);
      // A run-time symbol without a bound is a value, not a size.
      return s.kind == Symbol::Kind::Dim ||
             (s.kind == Symbol::Kind::Runtime && s.high != SizeTable::kNoSize);
    }
    case SizeOp::Add:
    case SizeOp::Mul:
    case SizeOp::FloorDiv: return sub(n.a) && sub(n.b);
    case SizeOp::Sub: return false;
    case SizeOp::Mod: return sub(n.b);
    case SizeOp::Min: return sub(n.a) && sub(n.b);
    case SizeOp::Max: return sub(n.a) || sub(n.b);
    case SizeOp::Less:
    case SizeOp::Equal: return true;
    case SizeOp::Select: return sub(n.b) && sub(n.c);
  }
  return false;
}

std::int64_t flat(const Dims& shape, const Dims& at) {
  std::int64_t k = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) k = k * shape[i] + at[i];
  return k;
}

void store(RefTensor& t, std::int64_t k, Number n) {
  if (!t.floating()) n = evaluate(Instr{Prim::Cast, t.dtype}, DType::I64, n, {}, {});
  t.set(k, n);
}

}  // namespace snug::ops
