#include "base/bytes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace snug {
namespace {

/// Bytes of a unit in any case; 0 if it is none.
double unit_bytes(std::string_view unit) {
  constexpr std::string_view kPrefixes = "kmgtp";
  std::string name;
  for (char c : unit) name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (name.empty() || name == "b") return 1;
  const std::size_t power = kPrefixes.find(name[0]) + 1;
  if (power == 0 || (name.substr(1) != "b" && name.substr(1) != "ib")) return 0;
  return std::pow(name.size() == 2 ? 1000. : 1024., static_cast<double>(power));
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view what) {
  if (text.empty()) return 0;
  auto refuse = [&](const char* why, const char* hint) {
    const std::string place = what.empty() ? "" : fmt::format("{}: ", what);
    fail(Fault::Value, fmt::format("{}'{}' is {}", place, text, why), hint);
  };
  const char* const end = text.data() + text.size();
  double number = 0;
  auto [rest, error] = std::from_chars(text.data(), end, number);
  while (rest < end && *rest == ' ') ++rest;
  const double bytes = number * unit_bytes({rest, static_cast<std::size_t>(end - rest)});
  if (error == std::errc::result_out_of_range || bytes >= 0x1p63)
    refuse("more than any machine has", "amounts are less than 8 EiB");
  if (error != std::errc() || !(bytes >= 1))
    refuse("no amount of memory",
           "a number above 0 of bytes, or with a unit: KB, MB, GB, TB, PB (powers of 1000), KiB, "
           "MiB, GiB, TiB, PiB (of 1024); for example \"512MiB\" or \"4GB\"");
  return static_cast<std::uint64_t>(bytes);
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

std::string amount_to_type(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{}", bytes);
  double unit = 1024;
  const char* name = "KiB";
  for (const char* next : {"MiB", "GiB", "TiB", "PiB"}) {
    if (static_cast<double>(bytes) < 1000 * unit) break;
    unit *= 1024;
    name = next;
  }
  const double amount = static_cast<double>(bytes) / unit;
  const double step = amount < 10 ? 100 : amount < 100 ? 10 : 1;
  for (double n = std::ceil(amount * step);; ++n) {
    const std::string text = fmt::format("{:.{}g}{}", n / step, 4, name);
    if (parse_bytes(text) >= bytes) return text;
  }
}

}  // namespace snug
