#include <cmath>

#include "base/philox.h"
#include "ops/batch_rules.h"
#include "ops/rules.h"

namespace snug::ops {
namespace {

void arange_rule(Infer& f) {
  SizeTable& t = f.sizes;
  for (std::size_t i = 0; i < 3; ++i) {
    f.require_ndim(i, 0);
    require_discrete(f, i);
  }
  SizeId start = f.size_element(0), step = f.size_element(1), stop = f.size_element(2);
  f.require_equal(t.equal(step, t.zero()), t.zero(), "the step is zero");
  SizeId count = t.sub(stop, start);
  if (!t.is(step, 1)) count = t.ceil_div(count, step);
  if (!nonnegative(t, count)) count = t.max(count, t.zero());
  Type out{f.attrs.dtype("dtype"), {count}};
  std::vector<SizeId> elements;
  if (auto n = t.known(count); n && *n <= 64 && is_discrete(out.dtype))
    for (std::int64_t k = 0; k < *n; ++k)
      elements.push_back(t.add(start, t.mul(step, t.constant(k))));
  f.out(out, std::move(elements));
}

void random_rule(Infer& f) {
  f.require_ndim(0, 0);
  f.require_ndim(1, 0);
  if (f.in(0).dtype != DType::U64 || f.in(1).dtype != DType::I64)
    f.error(Fault::Type, "takes a uint64 key and an int64 offset");
  DType dtype = f.attrs.dtype("dtype");
  if (!is_float(dtype)) f.error(Fault::Type, fmt::format("gives floats, not {}", name_of(dtype)));
  f.out(type_from_shape(f, 2, dtype));
}

/// Element k of a draw has counter offset + k.
Scalar counter(ScalarBuilder& s) { return s.cast(s.arg(1) + s.flat_index(), DType::U64); }

/// [0, 1) with 24 bits from one word, or with 53 bits from two.
Scalar unit(ScalarBuilder& s, Scalar key, Scalar at, int word, bool wide) {
  if (!wide) {
    Scalar bits = s.call(Prim::Shr, s.philox(word, key, at), s.integer(8, DType::U32));
    return s.cast(bits, DType::F32) * s.constant(0x1p-24, DType::F32);
  }
  // 32 bits, then the upper 21 of the second word.
  Scalar high = s.cast(s.philox(word, key, at), DType::F64) * s.constant(0x1p-32, DType::F64);
  Scalar low = s.call(Prim::Shr, s.philox(word + 1, key, at), s.integer(11, DType::U32));
  return high + s.cast(low, DType::F64) * s.constant(0x1p-53, DType::F64);
}

Scalar uniform_body(ScalarBuilder& s, const Attrs&) {
  return s.cast(unit(s, s.arg(0), counter(s), 0, s.result == DType::F64), s.result);
}

/// Box and Muller; 1 - u lies in (0, 1], so the logarithm is finite.
Scalar normal_body(ScalarBuilder& s, const Attrs&) {
  const bool wide = s.result == DType::F64;
  const DType t = wide ? DType::F64 : DType::F32;
  Scalar key = s.arg(0), at = counter(s);
  Scalar u1 = s.constant(1, t) - unit(s, key, at, 0, wide);
  Scalar u2 = unit(s, key, at, wide ? 2 : 1, wide);
  Scalar radius = s.call(Prim::Sqrt, s.constant(-2, t) * s.call(Prim::Log, u1));
  return s.cast(radius * s.call(Prim::Cos, s.constant(2 * M_PI, t) * u2), s.result);
}

double unit_reference(std::uint32_t a, std::uint32_t b, bool wide) {
  return wide ? static_cast<double>((std::uint64_t{a} << 21) | (b >> 11)) * 0x1p-53
              : static_cast<double>(a >> 8) * 0x1p-24;
}

template <bool Normal>
void random_reference(const ReferenceArgs& r) {
  RefTensor& y = r.y[0];
  const bool wide = y.dtype == DType::F64;
  for (std::int64_t k = 0, n = y.size(); k < n; ++k) {
    auto w = philox(static_cast<std::uint64_t>(r.x[0]->i[0]),
                    static_cast<std::uint64_t>(r.x[1]->i[0] + k));
    double u = unit_reference(w[0], w[1], wide);
    if (Normal) {
      double v = wide ? unit_reference(w[2], w[3], true) : unit_reference(w[1], 0, false);
      u = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v);
    }
    y.set(k, evaluate(Instr{Prim::Cast, y.dtype}, DType::F64, {u, 0}, {}, {}));
  }
}

constexpr std::string_view kInteger = "its arguments are integers";

}  // namespace

const OpDef arange = {
    .name = "arange",
    .doc = "start, start + step, ... up to but not including stop; integers.",
    .arity = 3,
    .traits = kGenerator,
    .size_inputs_from = 2,
    .infer = arange_rule,
    .no_grad = kInteger,
    .scalar =
        [](ScalarBuilder& s, const Attrs&) {
          Scalar v = s.arg(0, DType::I64) + s.index(0) * s.arg(1, DType::I64);
          return s.cast(v, s.result);
        },
    .reference =
        [](const ReferenceArgs& r) {
          for (std::int64_t k = 0, n = r.y[0].size(); k < n; ++k) {
            std::int64_t v = r.x[0]->i[0] + k * r.x[1]->i[0];
            store(r.y[0], k, {static_cast<double>(v), v});
          }
        },
    .batch = batch_arange,
};

const OpDef random_uniform = {
    .name = "random_uniform",
    .doc = "Floats in [0, 1) from Philox 4x32-10: element k has counter offset + k.",
    .arity = 3,
    .traits = kGenerator | kRandom,
    .size_inputs_from = 2,
    .infer = random_rule,
    .no_grad = kInteger,
    .scalar = uniform_body,
    .reference = random_reference<false>,
    .batch = batch_random,
};

const OpDef random_normal = {
    .name = "random_normal",
    .doc = "Normally distributed floats of mean 0 and deviation 1 (Box-Muller on Philox 4x32-10).",
    .arity = 3,
    .traits = kGenerator | kRandom,
    .size_inputs_from = 2,
    .infer = random_rule,
    .no_grad = kInteger,
    .scalar = normal_body,
    .reference = random_reference<true>,
    .batch = batch_random,
};

const OpDef eye = {
    .name = "eye",
    .doc = "An n by m matrix with ones on diagonal k.",
    .arity = 2,
    .traits = kGenerator,
    .size_inputs_from = 0,
    .infer =
        [](Infer& f) {
          Type out;
          out.dtype = f.attrs.dtype("dtype");
          f.attrs.integer("k");
          for (std::size_t i = 0; i < 2; ++i) {
            f.require_ndim(i, 0);
            require_discrete(f, i);
            SizeId d = f.size_element(i);
            require_nonnegative(f, d, i == 0 ? "the number of rows" : "the number of columns");
            out.dims.push_back(d);
          }
          f.out(out);
        },
    .no_grad = kInteger,
    .scalar =
        [](ScalarBuilder& s, const Attrs& attrs) {
          Scalar on =
              s.call(Prim::Eq, s.index(1) - s.index(0), s.integer(attrs.integer("k"), DType::I64));
          return s.cast(on, s.result);
        },
    .reference =
        [](const ReferenceArgs& r) {
          RefTensor& y = r.y[0];
          for (std::int64_t i = 0; i < y.shape[0]; ++i)
            for (std::int64_t j = 0; j < y.shape[1]; ++j)
              if (j - i == r.attrs.integer("k")) y.set(i * y.shape[1] + j, {1, 1});
        },
};

}  // namespace snug::ops
