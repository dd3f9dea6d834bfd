#include "ops/batch_rules.h"
#include "ops/complex_rules.h"

/// Complex numbers end where a graph begins: there they are pairs of floats on a last axis of size
/// 2. view_as_real and view_as_complex are the border, the other rows take pairs apart and make
/// them.
namespace snug::ops {

void require_pairs(Infer& f) {
  const Type& x = f.in(0);
  if (x.dtype != DType::F32 && x.dtype != DType::F64)
    f.error(Fault::Type, fmt::format("takes float32 or float64, not {}", name_of(x.dtype)));
  if (x.ndim() == 0) f.error(Fault::Type, "takes pairs on a last axis of size 2, not a 0-d value");
  f.require_equal(x.dims.back(), f.sizes.constant(2),
                  "takes pairs on a last axis of size 2, the shape is {0}");
}

namespace {

void view_as_real_rule(Infer& f) {
  Type out = f.in(0);
  if (!is_complex(out.dtype))
    f.error(Fault::Type, fmt::format("takes complex numbers, not {}", name_of(out.dtype)));
  out.dtype = real_of(out.dtype);
  out.dims.push_back(f.sizes.constant(2));
  f.out(out);
}

/// Without the last axis.
Type type_of_parts(Infer& f) {
  require_pairs(f);
  Type out = f.in(0);
  out.dims.pop_back();
  return out;
}

void view_as_complex_rule(Infer& f) {
  Type out = type_of_parts(f);
  out.dtype = complex_of(out.dtype);
  f.out(out);
}

void no_reference(const ReferenceArgs&) { fail(Fault::Internal, "a graph has no complex values"); }

void part_rule(Infer& f) { f.out(type_of_parts(f)); }

template <int Part>
bool part_view(const ViewArgs& v, Layout& out) {
  out = v.layout;
  out.strides.pop_back();
  if (Part == 1) out.offset = v.sizes.add(out.offset, v.layout.strides.back());
  return true;
}

template <int Part>
void part_reference(const ReferenceArgs& r) {
  for (std::int64_t k = 0, n = r.y[0].size(); k < n; ++k) r.y[0].f[k] = r.x[0]->f[2 * k + Part];
}

void pair_rule(Infer& f) {
  require_same_dtype(f, 0, 1);
  Type out = f.in(0);
  const Type& im = f.in(1);
  if (out.dtype != DType::F32 && out.dtype != DType::F64)
    f.error(Fault::Type, fmt::format("takes float32 or float64, not {}", name_of(out.dtype)));
  if (out.ndim() != im.ndim() || out.broadcast != im.broadcast)
    f.error(Fault::Type, "the parts have different types");
  if (out.ndim() == 8)
    f.error(Fault::Type, "complex: a complex tensor has at most 7 dimensions, not 8");
  for (std::size_t k = 0; k < out.dims.size(); ++k)
    f.require_equal(out.dims[k], im.dims[k],
                    fmt::format("complex: the parts differ in size on axis {}", k));
  out.dims.push_back(f.sizes.constant(2));
  f.out(out);
}

}  // namespace

const OpDef view_as_real = {
    .name = "view_as_real",
    .doc = "Complex numbers as pairs of reals on a new last axis.",
    .traits = kPairView | kTakesComplex,
    .infer = view_as_real_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {snug::view_as_complex(g.dy[0])}; },
    .reference = no_reference,
};

const OpDef view_as_complex = {
    .name = "view_as_complex",
    .doc = "Pairs of reals on the last axis as complex numbers.",
    .traits = kPairView | kTakesComplex,
    .infer = view_as_complex_rule,
    .grad = [](const GradArgs& g) -> Exprs { return {pairs_of(g.dy[0])}; },
    .reference = no_reference,
};

const OpDef real = {
    .name = "real",
    .doc = "The first of each pair on the last axis: real parts.",
    .traits = kView,
    .infer = part_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(pair, {g.dy[0], snug::zeros_like(g.dy[0])})};
    },
    .view = part_view<0>,
    .reference = part_reference<0>,
    .batch = batch_but_last,
};

const OpDef imag = {
    .name = "imag",
    .doc = "The second of each pair on the last axis: imaginary parts.",
    .traits = kView,
    .infer = part_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(pair, {snug::zeros_like(g.dy[0]), g.dy[0]})};
    },
    .view = part_view<1>,
    .reference = part_reference<1>,
    .batch = batch_but_last,
};

const OpDef pair = {
    .name = "pair",
    .doc = "Real and imaginary parts as pairs on a new last axis.",
    .arity = 2,
    .infer = pair_rule,
    .grad = [](const GradArgs& g) -> Exprs {
      return {apply(real, {g.dy[0]}), apply(imag, {g.dy[0]})};
    },
    .reference =
        [](const ReferenceArgs& r) {
          for (std::int64_t k = 0, n = r.x[0]->size(); k < n; ++k) {
            r.y[0].f[2 * k] = r.x[0]->f[k];
            r.y[0].f[2 * k + 1] = r.x[1]->f[k];
          }
        },
    .batch = batch_same,
};

}  // namespace snug::ops
