#include "target/found_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace snug {

std::vector<std::string> FoundDevices::names() const {
  std::vector<std::string> all;
  for (const FoundDevice& d : devices) {
    all.push_back(d.name);
    for (const FoundDevice& other : d.others)
      if (!other.name.empty()) all.push_back(other.name);
  }
  return all;
}

namespace {

std::vector<std::string> row_of(const FoundDevice& d, const std::string& card) {
  const auto yes = [](bool b) { return b ? "yes" : "no"; };
  std::string model = d.driver.empty() ? d.model : fmt::format("{}, {}", d.model, d.driver);
  if (!card.empty()) model = fmt::format("{} by another driver: {}", card, d.driver);
  if (!d.trouble.empty()) model += fmt::format(": cannot be used: {}", d.trouble);
  return {d.name.empty() ? "-" : d.name,
          d.gpu ? "gpu" : "cpu",
          d.memory ? describe_bytes(d.memory) : "",
          d.largest_allocation ? describe_bytes(d.largest_allocation) : "all",
          std::to_string(d.units),
          yes(d.fp64),
          yes(d.fp16),
          std::move(model)};
}

}  // namespace

std::string FoundDevices::describe() const {
  std::vector<std::vector<std::string>> rows{
      {"device", "kind", "memory", "largest", "units", "fp64", "fp16", "model"}};
  for (const FoundDevice& d : devices) {
    rows.push_back(row_of(d, ""));
    for (const FoundDevice& other : d.others) rows.push_back(row_of(other, d.name));
  }
  for (const FoundDevice& d : unusable) rows.push_back(row_of(d, ""));
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
