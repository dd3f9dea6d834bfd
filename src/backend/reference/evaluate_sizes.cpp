#include "backend/reference/evaluate_sizes.h"

#include "expr/shape_text.h"

namespace snug {
namespace {

std::vector<Dims> eval_shapes(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  std::vector<Dims> out;
  for (const SizeDims& dims : r.shapes) out.push_back(eval_dims(dims, values));
  return out;
}

}  // namespace

bool holds(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  return r.equal ? values[r.a] == values[r.b] : values[r.a] <= values[r.b];
}

std::string describe(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  return with_shapes(r.message, eval_shapes(r, values));
}

void check(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  if (!holds(r, values))
    fail_at(r.origin, r.fault, describe(r, values), fill_shapes(r.hint, eval_shapes(r, values)));
}

}  // namespace snug
