#include "base/bytes.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace snug {

std::uint64_t parse_bytes(const std::string& text) {
  if (text.empty()) return 0;
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  std::string unit = text.substr(used);
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  constexpr std::pair<const char*, double> kUnits[] = {{"", 1},
                                                       {"B", 1},
                                                       {"KiB", 1024.},
                                                       {"MiB", 1048576.},
                                                       {"GiB", 1073741824.},
                                                       {"TiB", 1099511627776.},
                                                       {"kB", 1e3},
                                                       {"KB", 1e3},
                                                       {"MB", 1e6},
                                                       {"GB", 1e9},
                                                       {"TB", 1e12}};
  for (auto [name, factor] : kUnits)
    if (used > 0 && unit == name && number > 0) return static_cast<std::uint64_t>(number * factor);
  fail(Fault::Value, fmt::format("memory: '{}' is no amount of memory", text),
       "for example \"512MiB\" or \"4GB\"");
}

std::string describe_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double v = static_cast<double>(bytes);
  for (const char* unit : {"KiB", "MiB", "GiB"}) {
    v /= 1024;
    if (v < 1024) return fmt::format("{:.2f} {}", v, unit);
  }
  return fmt::format("{:.2f} TiB", v / 1024);
}

}  // namespace snug
