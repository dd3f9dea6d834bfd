#pragma once
#include <string>
#include <vector>

namespace snug {

/// Where the system says which control groups a process is in; tests give files of their own.
struct GroupFiles {
  std::string group = "/proc/self/cgroup";
  std::string groups = "/sys/fs/cgroup";
};

struct ControlGroup {
  std::string name;    // "/a/b"
  std::string folder;  // of its files, with a slash at the end; it need not be there
  int version = 2;
};

/// The group of the process that has to do with `controller` ("memory", "cpu"), and each around it,
/// of both versions.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const GroupFiles& files = {});

}  // namespace snug
