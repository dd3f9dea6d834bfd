#include "base/seconds.h"

#include <fmt/format.h>

namespace snug {

std::string describe_seconds(double seconds) {
  struct Unit {
    const char* name;
    double seconds, up_to;  // in seconds: where the next one begins
  };
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  constexpr Unit kUnits[] = {{"us", 1e-6, 0.9995e-3}, {"ms", 1e-3, 0.9995},
                             {"s", 1, 2 * kMinute},   {"min", kMinute, 2 * kHour},
                             {"h", kHour, 2 * kDay},  {"days", kDay, 1e300}};
  for (const Unit& u : kUnits)
    if (seconds < u.up_to) {
      const double n = seconds / u.seconds;
      const int digits = n >= 99.95 || u.seconds >= kMinute ? 0 : n >= 9.995 ? 1 : 2;
      return fmt::format("{:.{}f} {}", n, digits, u.name);
    }
  return "years";
}

}  // namespace snug
