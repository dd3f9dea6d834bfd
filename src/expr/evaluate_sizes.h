#pragma once
#include <concepts>
#include <span>
#include <vector>

#include "expr/op_def.h"
#include "expr/sizes.h"

namespace snug {

/// The value of every expression of `sizes`, in one forward loop; `value_of(symbol, id, values)` is
/// asked for symbols. A symbol's bounds have smaller ids, so it may look at what is done so far.
template <std::invocable<const Symbol&, SizeId, std::span<const std::int64_t>> F>
void evaluate_sizes(const SizeTable& sizes, std::span<std::int64_t> values, F&& value_of) {
  std::span<const SizeNode> nodes = sizes.nodes();
  for (SizeId id = 0; id < nodes.size(); ++id)
    values[id] = nodes[id].op == SizeOp::Symbol
                     ? value_of(sizes.symbol_of(id), id, std::span<const std::int64_t>(values))
                     : evaluate(nodes[id], values);
}
/// The same from the values of the symbols, by symbol number. Run-time symbols get their upper
/// bound, if they have one.
void evaluate_sizes(const SizeTable& sizes, std::span<std::int64_t> values,
                    std::span<const std::int64_t> symbols);

inline Dims eval_dims(const SizeDims& dims, std::span<const std::int64_t> values) {
  Dims out;
  for (SizeId id : dims) out.push_back(values[id]);
  return out;
}

/// True if the requirement holds for these sizes.
bool holds(const Infer::Requirement& requirement, std::span<const std::int64_t> values);
/// "dot: inner sizes differ: (32, 10) and (4, 10)", with the actual shapes.
std::string describe(const Infer::Requirement& requirement, std::span<const std::int64_t> values);
/// Throws a Shape error at the requirement's origin unless it holds.
void check(const Infer::Requirement& requirement, std::span<const std::int64_t> values);

}  // namespace snug
