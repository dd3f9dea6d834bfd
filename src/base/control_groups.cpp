#include "base/control_groups.h"

#include <fstream>

namespace snug {

std::vector<ControlGroup> control_groups(const std::string& controller, const GroupFiles& files) {
  std::vector<ControlGroup> found;
  const auto add = [&](const std::string& root, std::string path, int version) {
    for (;;) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      found.push_back({path.empty() ? "/" : path, root + path + "/", version});
      if (path.empty()) return;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  };
  // "4:memory:/a/b" is of version 1, "0::/a/b" of version 2.
  std::ifstream lines(files.group);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t kinds = line.find(':');
    const std::size_t path = kinds == std::string::npos ? kinds : line.find(':', kinds + 1);
    if (path == std::string::npos) continue;
    const std::string of = "," + line.substr(kinds + 1, path - kinds - 1) + ",";
    if (of == ",,")
      add(files.groups, line.substr(path + 1), 2);
    else if (of.find("," + controller + ",") != std::string::npos)
      add(files.groups + "/" + controller, line.substr(path + 1), 1);
  }
  return found;
}

}  // namespace snug
