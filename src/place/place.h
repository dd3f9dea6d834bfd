#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "target/device_info.h"

namespace snug {

/// Why each node is where it is.
struct PlaceTrace {
  std::vector<std::string> devices;      // names, by DeviceId
  std::vector<std::string> reasons;      // each text once
  std::vector<std::uint32_t> reason_of;  // per node of the placed graph: index into reasons
  double seconds = 0;                    // predicted for one call, one task after the other
  std::size_t transfers = 0;

  const std::string& reason(std::uint32_t node) const { return reasons[reason_of[node]]; }
};

/// Sizes to predict times with: per input of the graph its shape, -1 where not known.
struct PlaceHints {
  std::vector<Dims> shapes = {};
  std::int64_t unknown = 256;  // stands for sizes nobody knows yet
};

/// Puts every node on the device that makes the predicted time of a call, transfers included, the
/// shortest it finds. Arguments and outputs are on the first device, the host; shared variables
/// live where they are used most. Transfers become nodes.
Graph place(const Graph& graph, const std::vector<DeviceInfo>& devices, PlaceTrace& trace,
            const PlaceHints& hints = {});

/// An internal error if an edge crosses devices without a transfer. Operands that only decide sizes
/// cross freely: sizes are known on the host.
void verify_placement(const Graph& graph, std::string_view where);

/// Copies a value to the device of attr `device`.
extern const OpDef transfer_op;

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
