#include "place/pins.h"

#include <algorithm>

#include "base/origin_marks.h"
#include "ops/rows.h"

namespace snug {
namespace {

bool is_host(std::string_view name) { return name == "cpu" || name == "cpu:0"; }

/// "": nowhere.
std::string_view named_device(const Node& node) {
  if (node.op == &ops::on_device) return node.attrs.text("device");
  return device_mark(node.origin);
}

void collect(const Graph& graph, std::vector<std::string>& names) {
  for (const Node& node : graph.nodes()) {
    const std::string_view name = named_device(node);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.emplace_back(name);
    if (node.inner) collect(*node.inner, names);
  }
}

}  // namespace

std::vector<std::string> named_devices(const Graph& graph) {
  std::vector<std::string> names;
  collect(graph, names);
  return names;
}

std::function<std::optional<DeviceId>(std::uint32_t, const Node&)> pin_by_name(
    std::span<const DeviceInfo> devices) {
  std::vector<std::string> names;
  for (const DeviceInfo& d : devices) names.push_back(d.name);
  return [names](std::uint32_t, const Node& node) -> std::optional<DeviceId> {
    const std::string_view name = named_device(node);
    if (name.empty()) return {};
    if (is_host(name)) return DeviceId{0};
    const auto found = std::find(names.begin() + 1, names.end(), name);
    if (found == names.end()) return {};
    return static_cast<DeviceId>(found - names.begin());
  };
}

}  // namespace snug
