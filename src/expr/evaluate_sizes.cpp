#include "expr/evaluate_sizes.h"

#include "expr/shape_text.h"

namespace snug {
namespace {

std::vector<Dims> eval_shapes(const Infer::Requirement& r, std::span<const std::int64_t> values) {
  std::vector<Dims> out;
  for (const SizeDims& dims : r.shapes) out.push_back(eval_dims(dims, values));
  return out;
}

}  // namespace

void evaluate_sizes(const SizeTable& sizes, std::span<std::int64_t> values,
                    std::span<const std::int64_t> symbols) {
  evaluate_sizes(sizes, values,
                 [&](const Symbol& s, SizeId id, std::span<const std::int64_t> done) {
                   return s.kind == Symbol::Kind::Runtime && s.high != SizeTable::kNoSize
                              ? done[s.high]
                              : symbols[static_cast<std::size_t>(sizes.node(id).value)];
                 });
}

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
