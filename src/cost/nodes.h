#pragma once
#include <span>

#include "graph/graph.h"
#include "target/device_info.h"

namespace snug {

/// The seconds that `device` takes for a node whose operands and results have these shapes.
double predict_seconds(const DeviceInfo& device, const Node& node, std::span<const Dims> in,
                       std::span<const Dims> out, std::span<const DType> in_dtypes);

/// Of that the arithmetic alone, on all cores: fewer operations per second where sizes are small.
double predict_work(const DeviceInfo& device, const Node& node, std::span<const Dims> in,
                    std::span<const Dims> out, std::span<const DType> in_dtypes);
/// The share of the measured rates that sizes allow: in a product of (m, k) and (k, n), and in a
/// convolution to `to` channels, each of which sums up `terms` products.
double product_share(double m, double n, double k);
/// The seconds in which such products move their operands and results, which the arithmetic waits
/// for.
double product_moves(const DeviceInfo& device, double m, double n, double k, double batch = 1);
double conv_share(const DeviceInfo& device, double to, double terms);
/// What an instruction of a fused loop costs, in additions.
double kernel_cost(Prim prim);
/// Below this many elements or products a task runs on one core: a second one costs more than it
/// saves.
inline constexpr std::int64_t kParallelPoints = 1 << 16;
/// The arithmetic operations of a node, in those of float32.
double predict_operations(const Node& node, std::span<const Dims> in, std::span<const Dims> out,
                          std::span<const DType> in_dtypes);

}  // namespace snug
