#pragma once

namespace snug {

/// While one lives, the reference interpreter leaves out calls of the host program on this thread:
/// it repeats what has run already.
class NoHostCalls {
 public:
  NoHostCalls();
  ~NoHostCalls();
  NoHostCalls(const NoHostCalls&) = delete;
  NoHostCalls& operator=(const NoHostCalls&) = delete;
  static bool active();
};

}  // namespace snug
