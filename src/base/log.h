#pragma once
#include <string_view>

namespace snug {

/// Writes "snug: warning: TEXT" to stderr: stdout belongs to the program, and to --json.
void warn(std::string_view text);

}  // namespace snug
