#include "ops/rules.h"

namespace snug::ops {
namespace {

void no_rule(Infer& f) { f.error(Fault::Internal, "a leaf is not applied"); }

void constant_rule(Infer& f) {
  const Array& value = *f.attrs.array("value");
  Type out;
  out.dtype = value.dtype;
  for (std::size_t i = 0; i < value.shape.size(); ++i) {
    out.dims.push_back(f.sizes.constant(value.shape[i]));
    if (value.shape[i] == 1) out.broadcast |= static_cast<std::uint8_t>(1u << i);
  }
  std::vector<SizeId> elements;
  if (is_discrete(value.dtype) && value.shape.size() <= 1 && value.size() <= 64)
    for (std::int64_t k = 0; k < value.size(); ++k)
      elements.push_back(f.sizes.constant(value.at_int(k)));
  f.out(out, std::move(elements));
}

}  // namespace

const OpDef input = {
    .name = "input",
    .doc = "An argument of the function.",
    .arity = 0,
    .traits = kLeaf,
    .infer = no_rule,
    .no_grad = "it is where gradients end",
};

const OpDef shared = {
    .name = "shared",
    .doc = "The value of a shared variable when the call begins.",
    .arity = 0,
    .traits = kLeaf,
    .infer = no_rule,
    .no_grad = "it is where gradients end",
};

const OpDef constant = {
    .name = "constant",
    .doc = "A value that is part of the program.",
    .arity = 0,
    .traits = kLeaf,
    .infer = constant_rule,
    .no_grad = "it is where gradients end",
    .reference = [](const ReferenceArgs& r) { r.y[0] = RefTensor::from(*r.attrs.array("value")); },
};

}  // namespace snug::ops
