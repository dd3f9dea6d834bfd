#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  /// Likewise, in the bodies of loops that are on a device.
  std::vector<std::pair<std::shared_ptr<const Graph>, PlaceTrace>> bodies;

  const std::string& reason(std::uint32_t node) const { return reasons[reason_of[node]]; }
};

/// Sizes to predict times with: per input of the graph its shape, -1 where not known.
struct PlaceHints {
  std::vector<Dims> shapes = {};
  std::int64_t unknown = 256;  // stands for sizes nobody knows yet
  /// Whether a device has code for a node; without it all have. The host has code for all.
  std::function<bool(DeviceId, const Graph&, const Node&)> runs = {};
  /// Where all nodes are that may be there, but for those that feed nothing but the host with what
  /// it has: they would come back.
  std::optional<DeviceId> home = {};
  /// Where a node has to be, if it may be there; nothing: `home`.
  std::function<std::optional<DeviceId>(std::uint32_t, const Node&)> pin = {};
};

/// Puts every node on the device that makes the predicted time of a call, transfers included, the
/// shortest it finds. Arguments and outputs are on the first device, the host, and so is what may
/// fail, calls back or decides sizes; the body of a loop goes where the loop goes; shared variables
/// live where they are used most. What reads a value that was put on a device (`on_device`, a
/// shared variable that is pinned) is there, too, unless it is pinned. Transfers become nodes, one
/// end of each on the host.
Graph place(const Graph& graph, const std::vector<DeviceInfo>& devices, PlaceTrace& trace,
            const PlaceHints& hints = {});

/// An internal error if an edge crosses devices without a transfer. Operands that only decide sizes
/// cross freely: sizes are known on the host.
void verify_placement(const Graph& graph, std::string_view where);

/// Copies a value to the device of attr `device`.
extern const OpDef transfer_op;

}  // namespace snug
