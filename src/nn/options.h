#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"

/// What the layers do with their options.
namespace snug::nn {

inline void require_positive(const char* layer, const char* what, std::int64_t value) {
  if (value <= 0)
    fail(Fault::Value, fmt::format("{}: {} is {}, it must be positive", layer, what, value));
}

/// ", relu" for descriptions; "" without activation.
inline std::string shown_activation(const std::string& name) {
  return name.empty() ? "" : ", " + name;
}

/// One number per axis of what is given for all axes at once or one per axis.
inline std::vector<std::int64_t> per_axis(const char* layer, const char* what,
                                          const std::vector<std::int64_t>& given,
                                          std::size_t axes) {
  if (given.size() == 1) return std::vector<std::int64_t>(axes, given[0]);
  if (given.size() != axes)
    fail(Fault::Value,
         fmt::format("{}: {} has {} numbers, expected 1 or {}", layer, what, given.size(), axes));
  return given;
}

}  // namespace snug::nn
