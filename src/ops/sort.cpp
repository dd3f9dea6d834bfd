#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/lines.h"
#include "ops/batch_rules.h"
#include "ops/rules.h"

namespace snug::ops {
namespace {

Type line_type(Infer& f) {
  axis_attr(f);
  return f.in(0);
}

/// NumPy's order: nan comes last.
bool less(const RefTensor& t, std::int64_t a, std::int64_t b) {
  if (!t.floating()) {
    if (t.dtype == DType::U64)
      return static_cast<std::uint64_t>(t.i[a]) < static_cast<std::uint64_t>(t.i[b]);
    return t.i[a] < t.i[b];
  }
  return t.f[a] < t.f[b] || (std::isnan(t.f[b]) && !std::isnan(t.f[a]));
}

/// The places of a line, by the elements there; equal ones keep their order.
std::vector<std::int64_t> sorted_places(const RefTensor& x, const Lines& lines, std::int64_t line,
                                        bool largest_first) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(lines.length));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    if (largest_first) std::swap(a, b);
    return less(x, lines.at(line, a), lines.at(line, b));
  });
  return order;
}

/// Calls `put(place in y, place in x of its value, its place on the line)`.
template <class F>
void in_order(const ReferenceArgs& r, F&& put) {
  const RefTensor& x = *r.x[0];
  const Lines lines(x.shape, static_cast<std::size_t>(r.attrs.integer("axis")));
  for (std::int64_t line = 0; line < lines.count; ++line) {
    const std::vector<std::int64_t> order = sorted_places(x, lines, line, false);
    for (std::int64_t i = 0; i < lines.length; ++i)
      put(lines.at(line, i), lines.at(line, order[i]), order[i]);
  }
}

constexpr std::string_view kPlaces = "it gives places, which are not continuous";

}  // namespace

const OpDef sort = {
    .name = "sort",
    .doc = "The elements along an axis in ascending order; nan comes last.",
    .infer = [](Infer& f) { f.out(line_type(f)); },
    .grad = [](const GradArgs& g) -> Exprs {
      const std::int64_t axis = g.attrs.integer("axis");
      Expr order = apply(ops::argsort, {g.x[0]}, g.attrs);
      return {
          snug::put_along_axis(snug::zeros_like(g.x[0], g.dy[0].dtype()), order, g.dy[0], axis)};
    },
    .reference =
        [](const ReferenceArgs& r) {
          in_order(r, [&](std::int64_t to, std::int64_t from, std::int64_t) {
            r.y[0].set(to, r.x[0]->at(from));
          });
        },
    .batch = batch_other_axes,
    .samples = {.numpy = "np.sort(a, axis)"},
};

const OpDef argsort = {
    .name = "argsort",
    .doc = "The places that sort the elements along an axis; equal elements keep their order.",
    .infer =
        [](Infer& f) {
          Type out = line_type(f);
          out.dtype = DType::I64;
          f.out(out);
        },
    .no_grad = kPlaces,
    .reference =
        [](const ReferenceArgs& r) {
          in_order(
              r, [&](std::int64_t to, std::int64_t, std::int64_t place) { r.y[0].i[to] = place; });
        },
    .batch = batch_other_axes,
    .samples = {.differentiable = false, .numpy = "np.argsort(a, axis, kind='stable')"},
};

const OpDef argtopk = {
    .name = "argtopk",
    .doc =
        "The places of the k largest elements along an axis, the largest first; of a negative k "
        "those of the -k smallest, the smallest first. nan is the largest; of equal elements the "
        "first comes first.",
    .arity = 2,
    .size_inputs_from = 1,
    .infer =
        [](Infer& f) {
          Type out = line_type(f);
          f.require_ndim(1, 0);
          require_discrete(f, 1);
          SizeTable& t = f.sizes;
          const std::size_t axis = axis_attr(f);
          const SizeId k = f.size_element(1), count = t.max(k, t.sub(t.zero(), k));
          f.require_at_most(t.one(), count, "topk: the number of elements must not be 0");
          const std::size_t before = f.requirements.size();
          f.require_at_most(count, out.dims[axis],
                            "topk: {0.0} elements are asked for, the axis has {1.0}");
          if (f.requirements.size() > before)
            f.requirements.back().shapes = {{count}, {out.dims[axis]}};
          out.dtype = DType::I64;
          out.dims[axis] = count;
          out.broadcast &= static_cast<std::uint8_t>(~(1u << axis));
          f.out(out);
        },
    .no_grad = kPlaces,
    .reference =
        [](const ReferenceArgs& r) {
          const bool largest = r.x[1]->i[0] > 0;
          const auto axis = static_cast<std::size_t>(r.attrs.integer("axis"));
          const Lines from(r.x[0]->shape, axis), to(r.y[0].shape, axis);
          for (std::int64_t line = 0; line < to.count; ++line) {
            const std::vector<std::int64_t> order = sorted_places(*r.x[0], from, line, largest);
            for (std::int64_t k = 0; k < to.length; ++k) r.y[0].i[to.at(line, k)] = order[k];
          }
        },
    .batch = batch_argtopk,
};

const OpDef searchsorted = {
    .name = "searchsorted",
    .doc =
        "Where to insert the elements of v into the sorted vector x so that it stays sorted: "
        "before equal elements (side 'left') or behind them ('right').",
    .arity = 2,
    .infer =
        [](Infer& f) {
          f.attrs.flag("right");
          f.require_ndim(0, 1);
          require_same_dtype(f, 0, 1);
          Type out = f.in(1);
          out.dtype = DType::I64;
          f.out(out);
        },
    .no_grad = kPlaces,
    .reference =
        [](const ReferenceArgs& r) {
          const bool right = r.attrs.flag("right");
          const std::int64_t n = r.x[0]->size();
          RefTensor both = *r.x[0];  // and the elements of v behind it
          both.f.insert(both.f.end(), r.x[1]->f.begin(), r.x[1]->f.end());
          both.i.insert(both.i.end(), r.x[1]->i.begin(), r.x[1]->i.end());
          std::vector<std::int64_t> places(static_cast<std::size_t>(n));
          std::iota(places.begin(), places.end(), 0);
          for (std::int64_t k = 0; k < r.x[1]->size(); ++k)
            r.y[0].i[k] = std::partition_point(places.begin(), places.end(),
                                               [&](std::int64_t place) {
                                                 return right ? !less(both, n + k, place)
                                                              : less(both, place, n + k);
                                               }) -
                          places.begin();
        },
    .batch = batch_searchsorted,
};

}  // namespace snug::ops
