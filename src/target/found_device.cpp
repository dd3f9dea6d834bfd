#include "target/found_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace snug {

std::string FoundDevices::describe() const {
  const auto yes = [](bool b) { return b ? "yes" : "no"; };
  std::vector<std::vector<std::string>> rows{
      {"device", "kind", "memory", "largest", "units", "fp64", "fp16", "model"}};
  for (const FoundDevice& d : devices)
    rows.push_back({d.name, d.gpu ? "gpu" : "cpu", d.memory ? describe_bytes(d.memory) : "",
                    d.largest_allocation ? describe_bytes(d.largest_allocation) : "all",
                    std::to_string(d.units), yes(d.fp64), yes(d.fp16),
                    d.driver.empty() ? d.model : fmt::format("{}, {}", d.model, d.driver)});
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t k = 0; k + 1 < row.size(); ++k) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[k].size());
      const bool number = k >= 2 && k <= 4;
      text +=
          number ? fmt::format("{:>{}}  ", row[k], width) : fmt::format("{:<{}}  ", row[k], width);
    }
    text += row.back() + "\n";
  }
  if (!trouble.empty()) text += "note  " + trouble + "\n";
  return text;
}

}  // namespace snug
