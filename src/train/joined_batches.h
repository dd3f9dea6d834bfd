#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "api/function.h"

namespace snug::nn {

/// What a training step can do whose batch cannot be cut, as one with batch norm: the largest equal
/// batches that make up `rows` together, each within `budget` bytes in the memory of `device`
/// (empty: the host), with one update for all of them. `step` joins batches
/// (optim::Options::accumulate), and takes `shapes` of a number of rows.
std::optional<Remedy> joined_batches(const Function& step,
                                     const std::function<std::vector<Dims>(std::int64_t)>& shapes,
                                     std::int64_t rows, std::uint64_t budget,
                                     const std::string& device = {});

}  // namespace snug::nn
