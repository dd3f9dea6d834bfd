#include "target/budgets.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"

namespace snug {

std::uint64_t BudgetText::for_device(std::string_view name) const {
  const auto found =
      std::find_if(of.begin(), of.end(), [&](const auto& named) { return named.first == name; });
  return found == of.end() ? each : found->second;
}

BudgetText parse_budget_text(std::string_view text, std::string_view what) {
  BudgetText budgets;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t equal = part.find('=');
    if (!text.empty() && (part.empty() || equal == 0 || equal + 1 == part.size()))
      fail(Fault::Value, fmt::format("{}{}'{}' is no budget", what, what.empty() ? "" : ": ", part),
           "write \"4GiB\", or one for each device: \"opencl:0=3GiB,cpu=8GiB\"");
    const std::string_view name = part.substr(0, equal);
    for (const auto& named : budgets.of)
      if (equal != std::string_view::npos && named.first == name)
        fail(Fault::Value,
             fmt::format("{}{}{} has two budgets", what, what.empty() ? "" : ": ", name),
             "give it one");
    if (equal == std::string_view::npos)
      budgets.each = parse_bytes(part, what);
    else
      budgets.of.emplace_back(name, parse_bytes(part.substr(equal + 1), what));
    at = end + 1;
  }
  return budgets;
}

}  // namespace snug
