#include "backend/reference/evaluate_sizes.h"

namespace snug {

bool holds(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  return r.equal ? values[r.a] == values[r.b] : values[r.a] <= values[r.b];
}

std::string describe(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  std::string text = r.message;
  for (std::size_t i = 0; i < r.shapes.size(); ++i)
    text += (i == 0 ? ": " : " and ") + describe_shape(eval_dims(r.shapes[i], values));
  return text;
}

void check(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  if (!holds(r, values)) throw Error(r.fault, describe(r, values), r.hint, r.origin);
}

}  // namespace snug
