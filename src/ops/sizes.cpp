#include "ops/complex_rules.h"

namespace snug::ops {

const OpDef shape = {
    .name = "shape",
    .doc = "The sizes of x as an int64 vector.",
    .infer =
        [](Infer& f) {
          const SizeDims& dims = f.in(0).dims;
          Type out{DType::I64, {f.sizes.constant(static_cast<std::int64_t>(dims.size()))}};
          f.out(out, {dims.begin(), dims.end()});
        },
    .no_grad = "sizes do not depend on values",
    .reference =
        [](const ReferenceArgs& r) {
          for (std::size_t i = 0; i < r.x[0]->shape.size(); ++i) r.y[0].i[i] = r.x[0]->shape[i];
        },
    .on_complex = complex_shape,
    .samples = {.differentiable = false, .numpy = "np.array(a.shape)"},
};

const OpDef make_vector = {
    .name = "make_vector",
    .doc = "A vector of sizes, made of 0-d integers.",
    .arity = -1,
    .infer =
        [](Infer& f) {
          Type out{DType::I64, {f.sizes.constant(static_cast<std::int64_t>(f.count()))}};
          if (f.count() == 1) out.broadcast = 1;
          std::vector<SizeId> elements;
          for (std::size_t i = 0; i < f.count(); ++i) {
            f.require_ndim(i, 0);
            require_discrete(f, i);
            elements.push_back(f.size_element(i));
          }
          f.out(out, std::move(elements));
        },
    .no_grad = "its arguments are integers",
    .reference =
        [](const ReferenceArgs& r) {
          for (std::size_t i = 0; i < r.x.size(); ++i) r.y[0].i[i] = r.x[i]->i[0];
        },
};

}  // namespace snug::ops
