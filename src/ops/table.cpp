#include <algorithm>

#include "ops/rows.h"

namespace snug {
namespace {

// Sorted by name; a test checks it.
const OpDef* const kOps[] = {
    &ops::abs,
    &ops::acos,
    &ops::acosh,
    &ops::add,
    &ops::all,
    &ops::any,
    &ops::arange,
    &ops::argmax,
    &ops::argmin,
    &ops::asin,
    &ops::asinh,
    &ops::atan,
    &ops::atan2,
    &ops::atanh,
    &ops::batched_dot,
    &ops::bit_and,
    &ops::bit_or,
    &ops::bit_xor,
    &ops::broadcast_to,
    &ops::cast,
    &ops::ceil,
    &ops::check_index,
    &ops::cholesky,
    &ops::concatenate,
    &ops::constant,
    &ops::conv2d,
    &ops::conv2d_grad_input,
    &ops::conv2d_grad_weight,
    &ops::cos,
    &ops::cosh,
    &ops::dimshuffle,
    &ops::div,
    &ops::dot,
    &ops::eq,
    &ops::erf,
    &ops::erfc,
    &ops::exp,
    &ops::exp2,
    &ops::expm1,
    &ops::eye,
    &ops::floor,
    &ops::floor_div,
    &ops::gather,
    &ops::ge,
    &ops::gt,
    &ops::input,
    &ops::invert,
    &ops::isinf,
    &ops::isnan,
    &ops::le,
    &ops::log,
    &ops::log10,
    &ops::log1p,
    &ops::log2,
    &ops::log_softmax,
    &ops::loop,
    &ops::lt,
    &ops::make_vector,
    &ops::max,
    &ops::maximum,
    &ops::min,
    &ops::minimum,
    &ops::mod,
    &ops::mul,
    &ops::ne,
    &ops::neg,
    &ops::nonzero,
    &ops::pow,
    &ops::prod,
    &ops::random_normal,
    &ops::random_uniform,
    &ops::rebroadcast,
    &ops::reshape,
    &ops::round,
    &ops::scatter_add,
    &ops::scatter_set,
    &ops::shape,
    &ops::shared,
    &ops::shl,
    &ops::shr,
    &ops::sigmoid,
    &ops::sign,
    &ops::sin,
    &ops::sinh,
    &ops::slice,
    &ops::slice_inc,
    &ops::slice_set,
    &ops::softmax,
    &ops::softplus,
    &ops::solve,
    &ops::sqr,
    &ops::sqrt,
    &ops::stop_gradient,
    &ops::sub,
    &ops::sum,
    &ops::switch_,
    &ops::tan,
    &ops::tanh,
    &ops::trunc,
};

}  // namespace

std::span<const OpDef* const> all_ops() { return kOps; }

const OpDef& find_op(std::string_view name) {
  auto it = std::lower_bound(std::begin(kOps), std::end(kOps), name,
                             [](const OpDef* op, std::string_view n) { return op->name < n; });
  if (it != std::end(kOps) && (*it)->name == name) return **it;
  std::vector<std::string> known;
  for (const OpDef* op : kOps) known.emplace_back(op->name);
  std::string near = nearest(name, known);
  fail(Fault::Value, fmt::format("find_op: there is no op named '{}'", name),
       near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

}  // namespace snug
