#include "api/op_info.h"

#include <utility>

#include "compile.h"

namespace snug {

std::vector<std::string_view> trait_names(const OpDef& op) {
  static constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
      {kElementwise, "elementwise"}, {kCommutative, "commutative"},
      {kReduction, "reduction"},     {kView, "view"},
      {kGenerator, "generator"},     {kRandom, "random"},
      {kMayFail, "may fail"},        {kInPlace, "in place"},
      {kInner, "inner graph"},       {kLeaf, "leaf"},
      {kBarrier, "barrier"},
  };
  std::vector<std::string_view> found;
  for (auto [trait, name] : kNames)
    if (has(op, trait)) found.push_back(name);
  return found;
}

std::vector<std::string_view> ways_to_run(const OpDef& op) {
  std::vector<std::string_view> ways;
  if (has(op, kElementwise | kGenerator | kReduction)) ways.push_back("kernel");
  if (has(op, kView)) ways.push_back("view");
  for (std::string_view library : libraries_of(op)) ways.push_back(library);
  return ways;
}

bool runs_on_devices(const OpDef& op) {
  return ways_to_run(op).empty() || has_device_form(op);  // none: it is written out, or a size
}

}  // namespace snug
