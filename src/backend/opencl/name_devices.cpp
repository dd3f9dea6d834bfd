#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <tuple>

#include "backend/opencl/find_devices.h"

namespace snug {
namespace {

std::pair<int, int> version_of(const OpenClFound& f) {
  int major = 0, minor = 0;
  std::sscanf(f.version.c_str(), "OpenCL %d.%d", &major, &minor);
  return {major, minor};
}

/// Whether the maker of the card made the driver, too.
bool is_of_the_vendor(const OpenClFound& f) { return f.platform_vendor == f.vendor; }

/// The best driver of a card is the first.
bool is_better(const OpenClFound& a, const OpenClFound& b) {
  const auto rank = [](const OpenClFound& f) {
    const auto [major, minor] = version_of(f);
    return std::tuple(!f.trouble.empty(), -major, -minor, !is_of_the_vendor(f), f.platform,
                      f.platform_number, f.device_number);
  };
  return rank(a) < rank(b);
}

bool are_of_one_platform(const OpenClFound& a, const OpenClFound& b) {
  return a.platform == b.platform && a.platform_number == b.platform_number;
}

/// By what both drivers tell.
bool is_same_card(const OpenClFound& a, const OpenClFound& b) {
  if (!a.pci.empty() && !b.pci.empty()) return a.pci == b.pci;
  if (!a.uuid.empty() && !b.uuid.empty()) return a.uuid == b.uuid;
  return a.gpu == b.gpu && a.vendor_id == b.vendor_id && a.model == b.model && a.memory == b.memory;
}

/// One platform never lists a card twice: two that look the same are two.
bool belongs_to(const OpenClFound& f, const OpenClFound& card) {
  const auto is_twin = [&](const OpenClFound& o) { return are_of_one_platform(f, o); };
  return is_same_card(f, card) && !is_twin(card) &&
         std::none_of(card.others.begin(), card.others.end(), is_twin);
}

/// "Portable Computing Language": "portable-computing-language".
std::string name_of_platform(const std::string& platform) {
  std::string name;
  for (const char c : platform)
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "other" : name;
}

void name_others(OpenClFound& card) {
  for (std::size_t k = 0; k < card.others.size(); ++k) {
    OpenClFound& f = card.others[k];
    if (!f.trouble.empty()) continue;
    f.name = fmt::format("{}@{}", card.name, name_of_platform(f.platform));
    const auto same =
        std::count_if(card.others.begin(), card.others.begin() + static_cast<std::ptrdiff_t>(k),
                      [&](const OpenClFound& o) { return o.platform == f.platform; });
    if (same > 0) f.name += fmt::format("-{}", same + 1);
  }
}

}  // namespace

OpenClSearch name_devices(std::vector<OpenClFound> listed) {
  std::sort(listed.begin(), listed.end(), is_better);
  OpenClSearch out;
  for (OpenClFound& f : listed) {
    const auto card = std::find_if(out.devices.begin(), out.devices.end(),
                                   [&](const OpenClFound& there) { return belongs_to(f, there); });
    if (card != out.devices.end())
      card->others.push_back(std::move(f));
    else
      (f.trouble.empty() ? out.devices : out.unusable).push_back(std::move(f));
  }
  const auto order = [](const OpenClFound& f) {
    return std::tuple(!f.gpu, f.model, f.pci, f.uuid, f.platform, f.platform_number,
                      f.device_number);
  };
  for (auto* const all : {&out.devices, &out.unusable})
    std::sort(all->begin(), all->end(),
              [&](const OpenClFound& a, const OpenClFound& b) { return order(a) < order(b); });
  for (std::size_t k = 0; k < out.devices.size(); ++k) {
    out.devices[k].name = fmt::format("opencl:{}", k);
    name_others(out.devices[k]);
  }
  return out;
}

}  // namespace snug
