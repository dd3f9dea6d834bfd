#pragma once
#include <string_view>
#include <vector>

#include "expr/op_def.h"

/// What people want to know of a row besides its fields.
namespace snug {

/// The traits in words.
std::vector<std::string_view> trait_names(const OpDef& op);
/// What computes an op: "kernel" (compiled loops, fused with others), "view" (nothing but another
/// way to look at its input), and the names of libraries, the first choice first.
std::vector<std::string_view> ways_to_run(const OpDef& op);
/// Whether OpenCL devices do it; else it runs on the host, with copies from and to the device.
bool runs_on_devices(const OpDef& op);

}  // namespace snug
