#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "target/device_info.h"

namespace snug {

/// The devices that a graph and the bodies of its loops name, by the marks of origins and by
/// `on_device`, each once.
std::vector<std::string> named_devices(const Graph& graph);

/// For PlaceHints: where nodes are put by the names of devices. What is on none of `devices` is put
/// nowhere.
std::function<std::optional<DeviceId>(std::uint32_t, const Node&)> pin_by_name(
    std::span<const DeviceInfo> devices);

}  // namespace snug
