#include "place/place.h"

namespace snug {
namespace {

void infer_transfer(Infer& f) {
  auto elements = f.elements(0);
  f.out(f.in(0), {elements.begin(), elements.end()});
}

void run_transfer(const ReferenceArgs& a) {
  a.y[0].f = a.x[0]->f;
  a.y[0].i = a.x[0]->i;
  a.y[0].shape = a.x[0]->shape;
}

}  // namespace

const OpDef transfer_op = {
    .name = "transfer",
    .doc = "The same value on another device.",
    .arity = 1,
    .outputs = 1,
    .infer = infer_transfer,
    .no_grad = "transfers are placed after gradients are taken",
    .reference = run_transfer,
};

}  // namespace snug
